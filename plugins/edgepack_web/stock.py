"""npm's onnxruntime-web, of the same version as the converter: the runtime as it comes, and the JavaScript around it."""

from pathlib import Path

from edgepack.api import BuildContext, RuntimeArtifact
from edgepack.api.kit import RELEASE, license_text
from edgepack_web.npm.package import npm_package

PACKAGE = "onnxruntime-web"
INTEGRITY = "sha512-adzOe+7uI7lKz6pQNbAsLMQd2Fq5Jhmoxd8LZjJr8m3KvbFyiYyRxRiC57/XXD+jb18voppjeGAjoZmskXG+7A=="
WASM, GLUE = "ort-wasm-simd-threaded.wasm", "ort-wasm-simd-threaded.mjs"
KEEP = (
    "package.json",
    "types.d.ts",
    f"dist/{WASM}",
    f"dist/{GLUE}",
    "dist/ort.wasm.min.mjs",
    # What goes with WebGPU.
    "dist/ort-wasm-simd-threaded.jsep.*",
    "dist/ort.webgpu.min.mjs",
)


def onnxruntime_web(*, context: BuildContext) -> Path:
    """The package's folder in the store, fetched with npm: ``dist/`` with the modules for the CPU and for WebGPU.

    Raises ``MissingToolError`` without npm, ``DownloadError``, or ``HashMismatchError``.
    """
    return npm_package(PACKAGE, RELEASE.version, integrity=INTEGRITY, keep=KEEP, context=context)


def package_license(component: str, version: str, *, context: BuildContext) -> Path:
    """The package has no licence file of its own: ONNX Runtime's, filed under the component."""
    file = context.work_dir / f"{component}-{version}.txt"
    said = f"{PACKAGE} {version} (MIT), https://github.com/microsoft/onnxruntime\n\n"
    file.write_text(said + str(license_text("onnxruntime")), encoding="utf-8")
    return file


def stock_web_runtime(*, context: BuildContext) -> RuntimeArtifact:
    """The package's own WebAssembly for the CPU, with threads; it holds every operator, so also those needed."""
    folder = onnxruntime_web(context=context)
    return RuntimeArtifact(
        library=folder / "dist" / WASM,
        companions=(folder / "dist" / GLUE,),
        version=RELEASE.version,
        kind="stock",
        provides=None,
        toolchain=f"{PACKAGE} {RELEASE.version}",
        licenses=(package_license("onnxruntime", RELEASE.version, context=context),),
    )
