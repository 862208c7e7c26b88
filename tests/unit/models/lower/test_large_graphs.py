"""Small ONNX files that stand for tens of gigabytes: each is refused in words, before it has them."""

import resource
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.support.berts import source_of, write_bert
from tests.support.graphs import token_graph, write
from tests.support.installed import export_onnx, installed

from edgepack.errors import EdgepackError, ModelError
from edgepack.models.lower.adapt import dimension_of_graph, longest_text_of_graph
from edgepack.models.ort import memory
from edgepack.models.ort.c_api import Session
from edgepack.models.ort.processor_time import Allowance
from edgepack.models.ort.session import open_session
from edgepack.models.ort.shapes import with_shapes
from edgepack.records.model import ModelSource
from edgepack.runner.freeze.sample_bundle import stock_library

node = helper.make_node
PEAK = 1 << 30
"""Bytes; the graphs ask for 40 times as much and more."""
EDGE = 120_000
"""A square of so many numbers of four bytes has 58 GB."""


def constants(operator: str, *values: object, **attributes: Any) -> Callable[[onnx.GraphProto], None]:
    """Add an operator that makes much of constants."""

    def add(graph: onnx.GraphProto) -> None:
        names = [f"given{at}" if value is not None else "" for at, value in enumerate(values)]
        graph.initializer.extend(
            numpy_helper.from_array(np.asarray(value), name)
            for name, value in zip(names, values, strict=True)
            if name
        )
        graph.node.append(node(operator, names, ["large"], **attributes))

    return add


def by_the_text(graph: onnx.GraphProto) -> None:
    """Its size is that of the text, times much: nothing is constant."""
    graph.initializer.append(numpy_helper.from_array(np.array([EDGE // 4, EDGE // 8]), "much"))
    graph.node.extend(
        [
            node("Shape", ["input_ids"], ["said"]),
            node("Mul", ["said", "much"], ["size"]),
            node("ConstantOfShape", ["size"], ["large"]),
        ]
    )


def doubled(graph: onnx.GraphProto) -> None:
    """Inference follows numbers that may be shapes: 2^40 of them."""
    graph.node.append(node("Shape", ["input_ids"], ["said0"]))
    graph.node.extend(
        node("Concat", [f"said{at}"] * 2, [f"said{at + 1}" if at < 39 else "large"], axis=0)
        for at in range(40)
    )


def many(graph: onnx.GraphProto) -> None:
    """Each one is small, and another one."""
    graph.initializer.append(numpy_helper.from_array(np.array([2000, 2500, 8]), "size"))
    graph.node.extend(
        node(
            "ConstantOfShape",
            ["size"],
            [f"part{at}"],
            value=numpy_helper.from_array(np.array([at], np.float32)),
        )
        for at in range(200)
    )
    graph.node.append(node("Sum", [f"part{at}" for at in range(200)], ["large"]))


def axes(graph: onnx.GraphProto) -> None:
    """Shapes of a million axes, that of each value anew."""
    graph.initializer.append(numpy_helper.from_array(np.ones(1_000_000, np.int64), "ones"))
    graph.node.extend(node("ConstantOfShape", ["ones"], [f"part{at}"]) for at in range(3000))
    graph.node.append(node("Sum", [f"part{at}" for at in range(3000)], ["large"]))


def sparse(graph: onnx.GraphProto) -> None:
    """An initializer of one number among many zeros."""
    values = helper.make_tensor("table", TensorProto.FLOAT, [1], [1.0])
    places = helper.make_tensor("places", TensorProto.INT64, [1], [7])
    graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [EDGE, EDGE]))
    graph.node.append(node("Identity", ["table"], ["large"]))


ONE = np.ones((1, 1), np.float32)
BOMBS: Mapping[str, Callable[[onnx.GraphProto], None]] = {
    "ConstantOfShape": constants("ConstantOfShape", [EDGE, EDGE]),
    "Expand": constants("Expand", ONE, [EDGE, EDGE]),
    "Tile": constants("Tile", ONE, [EDGE, EDGE]),
    "Range": constants("Range", 0, 10**10, 1),
    "Pad": constants("Pad", ONE, [0, 0, EDGE, EDGE]),
    "Resize": constants(
        "Resize", ONE.reshape(1, 1, 1, 1), None, np.array([1, 1, EDGE, EDGE], np.float32), mode="nearest"
    ),
    "MatMul": constants("MatMul", np.ones((EDGE, 1), np.float32), np.ones((1, EDGE), np.float32)),
    "Add": constants("Add", np.ones((EDGE, 1), np.float32), np.ones((1, EDGE), np.float32)),
    "OneHot": constants("OneHot", np.zeros(EDGE, np.int64), EDGE, np.array([0, 1], np.float32)),
    "by the text": by_the_text,
    "doubled": doubled,
    "many": many,
    "sparse": sparse,
}


@pytest.fixture
def source(tmp_path: Path) -> ModelSource:
    return write_bert(tmp_path / "model")[0]


@pytest.fixture(autouse=True)
def small_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """One with little memory free, which is soon taken: writing bytes without end takes time, too."""
    monkeypatch.setattr(memory, "free", lambda: 1 << 29)


def with_bomb(source: ModelSource, bomb: Callable[[onnx.GraphProto], None]) -> onnx.ModelProto:
    """A sound encoder, to whose vectors a number is added that is made of the large value."""
    model = token_graph(source, source.directory / "graph", output="before")
    bomb(model.graph)
    model.graph.node.extend(
        [
            node("Cast", ["large"], ["numbers"], to=TensorProto.FLOAT),
            node("ReduceMin", ["numbers"], ["number"], keepdims=0),
            node("Add", ["before", "number"], ["last_hidden_state"]),
        ]
    )
    model.graph.output[0].name = "last_hidden_state"
    return model


@contextmanager
def little_taken() -> Iterator[None]:
    """Require that this process takes little memory meanwhile."""
    status = Path("/proc/self/status")
    Path("/proc/self/clear_refs").write_text("5")  # its peak is counted from now on
    before = peak(status)
    yield
    assert peak(status) - before < PEAK


def peak(status: Path) -> int:
    """Bytes."""
    return next(int(line.split()[1]) << 10 for line in status.read_text().splitlines() if "VmHWM" in line)


@pytest.mark.parametrize("bomb", BOMBS)
def test_little_that_stands_for_much(source: ModelSource, tmp_path: Path, bomb: str) -> None:
    file = write(with_bomb(source, BOMBS[bomb]), source.directory / "graph.onnx")
    assert file.stat().st_size < 2_000_000
    with little_taken(), pytest.raises(EdgepackError) as caught:
        export_onnx(source_of(source.directory, onnx="graph.onnx"), tmp_path / "out.onnx")
    assert isinstance(caught.value, ModelError)
    assert caught.value.message.startswith("graph.onnx takes more memory than a model of its size")
    with little_taken(), installed() as context:
        with pytest.raises(ModelError, match="takes more memory"):
            dimension_of_graph(file, context=context)
        with suppress(ModelError):
            assert longest_text_of_graph(file, 16, context=context) == 16


def test_a_graph_that_onnx_runtime_of_a_newer_release_runs(source: ModelSource, tmp_path: Path) -> None:
    """It is neither folded nor run by the installed one."""
    model = with_bomb(source, BOMBS["by the text"])
    session = Session(stock_library(), model.SerializeToString(), name="graph.onnx")
    feed = {each.name: np.ones((4, 8), np.int64) for each in session.get_inputs()}
    limit = memory.memory_to_try(0)
    with (
        little_taken(),
        pytest.raises(ModelError, match=r"graph\.onnx takes more memory"),
        memory.limited_memory("graph.onnx", limit, Allowance(0)),
    ):
        session.run(["last_hidden_state"], feed)


@pytest.mark.slow
def test_inference_of_shapes_with_millions_of_axes(source: ModelSource) -> None:
    with little_taken(), pytest.raises(ModelError, match="the model takes more memory"):
        with_shapes(with_bomb(source, axes))


def test_a_value_that_is_larger_with_longer_texts(source: ModelSource) -> None:
    """What short texts do not show is held to what the machine has free, which is little here."""
    model = with_bomb(source, by_the_text)
    next(each for each in model.graph.initializer if each.name == "much").CopyFrom(
        numpy_helper.from_array(np.array([EDGE // 32, EDGE // 32]), "much")
    )
    session = open_session(model.SerializeToString(), name="graph.onnx")
    names = [each.name for each in session.get_inputs()]
    with little_taken(), pytest.raises(ModelError, match=r"graph\.onnx takes more memory"):
        session.run(None, dict.fromkeys(names, np.ones((8, 16), np.int64)))
    assert session.run(None, dict.fromkeys(names, np.ones((1, 1), np.int64)))


@pytest.mark.slow
def test_constants_that_are_many_times_their_file(
    source: ModelSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They fit into memory, but would be in the bundle."""
    monkeypatch.setattr(memory, "free", lambda: 4 << 30)
    model = with_bomb(source, constants("ConstantOfShape", [10_000, 10_000]))
    # What is made of it, and of the text, is not constant.
    model.graph.node[-3].input[0] = "positive"
    model.graph.node.insert(len(model.graph.node) - 3, node("Add", ["large", "first"], ["positive"]))
    model.graph.node.insert(len(model.graph.node) - 4, node("ReduceMin", ["before"], ["first"], keepdims=0))
    write(model, source.directory / "graph.onnx")
    with pytest.raises(ModelError, match=r"graph\.onnx makes 0\.4 GB of constants that have 0\.0"):
        export_onnx(source_of(source.directory, onnx="graph.onnx"), tmp_path / "out.onnx")


def test_limits_of_memory_end_with_what_they_are_for() -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    lowest = memory.memory_for(1 << 20)
    with memory.limited_memory("outer", memory.memory_for(), Allowance(0)):
        with (
            pytest.raises(ModelError, match="inner takes more memory"),
            memory.limited_memory("inner", lowest, Allowance(0)),
        ):
            bytearray(1 << 30)
        assert bytearray(1 << 26)
        assert resource.getrlimit(resource.RLIMIT_DATA) != before
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
