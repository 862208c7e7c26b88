"""What is known of ONNX Runtime's releases, held against the release that is installed."""

from importlib.metadata import version

import onnx
import onnxruntime.capi.onnxruntime_pybind11_state as installed
import pytest
from onnx import TensorProto, helper
from packaging.version import Version

from edgepack.errors import UsageError
from edgepack.foundry.releases.registry import RELEASES
from edgepack.models.ort.releases import (
    ReleaseSupport,
    StockRelease,
    brought,
    having,
    in_words,
    lacking,
    release_support,
    running,
    stock_release,
    stock_releases,
    stock_wheel,
    writers_of,
)
from edgepack.reports.inspection import releases_in_words

INFINITE = 2**31 - 1


def model_of(*nodes: onnx.NodeProto, opset: int = 17, ir: int = 8, **more: object) -> onnx.ModelProto:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xy"]
    graph = helper.make_graph(list(nodes), "g", values[:1], values[1:])
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir, **more)


def versions(releases: tuple[StockRelease, ...]) -> list[str]:
    return [release.version for release in releases]


def test_releases_are_in_order_and_hold_what_is_built_and_what_is_installed() -> None:
    known = versions(stock_releases())
    assert known == sorted(known, key=Version)
    assert {version("onnxruntime"), "1.31.1", *(release.version for release in RELEASES)} <= set(known)
    for release in stock_releases():
        assert {len(wheel.sha256) for wheel in release.wheels.values()} == {64}
        assert {wheel.requirement for wheel in release.wheels.values()} == {f"onnxruntime=={release.version}"}


def test_the_table_says_what_the_installed_release_says_of_itself() -> None:
    """Of all versions of all operators, whether it has a kernel."""
    release = stock_release(version("onnxruntime"))
    ranges: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for kernel in installed.get_all_opkernel_def():
        ranges.setdefault((kernel.domain or "ai.onnx", kernel.op_name), []).append(
            tuple(kernel.version_range)
        )
    checked = 0
    for schema in installed.get_all_operator_schema():
        domain, since = schema.domain or "ai.onnx", schema.since_version
        if not any(
            first == since or (first < since and last != INFINITE and since <= last)
            for first, last in ranges.get((domain, schema.name), [])
        ):
            continue
        if (domain == "ai.onnx" and 7 <= since <= release.opset) or domain == "com.microsoft":
            model = model_of(
                helper.make_node(schema.name, ["x"], ["y"], domain=schema.domain), opset=max(since, 7)
            )
            checked += 1
            if "Memcpy" not in schema.name:
                assert lacking(model, release) == (), f"{domain} {schema.name} {since}"
    assert checked > 400


def test_a_model_of_a_newer_opset() -> None:
    model = model_of(helper.make_node("Attention", ["x", "x", "x"], ["y"]), opset=23, ir=11)
    assert versions(running(model))[0] == "1.23.2"
    assert lacking(model, stock_release("1.22.1")) == ("IR version 11", "opset 23", "Attention 23")
    found = release_support(model)
    assert releases_in_words(found) == (
        f"1.23.2 to {stock_releases()[-1].version}; 1.22.1 lacks IR version 11, opset 23, Attention 23"
    )


def test_an_operator_of_an_older_opset_is_taken_as_it_was_then() -> None:
    assert not lacking(model_of(helper.make_node("Gelu", ["x"], ["y"]), opset=20), stock_release("1.21.0"))
    assert lacking(model_of(helper.make_node("Gelu", ["x"], ["y"]), opset=17), stock_release("1.21.0")) == (
        "Gelu",
    )


def test_nodes_of_subgraphs_and_functions_count_and_calls_of_functions_do_not() -> None:
    value = [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)]
    inner = helper.make_graph([helper.make_node("Swish", ["x"], ["z"])], "inner", [], value)
    branching = helper.make_node("If", ["x"], ["y"], then_branch=inner, else_branch=inner)
    assert "Swish" in lacking(model_of(branching, opset=22), stock_release("1.21.0"))
    function = helper.make_function(
        "own",
        "Twice",
        ["a"],
        ["b"],
        [helper.make_node("NoSuchOperator", ["a"], ["b"])],
        [helper.make_opsetid("", 17)],
    )
    calling = model_of(helper.make_node("Twice", ["x"], ["y"], domain="own"), functions=[function])
    assert lacking(calling, stock_release("1.21.0")) == ("NoSuchOperator",)


def test_what_no_release_runs_is_said() -> None:
    found = release_support(
        model_of(helper.make_node("LongformerAttention", ["x"], ["y"], domain="com.microsoft"))
    )
    assert all(each.missing == ("com.microsoft.LongformerAttention 1",) for each in found)
    assert releases_in_words(found).startswith("none of 1.19.2 to ")
    only = (ReleaseSupport(version="2", missing=()),)
    assert releases_in_words(only) == "2"


def test_which_releases_have_kernels() -> None:
    assert in_words(having(["ai.onnx Attention 23"])) == f"1.23.2 to {stock_releases()[-1].version}"
    assert versions(having(["Attention 23 float", "Swish 24"]))[0] == "1.24.4"
    assert having(["ai.onnx Erf 13", "ai.onnx NoSuchOperator 1"]) == ()
    assert versions(having(["com.microsoft MatMulNBits"])) == versions(stock_releases())
    assert in_words(()) == ""


def test_what_a_release_brings() -> None:
    assert {"Attention", "RMSNormalization", "RotaryEmbedding"} <= set(brought(stock_release("1.23.2")))
    assert brought(stock_releases()[0]) == ()


def test_who_writes_a_version_of_the_ort_format() -> None:
    last = stock_releases()[-1].version
    assert writers_of(6) == f"as ONNX Runtime 1.19.2 to {last} write it"
    assert writers_of(4) == "as a release older than 1.19.2 writes it"
    assert writers_of(9) == f"as a release newer than {last} writes it"


def test_a_release_that_nobody_knows() -> None:
    with pytest.raises(UsageError, match=r"no wheel of ONNX Runtime 1\.31\.0 is pinned.*1\.31\.1") as caught:
        stock_wheel("1.31.0", "x86_64")
    assert "edgepack runtime versions" in str(caught.value.hint)
    with pytest.raises(UsageError, match=r"ONNX Runtime 1\.31\.1 has no wheel for riscv64"):
        stock_wheel("1.31.1", "riscv64")
