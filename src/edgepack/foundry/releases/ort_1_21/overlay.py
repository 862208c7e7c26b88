"""A few of ONNX Runtime's own files, changed where they cost size and give a device nothing.

Every failed check of ONNX Runtime makes a location, a stack trace and a message where it stands, some hundred bytes
of code each time, before the process ends (builds without exceptions cannot do otherwise); here it calls one
function that does. Log statements below warning are left out. What is computed stays the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from edgepack.errors import ToolError
from edgepack.files.store import key_of, written_beside

COMMON = "core/common/common.h"
MACROS = "core/common/logging/macros.h"
HELPER = "core/common/helper.cc"
MESSAGES = "onnx/onnx-ml.pb.cc"

_COMMON = """
#ifdef ORT_NO_EXCEPTIONS
namespace onnxruntime {
[[noreturn]] __attribute__((cold)) void FailAt(const char* file, int line, const char* function,
                                               const char* condition, const std::string& message);
__attribute__((cold)) common::Status StatusAt(const char* file, int line, const char* function,
                                              const std::string& message);
}  // namespace onnxruntime
#undef ORT_THROW
#define ORT_THROW(...) \\
  ::onnxruntime::FailAt(__FILE__, __LINE__, __func__, nullptr, ::onnxruntime::MakeString(__VA_ARGS__))
#undef ORT_ENFORCE
#define ORT_ENFORCE(condition, ...)                                   \\
  do {                                                                \\
    if (__builtin_expect(!(condition), 0))                            \\
      ::onnxruntime::FailAt(__FILE__, __LINE__, __func__, #condition, \\
                            ::onnxruntime::MakeString(__VA_ARGS__));  \\
  } while (false)
#undef ORT_RETURN_IF
#define ORT_RETURN_IF(condition, ...)                                        \\
  do {                                                                       \\
    if (condition)                                                           \\
      return ::onnxruntime::StatusAt(__FILE__, __LINE__, __func__,           \\
                                     ::onnxruntime::MakeString(__VA_ARGS__)); \\
  } while (false)
// Upstream also tells its telemetry, which is empty on Linux.
#undef ORT_RETURN_IF_ERROR_SESSIONID
#define ORT_RETURN_IF_ERROR_SESSIONID(expr, session_id) \\
  do {                                                  \\
    auto _status = (expr);                              \\
    if ((!_status.IsOK())) return _status;              \\
  } while (0)
#endif
"""
_HELPER = """
#ifdef ORT_NO_EXCEPTIONS
namespace onnxruntime {
void FailAt(const char* file, int line, const char* function, const char* condition, const std::string& message) {
  const CodeLocation location(file, line, function, GetStackTrace());
  PrintFinalMessage(OnnxRuntimeException(location, condition, message).what());
  abort();
}
common::Status StatusAt(const char* file, int line, const char* function, const std::string& message) {
  const CodeLocation location(file, line, function);
  return common::Status(common::ONNXRUNTIME, common::FAIL, MakeString(location.ToString(), " ", message));
}
}  // namespace onnxruntime
#endif
"""
_ENABLED = re.compile(r"if \((!?)\(logger\)\.OutputIsEnabled\(")
_SEVERITY = "::onnxruntime::logging::Severity::k"
_MESSAGE_FUNCTION = re.compile(
    r"^(?P<head>(?:const char\*|uint8_t\*|size_t) \w+::(?:_InternalParse|_InternalSerialize|ByteSizeLong)\([^{}]*?\{\n)"
    r".*?^\}$",
    re.M | re.S,
)
_ASKS_FOR_MESSAGES = re.compile(
    r"MessageLite\d+(?:Parse|Serialize|Append|Merge)|_Internal(?:Parse|Serialize)|ByteSizeLong|Coded(?:In|Out)put"
)


def write_overlay(onnxruntime: Path, folder: Path) -> Path:
    """Write the changed headers and the source that goes with them, to be found before upstream's.

    Returns the folder below ``folder`` that holds them, named by the digest of their contents.
    """
    include = onnxruntime / "include/onnxruntime"
    changed = {
        COMMON: lean_checks((include / COMMON).read_text()),
        MACROS: lean_logging((include / MACROS).read_text()),
        HELPER: (onnxruntime / "onnxruntime" / HELPER).read_text() + _HELPER,
    }
    place = folder / key_of(changed)[:16]
    for path, text in changed.items():
        if not (place / path).is_file() or (place / path).read_text() != text:
            with written_beside(place / path) as beside:
                beside.write_text(text)
    return place


def lean_checks(common: str) -> str:
    """``common.h`` whose checks call a function when they fail. Raises ``ToolError`` for another file."""
    if any(f"#define {name}(" not in common for name in ("ORT_THROW", "ORT_ENFORCE", "ORT_RETURN_IF")):
        raise ToolError(f"{COMMON} is not as ONNX Runtime 1.21's")
    return common + _COMMON


def lean_logging(macros: str) -> str:
    """``macros.h`` whose statements below warning are nothing. Raises ``ToolError`` for another file."""

    def compare(match: re.Match[str]) -> str:
        if match[1]:
            return f"if ({_SEVERITY}##severity < {_SEVERITY}WARNING || !(logger).OutputIsEnabled("
        return f"if ({_SEVERITY}##severity >= {_SEVERITY}WARNING && (logger).OutputIsEnabled("

    text, count = _ENABLED.subn(compare, macros)
    if count == 0:
        raise ToolError(f"{MACROS} is not as ONNX Runtime 1.21's")
    return text


def lean_messages(source: str) -> str:
    """protobuf's generated code for ONNX's messages without reading and writing them.

    An ORT-format model holds no protobuf; but a message's table of virtual functions names these.
    """
    return _MESSAGE_FUNCTION.sub(lambda match: match["head"] + "  __builtin_trap();\n}", source)


def asks_for_messages(symbols: Iterable[str]) -> list[str]:
    """Of the symbols that the library's own objects need those that read or write protobuf messages, sorted."""
    return sorted(symbol for symbol in symbols if _ASKS_FOR_MESSAGES.search(symbol))
