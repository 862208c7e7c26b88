"""ONNX Runtime's tree as another release might have it: functions moved and renamed, files moved and split, other kernels."""

from pathlib import Path

VERSION = "1.21.9"
_ELEMENT_SIZE = """#include "core/framework/data_types.h"
#include "core/graph/onnx_protobuf.h"
#include "onnx/defs/data_type_utils.h"

namespace onnxruntime {

size_t GetElementSize(const ONNX_NAMESPACE::DataType& tensor_type) {
  using namespace ONNX_NAMESPACE;
"""


def alter(tree: Path) -> None:
    """Change a copy of 1.21.0's own tree. Everything that a runtime for BERT needs still compiles."""
    (tree / "VERSION_NUMBER").write_text(f"{VERSION}\n")
    own = tree / "onnxruntime"
    # Upstream's own reminder, which each release has to answer.
    _rename(own / "core/session", 'ORT_VERSION) == "1.21.0"', f'ORT_VERSION) == "{VERSION}"')
    _move_function(own / "core/framework")
    for folder in (own, tree / "include"):
        _rename(folder, "OutputIsEnabled", "IsOutputEnabled")
    (own / "core/common/helper.cc").rename(own / "core/common/final_message.cc")
    (own / "core/providers/cpu/tensor/gather.cc").rename(own / "core/providers/cpu/tensor/gather_rows.cc")
    _split(own / "core/providers/cpu/generator/random.cc", "Status RandomNormalLike::Compute")
    rows = own / "core/providers/cpu/cpu_execution_provider.cc"
    text = rows.read_text()
    row = (
        "BuildKernelCreateInfo<ONNX_OPERATOR_KERNEL_CLASS_NAME(kCpuExecutionProvider, kOnnxDomain, {}, {})>,"
    )
    assert row.format(13, "Sign") in text, "the tree is 1.21.0's"
    rows.write_text(text.replace(row.format(13, "Sign"), row.format(23, "RMSNormalization")))
    deps = tree / "cmake/deps.txt"
    deps.write_text(deps.read_text().replace("2024-07-02", "2025-11-05"))


def _move_function(framework: Path) -> None:
    """``GetElementSize`` into a file of its own."""
    planner = framework / "allocation_planner.cc"
    before, head, rest = planner.read_text().partition(
        "  static size_t GetElementSize(const DataType& tensor_type) {\n"
    )
    assert head, "the tree is 1.21.0's"
    body, _, after = rest.partition("\n  }\n")
    marker = "namespace onnxruntime {\n"
    before = before.replace(marker, f"{marker}size_t GetElementSize(const ONNX_NAMESPACE::DataType&);\n", 1)
    planner.write_text(before + after)
    (framework / "element_size.cc").write_text(f"{_ELEMENT_SIZE}{body}\n}}\n\n}}  // namespace onnxruntime\n")


def _rename(folder: Path, before: str, now: str) -> None:
    for path in folder.rglob("*"):
        if path.suffix in (".h", ".cc") and before in (text := path.read_text(errors="replace")):
            path.write_text(text.replace(before, now))


def _split(file: Path, at: str) -> None:
    """Into two files, which hold its halves."""
    text = file.read_text()
    place = text.index(at)
    file.with_name(f"{file.stem}_normal.cc").write_text(text[:place])
    file.with_name(f"{file.stem}_uniform.cc").write_text(text[place:])
    file.unlink()
