"""Operator lists: what upstream writes is read, nothing is lost, and what is missing is named."""

import re
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import pytest

from edgepack.errors import ModelError, UsageError
from edgepack.foundry.releases.ort_1_21.type_filter import TypeFilter
from edgepack.operators.config import (
    canonical_types,
    format_config,
    missing_operators,
    operators_of_ort_model,
    parse_config,
    types_by_operator,
    union,
    unmet,
)
from edgepack.operators.types import upstream
from edgepack.records.operators import Operator, Operators

UPSTREAM = """\
# Generated from model/s:
# - model/int8.ort
ai.onnx;7;And
ai.onnx;11;DynamicQuantizeLinear{"outputs": {"0": ["uint8_t"]}},Range{"inputs": {"0": ["int64_t"]}}
ai.onnx;13;Cast{"inputs": {"0": ["int64_t"]}, "outputs": {"0": ["float", "bool"]}},Flatten,Unsqueeze
com.microsoft;1;BiasGelu,FusedMatMul
"""


def kernel(name: str, since: int = 13, types: str = "", domain: str = "ai.onnx") -> Operator:
    return Operator(domain=domain, since=since, name=name, types=canonical_types(types))


def operators(*kernels: Operator, allowed: frozenset[str] = frozenset()) -> Operators:
    return Operators(kernels=frozenset(kernels), globally_allowed_types=allowed)


def types_of(found: Operators, name: str, since: int = 13) -> str:
    (match,) = (one.types for one in found.kernels if (one.name, one.since) == (name, since))
    return match


def test_reads_what_upstream_writes() -> None:
    found = parse_config(UPSTREAM)
    assert len(found) == 8
    assert types_of(found, "Cast") == '{"inputs":{"0":["int64_t"]},"outputs":{"0":["bool","float"]}}'
    assert kernel("BiasGelu", 1, domain="com.microsoft") in found.kernels
    assert kernel("And", 7) in found.kernels


def test_writing_and_reading_again_changes_nothing() -> None:
    found = parse_config(UPSTREAM)
    text = format_config(found)
    assert parse_config(text) == found
    assert format_config(parse_config(text)) == text
    assert text.splitlines() == sorted(
        text.splitlines(), key=lambda line: (line.split(";")[0], int(line.split(";")[1]))
    )


def test_one_line_for_several_opsets() -> None:
    found = parse_config('ai.onnx;11,13;Add,Cast{"inputs":{"0":["float"]}}')
    assert {(one.name, one.since) for one in found.kernels} == {
        ("Add", 11),
        ("Add", 13),
        ("Cast", 11),
        ("Cast", 13),
    }
    assert types_of(found, "Cast", 11) == '{"inputs":{"0":["float"]}}'


@pytest.mark.parametrize(
    "text",
    [
        'ai.onnx;13;Cast{"inputs":{"0":["float"]}},Add,Cast{"inputs":{"0":["bool"]}}',
        'ai.onnx;13;Cast{"inputs":{"0":["float"]}}\nai.onnx;13;Add,Cast{"inputs":{"0":["bool"]}}',
    ],
)
def test_an_operator_named_twice_keeps_all_its_types(text: str) -> None:
    assert types_of(parse_config(text), "Cast") == '{"inputs":{"0":["bool","float"]}}'


def test_types_as_people_write_them() -> None:
    """Spaces after JSON, its keys in any order, one text in the end."""
    found = parse_config(
        'ai.onnx ; 13 ; Cast{"outputs":{"0":["bool"]}, "inputs":{"0":["float"]}}   , Add{ "inputs": {"0": ["float"]} }  '
    )
    assert types_of(found, "Cast") == '{"inputs":{"0":["float"]},"outputs":{"0":["bool"]}}'
    assert types_of(found, "Add") == '{"inputs":{"0":["float"]}}'


def test_an_operator_once_with_and_once_without_types_gets_all_types() -> None:
    assert types_of(parse_config('ai.onnx;13;Cast{"inputs":{"0":["float"]}},Cast'), "Cast") == ""


def test_what_only_one_entry_restricts_is_not_restricted() -> None:
    found = parse_config(
        'ai.onnx;13;Slice{"inputs":{"0":["float"],"1":["int64_t"]}},Slice{"inputs":{"1":["int32_t"]}}'
    )
    assert types_of(found, "Slice") == '{"inputs":{"1":["int32_t","int64_t"]}}'


def test_custom_types() -> None:
    found = parse_config(
        'ai.onnx;11;OneHot{"custom":[["float","int64_t","int64_t"]]},OneHot{"custom":[["bool","int64_t","bool"]]}'
    )
    assert (
        types_of(found, "OneHot", 11)
        == '{"custom":[["bool","int64_t","bool"],["float","int64_t","int64_t"]]}'
    )


def test_globally_allowed_types() -> None:
    found = parse_config("!globally_allowed_types;float,int64_t\nai.onnx;13;Add\n")
    assert found.globally_allowed_types == {"float", "int64_t"}
    assert parse_config(format_config(found)) == found
    apart = "!globally_allowed_types;float\n!globally_allowed_types; int64_t,\nai.onnx;13;Add\n"
    assert parse_config(apart) == found


def test_types_that_restrict_nothing_are_no_types() -> None:
    found = parse_config('ai.onnx;13;Add{"inputs":{}},Cast{"inputs":{"0":[]},"custom":[]}')
    assert found == operators(kernel("Add"), kernel("Cast"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ai.onnx;13", "line 1"),
        ("ai.onnx;13;Add;Mul", "line 1"),
        ('ai.onnx;13;{"inputs":{"0":["float"]}},Add', "line 1"),
        ("\n\nai.onnx;thirteen;Add", "line 3"),
        ('ai.onnx;13;Add{"inputs":', "line 1"),
        ('ai.onnx;13;Add{"inputs":{}}Mul', "line 1"),
        ("!no_ops_specified_means_all_ops_are_required", "every operator"),
        ('!globally_allowed_types;float\nai.onnx;13;Add{"inputs":{"0":["float"]}}', "globally"),
    ],
)
def test_nonsense_is_an_error_for_people(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_config(text)


def test_union_serves_every_member() -> None:
    first = operators(kernel("Add"), kernel("Cast", types='{"inputs":{"0":["float"]}}'))
    second = operators(kernel("Mul"), kernel("Cast", types='{"inputs":{"0":["bool"]}}'))
    both = union([first, second])
    assert types_of(both, "Cast") == '{"inputs":{"0":["bool","float"]}}'
    assert missing_operators(first, both) == () and missing_operators(second, both) == ()
    assert len(both) == 3


def test_union_of_global_and_own_types_serves_both() -> None:
    first = operators(kernel("Cast"), allowed=frozenset({"float"}))
    second = operators(kernel("Cast", types='{"inputs":{"0":["bool"]}}'))
    both = union([first, second])
    assert not both.globally_allowed_types
    assert missing_operators(second, both) == ()
    assert types_of(both, "Cast") == ""


def test_union_of_global_types_allows_what_either_allows() -> None:
    both = union(
        [
            operators(kernel("Cast"), allowed=frozenset({"float"})),
            operators(kernel("Add"), allowed=frozenset({"bool"})),
        ]
    )
    assert both == operators(kernel("Cast"), kernel("Add"), allowed=frozenset({"float", "bool"}))


def test_union_of_nothing_is_nothing() -> None:
    assert len(union([])) == 0


@pytest.mark.parametrize(
    ("needed", "provided", "fits"),
    [
        ("", "", True),
        ('{"inputs":{"0":["float"]}}', "", True),
        ('{"inputs":{"0":["float"]}}', '{"inputs":{"0":["bool","float"]}}', True),
        ('{"inputs":{"0":["float","bool"]}}', '{"inputs":{"0":["float"]}}', False),
        ("", '{"inputs":{"0":["float"]}}', False),
        ('{"inputs":{"0":["float"]}}', '{"inputs":{"0":["float"],"1":["int64_t"]}}', False),
        ('{"inputs":{"0":["float"],"1":["int64_t"]}}', '{"inputs":{"0":["float"]}}', True),
        ('{"inputs":{"0":["float"]}}', '{"outputs":{"0":["float"]}}', False),
    ],
)
def test_types_that_fit_and_types_that_do_not(needed: str, provided: str, fits: bool) -> None:
    lacking = missing_operators(
        operators(kernel("Cast", types=needed)), operators(kernel("Cast", types=provided))
    )
    assert (lacking == ()) is fits


def test_another_version_of_the_operator_is_missing() -> None:
    assert missing_operators(operators(kernel("Add", 14)), operators(kernel("Add", 13))) == (
        kernel("Add", 14),
    )


def test_globally_allowed_types_of_a_runtime_restrict_every_operator() -> None:
    runtime = operators(kernel("Cast"), allowed=frozenset({"float"}))
    assert missing_operators(operators(kernel("Cast", types='{"inputs":{"0":["float"]}}')), runtime) == ()
    assert missing_operators(operators(kernel("Cast", types='{"inputs":{"0":["bool"]}}')), runtime)
    assert missing_operators(operators(kernel("Cast")), runtime)


def test_globally_allowed_types_are_compared_with_each_other() -> None:
    runtime = operators(kernel("Cast"), allowed=frozenset({"float", "bool"}))
    assert missing_operators(operators(kernel("Cast"), allowed=frozenset({"float"})), runtime) == ()
    assert missing_operators(operators(kernel("Cast"), allowed=frozenset({"int8_t"})), runtime)


def test_what_is_unmet_is_named() -> None:
    needs = operators(kernel("Gelu", 20), kernel("Add"))
    assert unmet(needs, needs) == ()
    (said,) = unmet(needs, operators(kernel("Add")))
    assert re.search(r"lacks 1 operator kernel\(s\).*ai\.onnx:Gelu\(20\)$", said)
    many = operators(*(kernel(f"Op{number:02}") for number in range(14)))
    (said,) = unmet(many, operators())
    assert re.search(r"lacks 14 .*, ai\.onnx:Op11\(13\) and 2 more$", said)
    (said,) = unmet(many, operators(kernel("Op00"), kernel("Op01")))
    assert re.search(r"lacks 12 .*, ai\.onnx:Op13\(13\)$", said)


def test_types_of_all_versions_together() -> None:
    found = operators(
        kernel("Cast", 13, '{"inputs":{"0":["float"]}}'),
        kernel("Cast", 19, '{"inputs":{"0":["bool"]}}'),
        kernel("Add"),
    )
    assert types_by_operator(found) == {
        ("ai.onnx", "Cast"): '{"inputs":{"0":["bool","float"]}}',
        ("ai.onnx", "Add"): "",
    }


def test_a_file_that_is_no_ort_model(tmp_path: Path) -> None:
    file = tmp_path / "model.ort"
    file.write_bytes(b"not a flatbuffer at all, but long enough to be looked at")
    with pytest.raises(ModelError, match=r"model\.ort is not a model in ORT format"):
        operators_of_ort_model(file)
    with pytest.raises(ModelError, match="no model file"):
        operators_of_ort_model(tmp_path / "absent.ort")


def test_the_operators_of_a_real_ort_model(tmp_path: Path) -> None:
    import onnxruntime
    from onnx import TensorProto, helper, save

    graph = helper.make_graph(
        [
            helper.make_node("Cast", ["x"], ["floats"], to=TensorProto.FLOAT),
            helper.make_node("Softmax", ["floats"], ["y"]),
        ],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.INT64, [None, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 4])],
    )
    save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        tmp_path / "small.onnx",
    )
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "small.ort")
    options.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(tmp_path / "small.onnx", options, providers=["CPUExecutionProvider"])
    found = operators_of_ort_model(tmp_path / "small.ort")
    assert found == operators(
        kernel("Cast", 13, '{"inputs":{"0":["int64_t"]},"outputs":{"0":["float"]}}'),
        kernel("Softmax", 13, '{"inputs":{"0":["float"]}}'),
    )


def upstreams_reading(text: str, folder: Path) -> tuple[dict[str, dict[int, set[str]]], TypeFilter]:
    """(domain → opset → operators, type filter) as ONNX Runtime's own build reads a config."""
    from onnxruntime.tools.reduced_build_config_parser import parse_config as parse

    (folder / "ops.config").write_text(text)
    required, types = parse(str(folder / "ops.config"), enable_type_reduction=True)
    return {
        domain: {since: set(names) for since, names in rows.items()} for domain, rows in required.items()
    }, types


def test_upstream_reads_what_is_written_here(tmp_path: Path) -> None:
    once = (
        'ai.onnx;13;Cast{"inputs":{"0":["float"]}}\nai.onnx;13;Add,Cast{"inputs":{"0":["bool"]}}\n' + UPSTREAM
    )
    for text in (UPSTREAM, once, "!globally_allowed_types;float,int64_t\nai.onnx;13;Add,Gemm\n"):
        found = parse_config(text)
        required, _ = upstreams_reading(format_config(found), tmp_path)
        assert {
            (domain, since, name)
            for domain, rows in required.items()
            for since, names in rows.items()
            for name in names
        } == {(one.domain, one.since, one.name) for one in found.kernels}


def test_upstream_keeps_all_types_of_what_was_merged_here_and_loses_them_otherwise(tmp_path: Path) -> None:
    """microsoft/onnxruntime#16742: two models' configs, one after the other."""
    first = 'ai.onnx;14;Relu{"inputs":{"0":["float"]}}\n'
    second = 'ai.onnx;14;Relu{"inputs":{"0":["int8_t"]}}\n'

    def kept(text: str) -> set[str]:
        _, types = upstreams_reading(text, tmp_path)
        names = ("float", "int8_t", "double")
        return {name for name in names if types.is_typed_registration_needed("ai.onnx", "Relu", name)}

    assert "float" not in kept(first + second)
    for merged in (union([parse_config(first), parse_config(second)]), parse_config(first + second)):
        assert {"float", "int8_t"} <= kept(format_config(merged)) and "double" not in kept(
            format_config(merged)
        )


def test_an_operator_recorded_twice_offers_and_needs_all_its_types() -> None:
    apart = operators(
        kernel("Cast", types='{"inputs":{"0":["float"]}}'), kernel("Cast", types='{"inputs":{"0":["bool"]}}')
    )
    together = parse_config('ai.onnx;13;Cast{"inputs":{"0":["bool","float"]}}')
    assert missing_operators(together, apart) == missing_operators(apart, together) == ()
    only = parse_config('ai.onnx;13;Cast{"inputs":{"0":["float"]}}')
    assert missing_operators(only, apart) == ()
    assert [one.types for one in missing_operators(apart, only)] == ['{"inputs":{"0":["bool","float"]}}']


@pytest.mark.parametrize("seed", range(20))
def test_a_union_serves_its_members_and_is_served_by_what_serves_them_all(seed: int) -> None:
    """Random lists: union is the least list that all members are subsets of, whatever the order."""
    random = Random(seed)

    def some() -> Operators:
        names = random.sample(["float", "bool", "int8_t", "int64_t"], k=2)
        choices = ["", '{"inputs":{"0":["%s"]}}' % names[0], '{"inputs":{"0":["%s","%s"]}}' % tuple(names)]  # noqa: UP031
        return operators(
            *(
                kernel(random.choice(["Add", "Cast", "Gemm"]), random.choice([7, 13]), random.choice(choices))
                for _ in range(4)
            )
        )

    members = [some() for _ in range(3)]
    whole = union(members)
    assert whole == union(reversed(members)) == union([union(members[:2]), members[2]])
    assert union([whole, *members]) == whole
    for member in members:
        assert missing_operators(member, whole) == ()
    assert missing_operators(whole, parse_config("".join(map(format_config, members)))) == ()


@pytest.mark.parametrize(
    "types", ['{"inputs": {"0": [["float"]]}}', '{"inputs": ["float"]}', '{"inputs": 7}', '{"custom": {"0": []}}', '{"custom": null}']
)  # fmt: skip
def test_types_of_another_form_make_no_sense(types: str) -> None:
    with pytest.raises(UsageError, match="line 1 of the operator config is invalid"):
        parse_config(f"ai.onnx;13;Add{types}\n")


def ort_file(path: Path, *, places: int, depth: int, shared: bool = True) -> Path:
    """A model whose nodes hold the graph within ``places`` times, in graphs so deep."""
    upstream("ort_model_processor")
    attribute, kinds, graph, session, whole_model, node = (
        import_module(f"ort_flatbuffers_py.fbs.{name}")
        for name in ("Attribute", "AttributeType", "Graph", "InferenceSession", "Model", "Node")
    )
    made = import_module("flatbuffers").Builder(1024)
    words = {word: made.CreateString(word) for word in ("Add", "", "1.21.0", "a")}

    def vector(start: Any, items: list[int]) -> int:
        start(made, len(items))
        for item in reversed(items):
            made.PrependUOffsetTRelative(item)
        return int(made.EndVector())

    def graph_of(nodes: list[int]) -> int:
        listed = vector(graph.GraphStartNodesVector, nodes)
        graph.GraphStart(made)
        graph.GraphAddNodes(made, listed)
        return int(graph.GraphEnd(made))

    def graph_within(level: int) -> int:
        if not level:
            return graph_of([])
        inner = (
            [graph_within(level - 1)] * places if shared else [graph_within(level - 1) for _ in range(places)]
        )
        attributes = []
        for each in inner:
            attribute.AttributeStart(made)
            attribute.AttributeAddName(made, words["a"])
            attribute.AttributeAddType(made, kinds.AttributeType.GRAPH)
            attribute.AttributeAddG(made, each)
            attributes.append(attribute.AttributeEnd(made))
        listed = vector(node.NodeStartAttributesVector, attributes)
        node.NodeStart(made)
        node.NodeAddOpType(made, words["Add"])
        node.NodeAddDomain(made, words[""])
        node.NodeAddSinceVersion(made, 7)
        node.NodeAddAttributes(made, listed)
        return graph_of([node.NodeEnd(made)])

    whole = graph_within(depth)
    whole_model.ModelStart(made)
    whole_model.ModelAddGraph(made, whole)
    model = whole_model.ModelEnd(made)
    session.InferenceSessionStart(made)
    session.InferenceSessionAddOrtVersion(made, words["1.21.0"])
    session.InferenceSessionAddModel(made, model)
    made.Finish(session.InferenceSessionEnd(made), b"ORTM")
    path.write_bytes(bytes(made.Output()))
    return path


def test_a_model_whose_graphs_stand_for_2_to_40_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "model.ort"
    for places, depth in ((1, 5), (3, 3)):
        found = operators_of_ort_model(ort_file(file, places=places, depth=depth, shared=False))
        assert [each.name for each in found.kernels] == ["Add"]
    for places, depth in ((2, 40), (1, 40)):
        with pytest.raises(ModelError, match="is not a model in ORT format"):
            operators_of_ort_model(ort_file(file, places=places, depth=depth))
