"""Ready-made ONNX graphs that are damaged, contradictory or too large, each refused in words."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.support.berts import source_of, write_bert
from tests.support.graphs import token_graph, write
from tests.support.installed import export_onnx

from edgepack.errors import EdgepackError, ModelError, UnsupportedModelError
from edgepack.models.graph.onnx_file import vocabulary_rows
from edgepack.records.model import ModelSource


@pytest.fixture
def source(tmp_path: Path) -> ModelSource:
    return write_bert(tmp_path / "model")[0]


def refused(source: ModelSource, graph: onnx.ModelProto, tmp_path: Path) -> EdgepackError:
    write(graph, source.directory / "graph.onnx")
    with pytest.raises(EdgepackError) as caught:
        export_onnx(source_of(source.directory, onnx="graph.onnx"), tmp_path / "out.onnx")
    assert not (tmp_path / "out.onnx").exists(), "nothing half-written"
    return caught.value


def test_two_opsets_in_one_graph(source: ModelSource, tmp_path: Path) -> None:
    graph = token_graph(source, source.directory / "graph")
    graph.opset_import.append(helper.make_opsetid("", 13))
    error = refused(source, graph, tmp_path)
    assert isinstance(error, ModelError)
    assert "several opsets of ai.onnx: 13, 17" in error.message


def test_weights_of_a_graph_that_are_no_numbers(source: ModelSource, tmp_path: Path) -> None:
    graph = token_graph(source, source.directory / "graph")
    tensor = next(each for each in graph.graph.initializer if each.name.endswith("query.weight"))
    spoilt = numpy_helper.to_array(tensor).copy()
    spoilt[3, 4] = np.nan
    tensor.CopyFrom(numpy_helper.from_array(spoilt, tensor.name))
    error = refused(source, graph, tmp_path)
    assert isinstance(error, ModelError)
    assert f"{tensor.name} holds NaN" in error.message


def test_weights_of_a_graph_that_are_infinite(source: ModelSource, tmp_path: Path) -> None:
    graph = token_graph(source, source.directory / "graph")
    tensor = next(each for each in graph.graph.initializer if each.name.endswith("word_embeddings.weight"))
    spoilt = numpy_helper.to_array(tensor).copy()
    spoilt[:] = np.inf
    tensor.CopyFrom(numpy_helper.from_array(spoilt, tensor.name))
    assert "not finite" in refused(source, graph, tmp_path).message


@pytest.mark.parametrize("location", ["../secret.bin", "/etc/passwd", "deep/../../secret.bin"])
def test_external_data_outside_the_folder(source: ModelSource, tmp_path: Path, location: str) -> None:
    (source.directory.parent / "secret.bin").write_bytes(bytes(4 * 60 * 32))
    error = refused(source, with_external_table(source, location), tmp_path)
    assert isinstance(error, ModelError)
    assert "points outside the model's folder" in error.message


@pytest.mark.parametrize("location", ["weights.bin", "weights" * 700])
def test_external_data_that_are_missing(source: ModelSource, tmp_path: Path, location: str) -> None:
    error = refused(source, with_external_table(source, location), tmp_path)
    assert isinstance(error, ModelError)
    assert f"{location}, which is not beside it" in error.message


@pytest.mark.parametrize(
    "said", [{}, {"length": 10**13}, {"length": 3}, {"length": -5}, {"offset": 100}, {"offset": "x"}], ids=str
)
@pytest.mark.parametrize("inside", [False, True])
def test_whole_numbers_that_are_not_all_there(
    source: ModelSource, tmp_path: Path, said: Mapping[str, object], inside: bool
) -> None:
    """Eight bytes of a weight of 16 numbers; ``inside`` a Constant."""
    graph = token_graph(source, source.directory / "graph")
    (source.directory / "weights.bin").write_bytes(bytes(8))
    short = TensorProto(name="short", data_type=TensorProto.INT64, dims=[4, 4])
    short.data_location = TensorProto.EXTERNAL
    for key, value in {"location": "weights.bin", **said}.items():
        short.external_data.add(key=key, value=str(value))
    if inside:
        graph.graph.node.insert(0, helper.make_node("Constant", [], ["short"], value=short))
    else:
        graph.graph.initializer.append(short)
    error = refused(source, graph, tmp_path)
    assert isinstance(error, ModelError)
    assert error.message.startswith("graph.onnx cannot be read with its external data: ")


def with_external_table(source: ModelSource, location: str) -> onnx.ModelProto:
    graph = token_graph(source, source.directory / "graph")
    tensor = next(each for each in graph.graph.initializer if each.name.endswith("word_embeddings.weight"))
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    return graph


@pytest.mark.slow
def test_a_graph_of_more_than_two_gigabytes(source: ModelSource, tmp_path: Path) -> None:
    """A sparse file: it has that many bytes, and takes no room."""
    graph = with_external_table(source, "weights.bin")
    with (source.directory / "weights.bin").open("wb") as stream:
        stream.truncate(2**31 + 1)
    error = refused(source, graph, tmp_path)
    assert isinstance(error, UnsupportedModelError)
    assert "2 GB" in error.message


def node_without_output(graph: onnx.GraphProto) -> None:
    graph.node.append(helper.make_node("Constant", [], [], value=numpy_helper.from_array(np.array(1))))


def circle(graph: onnx.GraphProto) -> None:
    graph.node.extend([helper.make_node("Identity", [a], [b]) for a, b in (("a", "b"), ("b", "a"))])
    graph.node.append(helper.make_node("Gather", ["c", "a"], ["d"]))


def gather_of_nothing(graph: onnx.GraphProto) -> None:
    graph.node.append(helper.make_node("Gather", [], ["d"]))


@pytest.mark.parametrize("damage", [node_without_output, circle, gather_of_nothing])
def test_a_graph_that_is_wired_wrongly(
    source: ModelSource, tmp_path: Path, damage: Callable[[onnx.GraphProto], None]
) -> None:
    graph = token_graph(source, source.directory / "graph")
    damage(graph.graph)
    error = refused(source, graph, tmp_path)
    assert isinstance(error, ModelError)
    assert vocabulary_rows(source.directory / "graph.onnx")


def test_a_name_that_is_no_text(source: ModelSource, tmp_path: Path) -> None:
    file = write(token_graph(source, source.directory / "graph"), source.directory / "graph.onnx")
    file.write_bytes(file.read_bytes().replace(b"encoder.layer.0", b"encod\xffr.layer.0"))
    with pytest.raises(ModelError, match=r"graph\.onnx is not an ONNX model"):
        export_onnx(source_of(source.directory, onnx="graph.onnx"), tmp_path / "out.onnx")


def test_a_loop_whose_end_nothing_says(source: ModelSource, tmp_path: Path) -> None:
    """758 bytes: ONNX Runtime does not return from it, and no signal ends it."""
    graph = token_graph(source, source.directory / "graph")
    state = helper.make_tensor_value_info("going", TensorProto.BOOL, [])
    number = helper.make_tensor_value_info("number", TensorProto.INT64, [])
    again = helper.make_tensor_value_info("again", TensorProto.BOOL, [])
    body = helper.make_graph(
        [helper.make_node("Identity", ["going"], ["again"])], "body", [number, state], [again]
    )
    loop = helper.make_node("Loop", ["times", "true"], [], body=body)
    # In a branch, too.
    branch = helper.make_graph([loop], "branch", [], [])
    for node in (loop, helper.make_node("If", ["true"], [], then_branch=branch, else_branch=branch)):
        with_loop = onnx.ModelProto()
        with_loop.CopyFrom(graph)
        with_loop.graph.initializer.append(numpy_helper.from_array(np.array(2**62), "times"))
        with_loop.graph.initializer.append(numpy_helper.from_array(np.array(True), "true"))
        with_loop.graph.node.append(node)
        error = refused(source, with_loop, tmp_path)
        assert isinstance(error, UnsupportedModelError)
        assert error.message == "graph.onnx has a Loop, and nothing says when that ends"


@pytest.mark.parametrize(
    "calls",
    [
        {0: [0]},
        {0: [1], 1: [0]},
        {0: [], 1: [1]},
        {each: [each + 1] for each in range(3_000)},
        {each: [each + 1] * 2 for each in range(30)},
        {0: [1] * 400, 1: [2] * 400, 2: []},
    ],
    ids=["itself", "each other", "unused", "deep", "doubled", "wide"],
)
def test_functions_that_stand_for_more_than_any_model(
    source: ModelSource, tmp_path: Path, calls: Mapping[int, list[int]]
) -> None:
    """626 bytes ended the process by a signal, 2.7 kB took all memory."""
    error = refused(source, with_functions(source, calls), tmp_path)
    assert isinstance(error, UnsupportedModelError)
    assert "graph.onnx has functions that call themselves" in error.message


def test_functions_within_functions_are_taken(source: ModelSource, tmp_path: Path) -> None:
    graph = with_functions(source, {each: [each + 1] * 2 for each in range(4)})
    write(graph, source.directory / "graph.onnx")
    made = onnx.load(export_onnx(source_of(source.directory, onnx="graph.onnx"), tmp_path / "out.onnx"))
    assert not made.functions


def with_functions(source: ModelSource, calls: Mapping[int, list[int]]) -> onnx.ModelProto:
    """The encoder's output through the first function; each calls others by their numbers, one that is not there copies."""
    graph = token_graph(source, source.directory / "graph", output="before")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    for each, called in calls.items():
        values = ["x", *(f"x{at}" for at in range(1, len(called))), "y"] if called else ["x", "y"]
        nodes = [
            helper.make_node(f"f{to}", [taken], [made], domain="own")
            if to in calls
            else helper.make_node("Identity", [taken], [made])
            for to, taken, made in zip(called or [-1], values, values[1:], strict=False)
        ]
        graph.functions.append(helper.make_function("own", f"f{each}", ["x"], ["y"], nodes, opsets))
    graph.opset_import.append(helper.make_opsetid("own", 1))
    graph.graph.node.append(helper.make_node("f0", ["before"], ["last_hidden_state"], domain="own"))
    graph.graph.output[0].name = "last_hidden_state"
    return graph
