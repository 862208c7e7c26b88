"""The libraries of a TensorRT-RTX bundle: ONNX Runtime for the processor, and the plugin provider with what it needs.

Of the provider's wheel the quantization plugins (70 MB) and a shim stay out: nothing that runs an embedding model names
them. NVIDIA's own libraries are as NVIDIA made them; the provider, which is Apache-2.0, gets a run path.
"""

from pathlib import Path

from edgepack.api import BuildContext
from edgepack.api.kit import (
    RuntimeFolder,
    closure_of,
    onnxruntime_files,
    system_libraries,
    wheel_file,
    wheel_files,
)
from edgepack_cuda.api import DRIVER, HOST, cuda_terms
from edgepack_tensorrt.pins import BINDINGS_VERSION, ONNXRUNTIME, PROVIDER, bindings

SCHEMA = "3"
NAME = "NvTensorRTRTXExecutionProvider"
LIBRARY = "libonnxruntime_providers_nv_tensorrt_rtx.so"
DRIVER_LIBRARIES = (*DRIVER, "libnvidia-ml.so.1")
HOST_LIBRARIES = (*HOST, "libz.so.1")


def bindings_folder(context: BuildContext) -> Path:
    """TensorRT's Python module for this Python, unpacked and not installed."""
    return wheel_files(bindings(), context=context)


def rtx_libraries(context: BuildContext) -> RuntimeFolder:
    """The closure of the provider and ONNX Runtime, made once for the pinned wheels and this machine's C++ runtime."""
    host = system_libraries(HOST_LIBRARIES, context=context)

    def make(folder: Path) -> None:
        made = RuntimeFolder(folder)
        provider = wheel_files(
            PROVIDER, keep=("*.so*", "*Acknowledgements.txt", "*/METADATA"), context=context
        )
        runtime = wheel_files(ONNXRUNTIME, keep=onnxruntime_files(), context=context)
        made.add_onnxruntime(runtime)
        closure = closure_of(
            [made.onnxruntime, wheel_file(provider, LIBRARY)],
            among=[path for path in provider.rglob("*.so*") if path.is_file()],
            elsewhere=(*HOST_LIBRARIES, *DRIVER_LIBRARIES),
        )
        for name, path in closure.files.items():
            if path != made.onnxruntime:
                made.add(path, name=name)
        made.beside_each_other(LIBRARY, context=context)
        made.add_system(library for library in host if library.name in closure.elsewhere)
        _add_terms(made, provider, context=context)

    inputs = {
        "provider": PROVIDER.sha256,
        "onnxruntime": ONNXRUNTIME.sha256,
        "host": " ".join(str(library.file) for library in host),
        "schema": SCHEMA,
    }
    return RuntimeFolder(context.store.cached("tensorrt-runtime", inputs, make))


def _add_terms(made: RuntimeFolder, provider: Path, *, context: BuildContext) -> None:
    made.add_license(
        f"tensorrt-rtx-{BINDINGS_VERSION}",
        wheel_file(bindings_folder(context), "LICENSE.txt"),
        wheel_file(provider, "Acknowledgements.txt"),
    )
    made.add_license(f"{PROVIDER.name}-{PROVIDER.version}", wheel_file(provider, "METADATA"))
    made.add_license("libcudart", cuda_terms("libcudart.so.13", PROVIDER))
