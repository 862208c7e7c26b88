"""The libraries of a TensorRT-RTX bundle: ONNX Runtime for the processor, and the plugin provider with what it needs.

Of the provider's wheel the quantization plugins (70 MB) and a shim stay out: nothing that runs an embedding model names
them. NVIDIA's own libraries are as NVIDIA made them; the provider, which is Apache-2.0, gets a run path.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from edgepack.api import BuildContext, find, system_libraries, wheel_files
from edgepack_tensorrt.closure import DRIVER_LIBRARIES, Closure, closure_of
from edgepack_tensorrt.pins import BINDINGS_VERSION, ONNXRUNTIME, PROVIDER, bindings

NAME = "NvTensorRTRTXExecutionProvider"
LIBRARY = "libonnxruntime_providers_nv_tensorrt_rtx.so"
HOST_LIBRARIES = ("libstdc++.so.6", "libgcc_s.so.1", "libz.so.1")
CUDART_TERMS = (
    "libcudart (NVIDIA CUDA Toolkit), as it is in the wheel onnxruntime-ep-nv-tensorrt-rtx-cu13, unmodified.\n"
    "It is redistributable under the NVIDIA Software License Agreement and CUDA Supplement, Attachment A:\n"
    "https://docs.nvidia.com/cuda/eula/\n"
)


@dataclass(frozen=True, kw_only=True)
class Libraries:
    """A folder that holds every library of the bundle under the name that others ask for it."""

    folder: Path
    onnxruntime: Path
    companions: tuple[Path, ...]
    licenses: tuple[Path, ...]
    driver: tuple[str, ...]


def bindings_folder(context: BuildContext) -> Path:
    """TensorRT's Python module for this Python, unpacked and not installed."""
    return wheel_files(bindings(), context=context)


def rtx_libraries(context: BuildContext) -> Libraries:
    """The closure of the provider and ONNX Runtime, made once for the pinned wheels and this machine's C++ runtime."""
    host = system_libraries(HOST_LIBRARIES, context=context)

    def make(folder: Path) -> None:
        provider = wheel_files(
            PROVIDER, keep=("*.so*", "*Acknowledgements.txt", "*/METADATA"), context=context
        )
        runtime = wheel_files(
            ONNXRUNTIME, keep=("*/capi/libonnxruntime.so*", "onnxruntime/LICENSE", "*.txt"), context=context
        )
        start = [_one(runtime, "libonnxruntime.so*"), _one(provider, LIBRARY)]
        closure = closure_of(start, among=_libraries(provider), host=HOST_LIBRARIES)
        _lay(closure, folder / "lib", context=context)
        for library in host:
            if library.name in closure.host:
                shutil.copyfile(library.file, folder / "lib" / library.name)
        (folder / "licenses").mkdir()
        for library in host:
            component = library.name.split(".so")[0]
            (folder / "licenses" / f"{component}.txt").write_text(library.license, encoding="utf-8")
        _write_terms(provider, runtime, folder / "licenses", context=context)

    inputs = {
        "provider": PROVIDER.sha256,
        "onnxruntime": ONNXRUNTIME.sha256,
        "host": " ".join(str(library.file) for library in host),
        "schema": "1",
    }
    made = context.store.cached("tensorrt-runtime", inputs, make)
    files = sorted((made / "lib").iterdir())
    main = next(path for path in files if path.name.startswith("libonnxruntime.so"))
    return Libraries(
        folder=made / "lib",
        onnxruntime=main,
        companions=tuple(path for path in files if path != main),
        licenses=tuple(sorted((made / "licenses").iterdir())),
        driver=DRIVER_LIBRARIES,
    )


def _one(folder: Path, pattern: str) -> Path:
    return next(iter(sorted(folder.rglob(pattern))))


def _libraries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.so*") if path.is_file())


def _lay(closure: Closure, folder: Path, *, context: BuildContext) -> None:
    folder.mkdir()
    for name, path in closure.files.items():
        shutil.copyfile(path, folder / name)
    context.run([find("patchelf"), "--set-rpath", "$ORIGIN", folder / LIBRARY])


def _write_terms(provider: Path, runtime: Path, folder: Path, *, context: BuildContext) -> None:
    """Licence texts, one a component."""
    texts = {
        "onnxruntime": [_one(runtime, "LICENSE"), _one(runtime, "ThirdPartyNotices.txt")],
        f"tensorrt-rtx-{BINDINGS_VERSION}": [
            _one(bindings_folder(context), "LICENSE.txt"),
            _one(provider, "Acknowledgements.txt"),
        ],
        f"{PROVIDER.name}-{PROVIDER.version}": [_one(provider, "METADATA")],
    }
    for component, paths in texts.items():
        content = b"\n\n".join(path.read_bytes().rstrip() for path in paths)
        (folder / f"{component}.txt").write_bytes(content + b"\n")
    (folder / "libcudart.txt").write_text(CUDART_TERMS, encoding="utf-8")
