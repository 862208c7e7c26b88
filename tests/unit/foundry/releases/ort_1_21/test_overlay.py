"""The files of ONNX Runtime that are changed, and that what is changed is still there to be changed."""

import subprocess
from pathlib import Path

import pytest
from tests.support.small_archive import request

from edgepack.errors import ToolError
from edgepack.foundry.compile.overlay import write_overlay
from edgepack.foundry.releases.ort_1_21.overlay import (
    COMMON,
    HELPER,
    MACROS,
    MESSAGES_PATCH,
    OVERLAY,
    asks_for_messages,
)
from edgepack.foundry.releases.registry import RELEASE
from edgepack.foundry.sources.tree import SourceTree

CHECKS = "#define ORT_THROW(...) a\n#define ORT_ENFORCE(condition, ...) b\n#define ORT_RETURN_IF(condition, ...) c\n"
LOGGING = """\
#define LOGS(logger, severity) \\
  if (!(logger).OutputIsEnabled(::onnxruntime::logging::Severity::k##severity, SYSTEM)) { \\
  } else                                                                       \\
    Capture()
#define LOGF(logger, severity) \\
    if ((logger).OutputIsEnabled(::onnxruntime::logging::Severity::k##severity, SYSTEM)) \\
      Capture()
"""
MESSAGES = """\
const char* NodeProto::_InternalParse(const char* ptr, ::_pbi::ParseContext* ctx) {
  while (!ctx->Done(&ptr)) {
    goto handle;
  }
  return ptr;
}

uint8_t* NodeProto::_InternalSerialize(
    uint8_t* target, ::PROTOBUF_NAMESPACE_ID::io::EpsCopyOutputStream* stream) const {
  return target;
}

size_t NodeProto::ByteSizeLong() const {
  return 1;
}

void NodeProto::MergeFrom(const NodeProto& from) {
  keep(from);
}
"""


def test_a_failed_check_calls_a_function() -> None:
    checks, _, _ = OVERLAY
    text = checks.rewritten(CHECKS, request(), origin="ONNX Runtime 1.21")
    assert text.startswith(CHECKS)
    assert "#undef ORT_ENFORCE" in text and "FailAt(__FILE__, __LINE__, __func__, #condition" in text


def test_statements_below_warning_are_nothing() -> None:
    _, logging, _ = OVERLAY
    text = logging.rewritten(LOGGING, request(), origin="ONNX Runtime 1.21")
    below = "k##severity < ::onnxruntime::logging::Severity::kWARNING || !(logger).OutputIsEnabled("
    above = "k##severity >= ::onnxruntime::logging::Severity::kWARNING && (logger).OutputIsEnabled("
    assert text.count(below) == 1 and text.count(above) == 1


def test_messages_are_neither_read_nor_written() -> None:
    text = MESSAGES_PATCH.rewritten(MESSAGES, request(), origin="ONNX Runtime 1.21")
    assert text.count("__builtin_trap();") == 3
    assert "keep(from);" in text and "goto handle" not in text
    assert text.count("{") == text.count("}")


def test_what_failed_checks_call_is_added() -> None:
    _, _, helper = OVERLAY
    text = helper.rewritten("// upstream's helper\n", request(), origin="ONNX Runtime 1.21")
    assert text.startswith("// upstream's helper\n")
    for function in ("void FailAt(const char* file", "common::Status StatusAt(const char* file"):
        assert text.count(function) == 1


def test_files_of_another_release_are_refused() -> None:
    checks, logging, _ = OVERLAY
    for patch, name in (
        (checks, r"common\.h"),
        (logging, r"macros\.h"),
        (MESSAGES_PATCH, r"onnx-ml\.pb\.cc"),
    ):
        with pytest.raises(ToolError, match=rf"{name} is not as ONNX Runtime 2's: {patch.name} does"):
            patch.rewritten("#pragma once\n", request(), origin="ONNX Runtime 2")


def test_who_reads_or_writes_messages() -> None:
    read = "_ZN6google8protobuf11MessageLite14ParseFromArrayEPKvi"
    size = "_ZNK4onnx11TensorProto12ByteSizeLongEv"
    assert asks_for_messages([read, size, "_ZN4onnx11TensorProtoC1ERKS0_", "malloc"]) == sorted([read, size])


@pytest.mark.tools("g++")
def test_the_changed_macros_compile_and_do_what_upstream_s_do(tmp_path: Path) -> None:
    tree = SourceTree(folder=tmp_path, catalogue=RELEASE.catalogue, key="", digests={})
    for path, text in {
        f"include/onnxruntime/{COMMON}": CHECKS,
        f"include/onnxruntime/{MACROS}": LOGGING,
        f"onnxruntime/{HELPER}": "// upstream's helper\n",
    }.items():
        (tree.onnxruntime / path).parent.mkdir(parents=True, exist_ok=True)
        (tree.onnxruntime / path).write_text(text)
    overlay = write_overlay(RELEASE, tree, tmp_path / "overlay")
    assert write_overlay(RELEASE, tree, tmp_path / "overlay") == overlay
    (tmp_path / "a.cc").write_text(
        """
#include <cstdio>
#include <cstdlib>
#include <string>
namespace onnxruntime {
namespace common { struct Status { bool ok; std::string text; bool IsOK() const { return ok; } }; }
inline std::string MakeString() { return ""; }
inline std::string MakeString(const char* a) { return a; }
}
#define ORT_NO_EXCEPTIONS
#include "core/common/common.h"
namespace onnxruntime {
void FailAt(const char*, int line, const char* function, const char* condition, const std::string& message) {
  printf("%s %s %s\\n", function, condition ? condition : "-", message.c_str());
  exit(3);
}
common::Status StatusAt(const char*, int, const char* function, const std::string& message) {
  return {false, std::string(function) + " " + message};
}
}
onnxruntime::common::Status five(int x) { return {x != 5, x == 5 ? "five" : ""}; }
onnxruntime::common::Status check(int x) {
  ORT_RETURN_IF(x > 5, "too large");
  ORT_RETURN_IF_ERROR_SESSIONID(five(x), 0);
  return {true, ""};
}
int main() {
  printf("%s|%s|%d\\n", check(6).text.c_str(), check(5).text.c_str(), check(1).IsOK());
  ORT_ENFORCE(1 + 1 == 2);
  if (check(1).IsOK())
    ORT_ENFORCE(1 + 1 == 3, "arithmetic");
  else
    return 4;
}
"""
    )
    subprocess.run(["g++", "-std=c++17", f"-I{overlay}", "-o", tmp_path / "a", tmp_path / "a.cc"], check=True)
    done = subprocess.run([tmp_path / "a"], capture_output=True, text=True)
    assert done.returncode == 3
    assert done.stdout == "check too large|five|1\nmain 1 + 1 == 3 arithmetic\n"


def test_checks_and_what_they_call_are_changed_together() -> None:
    groups = {patch.name: patch.group for patch in OVERLAY}
    assert groups["lean checks"] == groups["what failed checks call"] != ""
    assert groups["lean logging"] == ""
