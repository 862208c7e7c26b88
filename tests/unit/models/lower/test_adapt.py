"""Ready-made ONNX graphs: whatever their outputs are called, what comes out is one pooled, normalised vector."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, version_converter
from tests.support.berts import expected_vectors, onnx_vectors, some_tokens, source_of, write_bert
from tests.support.graphs import one_node, token_graph, vector_graph, write
from tests.support.installed import export_onnx

from edgepack.errors import EdgepackError, ModelError, UnsupportedModelError
from edgepack.records.layers import WeighedLayers
from edgepack.records.model import ModelSource, Pooling


@pytest.fixture
def bert(tmp_path: Path) -> tuple[ModelSource, Any]:
    return write_bert(tmp_path / "model")


def adapted(source: ModelSource, graph: onnx.ModelProto, pooling: Pooling | None = None) -> Path:
    """The graph as a source's own, exported."""
    write(graph, source.directory / "graph.onnx")
    ready = source_of(source.directory, pooling=pooling, onnx="graph.onnx")
    return export_onnx(ready, source.directory / "out.onnx")


def refusal(source: ModelSource) -> EdgepackError:
    with pytest.raises(EdgepackError) as caught:
        export_onnx(source_of(source.directory, onnx="graph.onnx"), source.directory / "out.onnx")
    assert not (source.directory / "out.onnx").exists()
    return caught.value


@pytest.mark.parametrize("output", ["last_hidden_state", "token_embeddings", "1234", "hidden/states:0"])
@pytest.mark.parametrize("pooling", [Pooling(mode="mean"), Pooling(mode="cls", normalize=False)], ids=str)
def test_token_vectors_are_pooled_whatever_they_are_called(
    bert: tuple[ModelSource, Any], output: str, pooling: Pooling
) -> None:
    source, model = bert
    graph = token_graph(source, source.directory / "graph", output=output)
    tokens = some_tokens()
    vectors = onnx_vectors(adapted(source, graph, pooling), tokens)
    expected = expected_vectors(model, tokens, pooling)
    np.testing.assert_allclose(vectors, expected, atol=1e-5 * max(1, np.abs(expected).max()), rtol=0)


@pytest.mark.parametrize("output", ["sentence_embedding", "embeddings", "output", "pooled_output"])
def test_a_text_vector_is_taken_as_it_is(bert: tuple[ModelSource, Any], output: str) -> None:
    source, model = bert
    graph = vector_graph(source, source.directory / "graph", output=output)
    tokens = some_tokens()
    vectors = onnx_vectors(adapted(source, graph), tokens)
    np.testing.assert_allclose(vectors, expected_vectors(model, tokens, Pooling()), atol=1e-5)


def test_a_text_vector_is_normalised_when_the_model_says_so(bert: tuple[ModelSource, Any]) -> None:
    source, model = bert
    unscaled = replace(source, pooling=Pooling(normalize=False))
    graph = vector_graph(unscaled, source.directory / "graph")
    tokens = some_tokens()
    vectors = onnx_vectors(adapted(source, graph, Pooling(normalize=True)), tokens)
    np.testing.assert_allclose(vectors, expected_vectors(model, tokens, Pooling()), atol=1e-5)


@pytest.mark.parametrize(
    "names", [("last_hidden_state", "pooler_output"), ("sequence_output", "pooled_output")]
)
def test_the_pooler_is_not_taken_for_a_text_vector(
    bert: tuple[ModelSource, Any], names: tuple[str, str]
) -> None:
    """Optimum's graphs have last_hidden_state and pooler_output, which is [batch, hidden] too; others name both otherwise."""
    source, model = bert
    graph = token_graph(source, source.directory / "graph", output=names[0])
    first = numpy_helper.from_array(np.array(0, np.int64), "first")
    graph.graph.initializer.append(first)
    graph.graph.node.append(helper.make_node("Gather", [names[0], "first"], ["cls"], name="cls", axis=1))
    graph.graph.node.append(helper.make_node("Tanh", ["cls"], [names[1]], name="pooler"))
    pooler = helper.make_tensor_value_info(names[1], TensorProto.FLOAT, ["batch", 32])
    graph.graph.output.insert(0, pooler)
    tokens = some_tokens()
    exported = adapted(source, graph)
    np.testing.assert_allclose(
        onnx_vectors(exported, tokens), expected_vectors(model, tokens, Pooling()), atol=1e-5
    )
    assert "Tanh" not in {node.op_type for node in onnx.load(exported).graph.node}


def test_a_mean_of_layers_that_a_graph_does_not_give_is_refused(bert: tuple[ModelSource, Any]) -> None:
    """The last layer alone was pooled in its place."""
    source, _ = bert
    weighed = Pooling(layers=WeighedLayers(file=source.directory / "layers", first=1, layers=2))
    with pytest.raises(UnsupportedModelError, match="requires WeightedLayerPooling"):
        adapted(source, token_graph(source, source.directory / "graph"), weighed)
    graph = vector_graph(source, source.directory / "graph")
    assert adapted(source, graph, weighed), "it has the whole way of a text's vector in it"


@pytest.mark.parametrize("names", [("dense_vecs", "colbert_vecs"), ("1234", "1235")])
def test_tokens_vectors_behind_a_text_s_vector_are_for_another_use(
    bert: tuple[ModelSource, Any], names: tuple[str, str]
) -> None:
    """BGE-M3's were pooled in the place of the vector of the text."""
    source, model = bert
    graph = vector_graph(source, source.directory / "graph", output=names[0])
    hidden = next(node.output[0] for node in graph.graph.node if node.op_type == "LayerNormalization")
    graph.graph.node.append(helper.make_node("Neg", [hidden], [names[1]], name="other"))
    sizes: list[str | int | None] = ["batch", "sequence", 32]
    graph.graph.output.append(helper.make_tensor_value_info(names[1], TensorProto.FLOAT, sizes))
    if names[0] == "dense_vecs":
        graph.graph.output.reverse()
    tokens = some_tokens()
    vectors = onnx_vectors(adapted(source, graph), tokens)
    np.testing.assert_allclose(vectors, expected_vectors(model, tokens, Pooling()), atol=1e-5)


def test_weights_in_a_file_of_their_own_are_read(bert: tuple[ModelSource, Any]) -> None:
    source, model = bert
    graph = token_graph(source, source.directory / "graph")
    onnx.save(
        graph,
        str(source.directory / "graph.onnx"),
        save_as_external_data=True,
        location="graph.onnx_data",
        size_threshold=64,
    )
    tokens = some_tokens()
    ready = source_of(source.directory, onnx="graph.onnx")
    exported = export_onnx(ready, source.directory / "out" / "model.onnx")
    np.testing.assert_allclose(
        onnx_vectors(exported, tokens), expected_vectors(model, tokens, Pooling()), atol=1e-5
    )
    data = source.directory / "graph.onnx_data"
    data.write_bytes(data.read_bytes()[:500])
    assert isinstance(refusal(source), ModelError)
    data.unlink()
    error = refusal(source)
    assert isinstance(error, ModelError)
    assert "graph.onnx_data" in error.message


def test_other_names_and_types_of_inputs(bert: tuple[ModelSource, Any]) -> None:
    """TensorFlow's BERT has input_mask and segment_ids, int32."""
    source, model = bert
    graph = token_graph(source, source.directory / "graph")
    old = {"input_ids": "input_ids", "attention_mask": "input_mask", "token_type_ids": "segment_ids"}
    for node in graph.graph.node:
        for place, name in enumerate(node.input):
            if name in old:
                node.input[place] = f"{old[name]}.wide"
    del graph.graph.input[:]
    for name in old.values():
        graph.graph.input.append(helper.make_tensor_value_info(name, TensorProto.INT32, ["b", "s"]))
        wide = helper.make_node("Cast", [name], [f"{name}.wide"], name=f"{name}.wide", to=TensorProto.INT64)
        graph.graph.node.insert(0, wide)
    tokens = some_tokens()
    exported = adapted(source, graph)
    np.testing.assert_allclose(
        onnx_vectors(exported, tokens), expected_vectors(model, tokens, Pooling()), atol=1e-5
    )
    assert {each.type.tensor_type.elem_type for each in onnx.load(exported).graph.input} == {
        TensorProto.INT64
    }


def test_an_input_that_nothing_depends_on_is_left_out(bert: tuple[ModelSource, Any]) -> None:
    source, model = bert
    graph = token_graph(source, source.directory / "graph")
    for node in graph.graph.node:
        if node.output[0] == "embeddings.types":
            node.input[1] = "zeros"
    graph.graph.node.insert(0, helper.make_node("Sub", ["input_ids", "input_ids"], ["zeros"], name="zeros"))
    exported = adapted(source, graph)
    assert [each.name for each in onnx.load(exported).graph.input] == ["input_ids", "attention_mask"]
    tokens = some_tokens()
    expected = expected_vectors(model, replace(tokens, types=tokens.types * 0), Pooling())
    np.testing.assert_allclose(onnx_vectors(exported, tokens), expected, atol=1e-5)


def test_half_precision_vectors_become_float32(bert: tuple[ModelSource, Any]) -> None:
    source, model = bert
    graph = token_graph(source, source.directory / "graph", output="wide")
    graph.graph.node.append(
        helper.make_node("Cast", ["wide"], ["last_hidden_state"], name="half", to=TensorProto.FLOAT16)
    )
    graph.graph.output[0].name = "last_hidden_state"
    graph.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    tokens = some_tokens()
    vectors = onnx_vectors(adapted(source, graph), tokens)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected_vectors(model, tokens, Pooling()), atol=2e-3)


def test_a_graph_in_half_precision_is_computed_in_float32(bert: tuple[ModelSource, Any]) -> None:
    """As Optimum and sentence-transformers write it at level O4: a recipe finds no float32 matrix in it."""
    from onnxruntime.transformers.float16 import convert_float_to_float16

    source, model = bert
    graph = token_graph(source, source.directory / "graph", output="last_hidden_state")
    half = convert_float_to_float16(graph, keep_io_types=False)
    kinds = {tensor.data_type for tensor in half.graph.initializer}
    assert TensorProto.FLOAT16 in kinds
    file = adapted(source, half)
    made = onnx.load(file)
    assert TensorProto.FLOAT16 not in {tensor.data_type for tensor in made.graph.initializer}
    assert all(
        attribute.i != TensorProto.FLOAT16
        for node in made.graph.node
        if node.op_type == "Cast"
        for attribute in node.attribute
    )
    tokens = some_tokens()
    np.testing.assert_allclose(
        onnx_vectors(file, tokens), expected_vectors(model, tokens, Pooling()), atol=2e-3
    )


def test_an_old_opset_is_converted(tmp_path: Path) -> None:
    """A graph of opset 11, in which Unsqueeze has its axes as attributes."""
    (tmp_path / "model").mkdir()
    source, _ = write_bert(tmp_path / "model")
    table = numpy_helper.from_array(np.random.default_rng(0).normal(size=(60, 32)).astype(np.float32), "t")
    graph = helper.make_graph(
        [
            helper.make_node("Unsqueeze", ["input_ids"], ["wide"], axes=[0]),
            helper.make_node("Squeeze", ["wide"], ["ids"], axes=[0]),
            helper.make_node("Gather", ["t", "ids"], ["last_hidden_state"]),
            helper.make_node("Identity", ["attention_mask"], ["unused"]),
        ],
        "old",
        [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["b", "s"])
            for name in ("input_ids", "attention_mask")
        ],
        [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["b", "s", 32])],
        [table],
    )
    old = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6)
    exported = adapted(source, old)
    assert onnx.load(exported).opset_import[0].version == 17
    assert onnx_vectors(exported, some_tokens()).shape == (4, 32)


def test_a_newer_opset_stays_as_it_is(bert: tuple[ModelSource, Any]) -> None:
    source, model = bert
    graph = version_converter.convert_version(token_graph(source, source.directory / "graph"), 20)
    tokens = some_tokens()
    exported = adapted(source, graph)
    assert onnx.load(exported).opset_import[0].version == 20
    np.testing.assert_allclose(
        onnx_vectors(exported, tokens), expected_vectors(model, tokens, Pooling()), atol=1e-5
    )


@pytest.mark.parametrize("content", [b"", b"hello", b"\x00" * 200, b"PK\x03\x04 a zip"], ids=repr)
def test_a_file_that_is_not_onnx(bert: tuple[ModelSource, Any], content: bytes) -> None:
    source, _ = bert
    (source.directory / "graph.onnx").write_bytes(content)
    error = refusal(source)
    assert isinstance(error, ModelError)
    assert "graph.onnx" in error.message


@pytest.mark.parametrize(
    ("operator", "domain", "named"),
    [
        ("Frobnicate", "", "Frobnicate"),
        ("Attend", "my.ops", "my.ops:Attend"),
        ("BitShift", "", "BitShift"),
    ],
)
def test_an_operator_that_no_kernel_implements_is_named(
    bert: tuple[ModelSource, Any], operator: str, domain: str, named: str
) -> None:
    source, _ = bert
    if operator == "BitShift":  # specified for uint16, implemented for other types only
        nodes = [
            helper.make_node("Cast", ["input_ids"], ["short"], to=TensorProto.UINT16),
            helper.make_node("BitShift", ["short", "short"], ["last_hidden_state"], direction="LEFT"),
        ]
        inputs = [
            helper.make_tensor_value_info(name, TensorProto.INT64, ["b", "s"])
            for name in ("input_ids", "attention_mask")
        ]
        output = helper.make_tensor_value_info("last_hidden_state", TensorProto.UINT16, ["b", "s"])
        graph = helper.make_graph(nodes, "shift", inputs, [output])
        write(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
            source.directory / "graph.onnx",
        )
    else:
        one_node(operator, source.directory / "graph.onnx", domain=domain)
    error = refusal(source)
    assert isinstance(error, UnsupportedModelError)
    assert f"operator {named}" in error.message


def test_an_input_that_no_text_encoder_has_is_named(bert: tuple[ModelSource, Any]) -> None:
    source, _ = bert
    one_node("Add", source.directory / "graph.onnx", inputs=("input_ids", "past_key_values"))
    error = refusal(source)
    assert isinstance(error, UnsupportedModelError)
    assert "past_key_values" in error.message


def test_a_graph_without_a_mask_is_refused(bert: tuple[ModelSource, Any]) -> None:
    source, _ = bert
    graph = token_graph(source, source.directory / "graph")
    kept = [each for each in graph.graph.input if each.name != "attention_mask"]
    del graph.graph.input[:]
    graph.graph.input.extend(kept)
    graph.graph.initializer.append(numpy_helper.from_array(np.ones((1, 1), np.int64), "attention_mask"))
    write(graph, source.directory / "graph.onnx")
    error = refusal(source)
    assert isinstance(error, UnsupportedModelError)
    assert "attention_mask" in error.message


def test_fixed_sizes_are_refused(bert: tuple[ModelSource, Any]) -> None:
    source, _ = bert
    graph = token_graph(source, source.directory / "graph")
    graph.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 128
    write(graph, source.directory / "graph.onnx")
    error = refusal(source)
    assert isinstance(error, UnsupportedModelError)
    assert "128" in error.message


def test_a_graph_of_another_dimension_is_refused(bert: tuple[ModelSource, Any]) -> None:
    source, _ = bert
    write(token_graph(source, source.directory / "graph"), source.directory / "graph.onnx")
    ready = replace(source_of(source.directory, onnx="graph.onnx"), dimension=768)
    with pytest.raises(UnsupportedModelError, match="768 dimensions"):
        export_onnx(ready, source.directory / "out.onnx")
