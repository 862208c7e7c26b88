"""What `edgepack inspect` says of a model."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from tests.support.berts import source_of, write_bert
from tests.support.graphs import token_graph, write
from tests.support.static_models import quantized, table, write_model2vec

from edgepack.errors import UnsupportedModelError
from edgepack.models.find.source import ingest
from edgepack.models.inspection import TABLE_TARGETS, as_dict, inspect_model
from edgepack.plugins.context import HostContext
from edgepack.recipes.registry import recipe_named
from edgepack.targets import built_in_targets


def test_parameters_are_counted_by_part(tmp_path: Path, context: HostContext) -> None:
    source, _ = write_bert(tmp_path / "model")
    found = inspect_model(source, context=context)
    hidden, inner, layers = 32, 48, 2
    assert {part.name: part.parameters for part in found.parts} == {
        "embeddings": (60 + 40 + 2) * hidden,
        "matrices": layers * (4 * hidden * hidden + 2 * hidden * inner),
        "norms and biases": 2 * hidden + layers * (4 * hidden + inner + hidden + 4 * hidden),
    }
    assert found.parameters == sum(part.parameters for part in found.parts)


def test_the_model_is_described(tmp_path: Path, context: HostContext) -> None:
    source, _ = write_bert(tmp_path / "model")
    found = inspect_model(source, context=context)
    assert found.architecture == "BertModel"
    assert (found.opset, found.dimension, found.max_length, found.dynamic) == (17, 32, 16, True)
    assert found.license == "apache-2.0"
    counts = {(each.domain, each.name): each.count for each in found.operators}
    assert counts["ai.onnx", "Softmax"] == 2
    fused = {(each.domain, each.name): each.count for each in found.fused_operators}
    assert fused["com.microsoft", "Attention"] == 2
    assert sum(fused.values()) < sum(counts.values()) / 2
    assert {file.path for file in found.files} >= {"model.safetensors", "config.json", "tokenizer.json"}
    assert found.hindrances == ()


@pytest.mark.parametrize(("dtype", "recipe"), [(np.float32, "fp16"), (np.int8, "int8")])
def test_a_static_model_is_said_to_be_one(
    tmp_path: Path, context: HostContext, dtype: Any, recipe: str
) -> None:
    found = inspect_model(
        ingest(str(write_model2vec(tmp_path, {"embeddings": (table() * 40).astype(dtype)})), context=context),
        context=context,
    )
    assert (found.recipe, found.hindrances) == (recipe, ())
    for word in ("static model", "no transformer"):
        assert word in found.reason
    names = {file.name for file in built_in_targets()}
    assert {f"{name}.toml" for name in TABLE_TARGETS} <= names


def test_a_static_model_whose_tokens_share_rows(tmp_path: Path, context: HostContext) -> None:
    folder = write_model2vec(tmp_path, quantized())
    found = inspect_model(ingest(str(folder), context=context), context=context)
    assert found.recipe == "fp16"


def test_the_recommended_recipe_exists_and_says_why(tmp_path: Path, context: HostContext) -> None:
    source, _ = write_bert(tmp_path / "model")
    found = inspect_model(source, context=context)
    assert recipe_named(found.recipe, context)
    assert found.recipe == "int8"
    assert "become int8" in found.reason


def test_as_json(tmp_path: Path, context: HostContext) -> None:
    source, _ = write_bert(tmp_path / "model")
    found = inspect_model(source, context=context)
    plain = json.loads(json.dumps(as_dict(found)))
    assert plain["schema"] == 2
    assert {each["provider"] for each in plain["providers"]} >= {"CPU", "CUDA", "TensorRT", "WebGPU", "NNAPI"}
    assert plain["parameters"] == found.parameters
    assert plain["pooling"] == {
        "layers": None,
        "mode": "mean",
        "joined": [],
        "dense": [],
        "normalize": True,
        "cut": None,
    }
    assert plain["pooling_from"] == "modules.json"
    assert plain["inputs"][0] == {"name": "input_ids", "shape": ["batch", "sequence"]}
    assert str(tmp_path) not in json.dumps(plain)


def test_a_quantized_graph_is_taken_as_it_is(tmp_path: Path, context: HostContext) -> None:
    source, _ = write_bert(tmp_path / "model")
    graph = token_graph(source, source.directory / "graph", output="exact")
    graph.graph.node.append(
        helper.make_node("DynamicQuantizeLinear", ["exact"], ["q", "scale", "zero"], name="q")
    )
    graph.graph.node.append(
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["last_hidden_state"], name="dq")
    )
    graph.graph.output[0].name = "last_hidden_state"
    write(graph, source.directory / "graph.onnx")
    found = inspect_model(source_of(source.directory, onnx="graph.onnx"), context=context)
    assert found.recipe == "fp32"
    assert "already quantized" in found.reason


@pytest.mark.parametrize("form", ["Cast", "DequantizeLinear"])
def test_integer_weights_of_others_are_counted_and_recognised(
    tmp_path: Path, context: HostContext, form: str
) -> None:
    source, _ = write_bert(tmp_path / "model")
    exact = inspect_model(source, context=context)
    graph = with_integer_weights(token_graph(source, source.directory / "graph"), form)
    write(graph, source.directory / "graph.onnx")
    mine = ingest(str(source.directory / "graph.onnx"), context=context)
    found = inspect_model(mine, context=context)
    counts, wanted = ({part.name: part.parameters for part in each.parts} for each in (found, exact))
    for part in ("embeddings", "matrices"):
        assert counts[part] == wanted[part]
    assert (found.recipe, mine.precision) == ("fp32", "int8")
    assert f"already quantized (int8, {form})" in found.reason


def with_integer_weights(graph: onnx.ModelProto, form: str) -> onnx.ModelProto:
    """Every matrix as int8 with one scale, which the graph makes floats of."""
    nodes = []
    for tensor in graph.graph.initializer:
        if len(tensor.dims) != 2 or tensor.data_type != onnx.TensorProto.FLOAT:
            continue
        name, values = tensor.name, numpy_helper.to_array(tensor)
        scale = np.abs(values).max() / 127
        tensor.CopyFrom(numpy_helper.from_array(np.round(values / scale).astype(np.int8), f"{name}.int8"))
        graph.graph.initializer.append(numpy_helper.from_array(np.array(scale, np.float32), f"{name}.scale"))
        given = [f"{name}.int8", f"{name}.scale"]
        if form == "Cast":
            nodes += [
                helper.make_node("Cast", given[:1], [f"{name}.cast"], to=onnx.TensorProto.FLOAT),
                helper.make_node("Mul", [f"{name}.cast", given[1]], [name]),
            ]
        else:
            nodes.append(helper.make_node(form, given, [name]))
    nodes += graph.graph.node
    del graph.graph.node[:]
    graph.graph.node.extend(nodes)
    return graph


def test_attention_that_cannot_be_fused_is_said(tmp_path: Path, context: HostContext) -> None:
    source, _ = write_bert(tmp_path / "model")
    graph = token_graph(source, source.directory / "graph")
    softmax = [node for node in graph.graph.node if node.op_type == "Softmax"]
    for node in softmax:  # the same function in a shape that no fusion looks for
        before = node.input[0]
        node.input[0] = f"{before}.same"
        place = list(graph.graph.node).index(node)
        graph.graph.node.insert(place, helper.make_node("Abs", [before], [f"{before}.abs"]))
        graph.graph.node.insert(
            place + 1, helper.make_node("Sub", [before, f"{before}.abs"], [f"{before}.low"])
        )
        graph.graph.node.insert(
            place + 2, helper.make_node("Add", [f"{before}.low", f"{before}.abs"], [f"{before}.same"])
        )
    write(graph, source.directory / "graph.onnx")
    assert onnx.load(source.directory / "graph.onnx")
    found = inspect_model(source_of(source.directory, onnx="graph.onnx"), context=context)
    assert any("attention" in each for each in found.hindrances)


def test_an_unsupported_model_is_refused(tmp_path: Path, context: HostContext) -> None:
    source, _ = write_bert(tmp_path / "model")
    write(
        helper.make_model(
            helper.make_graph(
                [helper.make_node("Frobnicate", ["input_ids"], ["y"])],
                "g",
                [
                    helper.make_tensor_value_info(name, 7, ["b", "s"])
                    for name in ("input_ids", "attention_mask")
                ],
                [helper.make_tensor_value_info("y", 1, None)],
            ),
            opset_imports=[helper.make_opsetid("", 17)],
            ir_version=8,
        ),
        source.directory / "graph.onnx",
    )
    with pytest.raises(UnsupportedModelError, match="Frobnicate"):
        inspect_model(source_of(source.directory, onnx="graph.onnx"), context=context)
