"""float16 throughout, for execution providers that compute in it; and projections that are merged beforehand."""

from collections import Counter
from pathlib import Path
from typing import Any, get_args

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, shape_inference
from tests.support.berts import onnx_vectors, some_tokens
from tests.support.compare import Load, cosines, unexpected
from tests.support.families import FAMILIES, tokens_of, write_family
from tests.support.installed import export_onnx

from edgepack.errors import UnsupportedModelError
from edgepack.models.graph.pooling import is_pooling, pool
from edgepack.models.graph.writer import PREFIX, GraphWriter
from edgepack.models.reference import exported_model
from edgepack.passes.half import half
from edgepack.passes.merge_projections import merge_projections
from edgepack.plugins.context import HostContext
from edgepack.recipes.prepare import prepare_model
from edgepack.records.model import Pooling
from edgepack.records.target import ModelOptions, PoolingMode


def types_of(model: onnx.ModelProto) -> dict[str, int]:
    onnx.checker.check_model(model, full_check=True)
    graph = shape_inference.infer_shapes(model, check_type=True, strict_mode=True).graph
    return {value.name: value.type.tensor_type.elem_type for value in (*graph.value_info, *graph.output)}


def operators(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)


def test_the_encoder_is_float16_and_the_pooling_float32(load: Load) -> None:
    model = load(fused=False)
    halved = half(model, unexpected)
    types = types_of(halved)
    for node in halved.graph.node:
        if is_pooling(node.name) or node.op_type == "Cast":
            continue
        assert types.get(node.output[0], TensorProto.FLOAT) != TensorProto.FLOAT, node
    assert types["sentence_embedding"] == TensorProto.FLOAT
    left = [each.name for each in halved.graph.initializer if each.data_type == TensorProto.FLOAT]
    assert all(np.prod(each.dims) == 1 for each in halved.graph.initializer if each.name in left)
    assert cosines(model, halved, some_tokens()).min() > 0.99999


def test_casts_stand_only_where_types_meet(load: Load) -> None:
    model = load(fused=False)
    # The mask, into the encoder and into the pooling, and the token vectors, into the pooling.
    assert operators(half(model, unexpected))["Cast"] - operators(model)["Cast"] <= 1


FLOAT32_ONLY = ("embedding_gemma2_text", "gemma3_text")


@pytest.mark.parametrize("kind", FLOAT32_ONLY)
@pytest.mark.parametrize("recipe", ["half", "half-fused"])
def test_a_model_that_float16_cannot_hold_is_refused_with_the_reason(
    tmp_path: Path, kind: str, recipe: str, context: HostContext
) -> None:
    source, _ = write_family(tmp_path / "model", kind)
    with pytest.raises(
        UnsupportedModelError, match="float16: activations of EmbeddingGemma leave its range"
    ) as caught:
        prepare_model(source, options=ModelOptions(recipe=recipe), context=context)
    assert "--recipe int8" in str(caught.value.hint)


@pytest.mark.sample(5)
@pytest.mark.parametrize("kind", [kind for kind in FAMILIES if kind not in FLOAT32_ONLY])
def test_every_architecture(tmp_path: Path, kind: str, context: HostContext) -> None:
    source, _ = write_family(tmp_path / "model", kind, std=0.15)
    prepared = prepare_model(source, options=ModelOptions(recipe="half", format="onnx"), context=context)
    assert prepared.precision == "fp16"
    assert "merge-projections" in prepared.recipe
    tokens = tokens_of(kind, lengths=(9, 30, 2, 12))
    exact = onnx_vectors(exported_model(source, context=context), tokens)
    assert (onnx_vectors(prepared.file, tokens) * exact).sum(axis=1).min() > 0.9999


@pytest.mark.parametrize("mode", get_args(PoolingMode))
@pytest.mark.parametrize("prefix", ["", PREFIX])
def test_nodes_of_the_pooling_are_known(mode: Any, prefix: str) -> None:
    writer = GraphWriter(prefix=prefix)
    pool(writer, "tokens", "attention_mask", Pooling(mode=mode))
    assert writer.nodes
    assert [node.name for node in writer.nodes if not is_pooling(node.name)] == []


def test_a_head_of_the_models_own_is_no_pooling() -> None:
    assert not is_pooling("pooler.dense.product")


def test_weights_beyond_float16_stay_float32(load: Load) -> None:
    model = load(fused=False)
    name = "encoder.layer.0.output.dense.weight"
    tensor = next(each for each in model.graph.initializer if each.name == name)
    tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * np.float32(1e6), name))
    notes: list[str] = []
    halved = half(model, notes.append)
    assert len(notes) == 1
    assert "stays float32: its weights are too large for float16" in notes[0]
    assert np.isfinite(cosines(model, halved, some_tokens())).all()


def test_a_norm_in_single_steps_is_computed_in_float32(tmp_path: Path) -> None:
    """Squares of activations beyond 255 are no float16 numbers, and an epsilon of 1e-12 would become 0."""
    source, _ = write_family(tmp_path / "model", "bert")
    model = onnx.load(export_onnx(source, tmp_path / "model.onnx"))
    norm = next(node for node in model.graph.node if node.op_type == "LayerNormalization")
    at = list(model.graph.node).index(norm)
    x, scale, bias = norm.input
    steps = [
        helper.make_node("ReduceMean", [x], ["mean"], axes=[-1]),
        helper.make_node("Sub", [x, "mean"], ["centred"]),
        helper.make_node("Mul", ["centred", "thousand"], ["large"]),
        helper.make_node("Pow", ["large", "two"], ["squares"]),
        helper.make_node("ReduceMean", ["squares"], ["variance"], axes=[-1]),
        helper.make_node("Add", ["variance", "tiny"], ["floored"]),
        helper.make_node("Sqrt", ["floored"], ["deviation"]),
        helper.make_node("Div", ["large", "deviation"], ["normed"]),
        helper.make_node("Mul", ["normed", scale], ["scaled"]),
        helper.make_node("Add", ["scaled", bias], [norm.output[0]]),
    ]
    nodes = list(model.graph.node)
    nodes[at : at + 1] = steps
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    for name, value in (("thousand", 1000.0), ("two", 2.0), ("tiny", 1e-12)):
        model.graph.initializer.append(numpy_helper.from_array(np.array(value, np.float32), name))
    halved = half(model, unexpected)
    types = types_of(halved)
    assert types["squares"] == types["variance"] == types["floored"] == TensorProto.FLOAT
    tokens = tokens_of("bert", lengths=(9, 30, 2, 12))
    assert cosines(model, halved, tokens).min() > 0.9999


def test_branches_are_refused() -> None:
    branch = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "branch",
        [],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])],
    )
    node = helper.make_node("If", ["c"], ["z"], then_branch=branch, else_branch=branch)
    inputs = [
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1]),
    ]
    output = helper.make_tensor_value_info("z", TensorProto.FLOAT, [1])
    model = helper.make_model(helper.make_graph([node], "g", inputs, [output]))
    with pytest.raises(UnsupportedModelError, match="branches or loops"):
        half(model, unexpected)


def test_projections_of_one_value_are_one_product(load: Load) -> None:
    model = load(fused=False)
    merged = merge_projections(model, unexpected)
    onnx.checker.check_model(merged, full_check=True)
    assert operators(model)["MatMul"] - operators(merged)["MatMul"] == 4, "three become one, in two layers"
    assert operators(merged)["Split"] == 2
    assert cosines(model, merged, some_tokens()).min() > 0.999999
    weight = next(
        each for each in merged.graph.initializer if list(each.dims) == [32, 96] and ".merged" in each.name
    )
    query, key, value = (
        numpy_helper.to_array(next(each for each in model.graph.initializer if each.name == name))
        for name in (f"encoder.layer.0.attention.self.{part}.weight" for part in ("query", "key", "value"))
    )
    np.testing.assert_array_equal(numpy_helper.to_array(weight), np.concatenate([query, key, value], axis=1))


def test_a_shared_weight_is_left_alone(load: Load) -> None:
    model = load(fused=False)
    products = [node for node in model.graph.node if node.op_type == "MatMul" and "self" in node.name]
    same = next(name for name in products[0].input if name.endswith("query.weight"))
    for node in products[:3]:
        node.input[1] = same
    merged = merge_projections(model, unexpected)
    assert operators(model)["MatMul"] - operators(merged)["MatMul"] == 2, "the second layer's alone"
    assert cosines(model, merged, some_tokens()).min() > 0.999999
