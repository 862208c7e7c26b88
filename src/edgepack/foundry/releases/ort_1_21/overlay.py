"""A few of ONNX Runtime's own files, changed where they cost size and give a device nothing: the overlay, and protobuf.

Every failed check of ONNX Runtime makes a location, a stack trace and a message where it stands, some hundred bytes
of code each time, before the process ends (builds without exceptions cannot do otherwise); here it calls one
function that does. Log statements below warning are left out. What is computed stays the same.
"""

import re
from collections.abc import Iterable

from edgepack.foundry.patch import PROTOBUF_MESSAGES, Patch, RuntimeRequest

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


def lean_checks(common: str, request: RuntimeRequest) -> str:
    """``common.h`` whose checks call a function when they fail."""
    return common + _COMMON


def lean_logging(macros: str, request: RuntimeRequest) -> str:
    """``macros.h`` whose statements below warning are nothing."""

    def compare(match: re.Match[str]) -> str:
        if match[1]:
            return f"if ({_SEVERITY}##severity < {_SEVERITY}WARNING || !(logger).OutputIsEnabled("
        return f"if ({_SEVERITY}##severity >= {_SEVERITY}WARNING && (logger).OutputIsEnabled("

    return _ENABLED.sub(compare, macros)


def lean_messages(source: str, request: RuntimeRequest) -> str:
    """protobuf's generated code for ONNX's messages without reading and writing them.

    An ORT-format model holds no protobuf; but a message's table of virtual functions names these.
    """
    return _MESSAGE_FUNCTION.sub(lambda match: match["head"] + "  __builtin_trap();\n}", source)


def asks_for_messages(symbols: Iterable[str]) -> list[str]:
    """Symbols that the library's own objects need, and that read or write protobuf messages, sorted."""
    return sorted(symbol for symbol in symbols if _ASKS_FOR_MESSAGES.search(symbol))


OVERLAY = (
    Patch(
        name="lean checks",
        file=COMMON,
        must_find=tuple(
            re.compile(rf"#define {name}\(") for name in ("ORT_THROW", "ORT_ENFORCE", "ORT_RETURN_IF")
        ),
        rewrite=lean_checks,
        gives="size",
        group="lean checks",
    ),
    Patch(name="lean logging", file=MACROS, must_find=(_ENABLED,), rewrite=lean_logging, gives="size"),
    Patch(
        name="what failed checks call",
        file=HELPER,
        units=f"onnxruntime_*/{HELPER}",
        rewrite=lambda helper, _: helper + _HELPER,
        gives="size",
        group="lean checks",
    ),
)
MESSAGES_PATCH = Patch(
    name="protobuf messages that are neither read nor written",
    file=MESSAGES,
    units=f"*/{MESSAGES}",
    applies=lambda request: not asks_for_messages(request.asked),
    must_find=(_MESSAGE_FUNCTION,),
    rewrite=lean_messages,
    trim=PROTOBUF_MESSAGES,
    gives="size",
)
