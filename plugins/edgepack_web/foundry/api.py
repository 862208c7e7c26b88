"""The functions that JavaScript calls, linked straight to ONNX Runtime instead of through its table of the whole C API."""

import re

from edgepack.api.kit import Patch

API = "onnxruntime/wasm/api.cc"
EXPORTS = (
    "OrtInit",
    "OrtGetLastError",
    "OrtCreateSessionOptions",
    "OrtAppendExecutionProvider",
    "OrtAddFreeDimensionOverride",
    "OrtAddSessionConfigEntry",
    "OrtReleaseSessionOptions",
    "OrtCreateSession",
    "OrtReleaseSession",
    "OrtGetInputOutputCount",
    "OrtGetInputName",
    "OrtGetOutputName",
    "OrtFree",
    "OrtCreateTensor",
    "OrtGetTensorData",
    "OrtReleaseTensor",
    "OrtCreateRunOptions",
    "OrtAddRunConfigEntry",
    "OrtReleaseRunOptions",
    "OrtRun",
    "OrtEndProfiling",
)
"""What npm's onnxruntime-web calls on the CPU. Its functions for tensors on a GPU (IO binding) and for training are left out."""

_PREAMBLE = """\
// The C++ header would ask for the table of the C API when the module starts.
#define ORT_API_MANUAL_INIT
#include <emscripten.h>
// Exports are named to the linker, so that those which nobody calls are left out.
#undef EMSCRIPTEN_KEEPALIVE
#define EMSCRIPTEN_KEEPALIVE
#include "core/session/onnxruntime_c_api.h"
#include "core/session/ort_apis.h"
"""
_TABLE = "Ort::GetApi()."


def direct_api(source: str) -> str:
    """``api.cc`` that calls ONNX Runtime's functions by their names."""
    source = source.replace("#include <iostream>\n", "")
    return _PREAMBLE + source.replace(_TABLE, "OrtApis::")


DIRECT_API = Patch(
    name="functions for JavaScript",
    file="wasm/api.cc",
    units=f"*/{API}",
    must_find=(re.compile(re.escape(_TABLE)), *(re.compile(rf"\b{name}\(") for name in EXPORTS)),
    rewrite=lambda source, _: direct_api(source),
    root=True,
)
"""The functions that JavaScript calls, and nothing else of the C API, are what a runtime is asked for."""
