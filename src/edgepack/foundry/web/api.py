"""The functions that JavaScript calls, linked straight to ONNX Runtime instead of through its table of the whole C API."""

from __future__ import annotations

import re

from edgepack.errors import ToolError

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
    """``api.cc`` that calls ONNX Runtime's functions by their names. Raises ``ToolError`` for another file."""
    if source.count(_TABLE) < 10 or any(not re.search(rf"\b{name}\(", source) for name in EXPORTS):
        raise ToolError(f"{API} is not as ONNX Runtime 1.21's")
    source = source.replace("#include <iostream>\n", "")
    return _PREAMBLE + source.replace(_TABLE, "OrtApis::")
