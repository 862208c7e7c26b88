"""What comes from npm, pinned by npm's own digests."""

from pathlib import Path

from edgepack.api import BuildContext, RuntimeArtifact, Target
from edgepack.api.kit import RELEASE, fetch_sources, license_text
from edgepack_web.foundry.emscripten import emscripten
from edgepack_web.npm.package import npm_package
from edgepack_web.page import ENGINE
from edgepack_web.webgpu import webgpu_package

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
TOKENIZERS_VERSION = "0.2.0"
TOKENIZERS_INTEGRITY = (
    "sha512-LidMHe1FpcSYH4vcSjXooda34pC0M8m1gmDOv7SQi6Iv+ib1zX7J3sHBCC9/3FPCkn2k1b55FneVqMRxrr99pg=="
)
TOKENIZERS_FILES = ("dist/tokenizers.min.mjs", "LICENSE")


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


def tokenizers_library(context: BuildContext) -> Path:
    """The folder of @huggingface/tokenizers."""
    return npm_package(
        "@huggingface/tokenizers",
        TOKENIZERS_VERSION,
        integrity=TOKENIZERS_INTEGRITY,
        keep=TOKENIZERS_FILES,
        context=context,
    )


def fetch(target: Target, context: BuildContext) -> None:
    """Everything that a build may ask npm for, and what a reduced runtime is compiled from and with."""
    runtime = target.options.get("runtime", "reduced")
    if runtime == "reduced":
        emscripten(context=context)
        fetch_sources(context=context)
    if runtime != ENGINE:
        onnxruntime_web(context=context)
    tokenizers_library(context)
    if target.options.get("webgpu"):
        webgpu_package(context)
