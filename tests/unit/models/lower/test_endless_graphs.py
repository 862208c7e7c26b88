"""Small ONNX files that ask for hours of computing: each ends with an error, after the processor time that is allowed."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from tests.support.berts import write_bert
from tests.support.graphs import token_graph, write

from edgepack.errors import ModelError, UsageError
from edgepack.models.ort.processor_time import VARIABLE, Allowance, limited_time
from edgepack.models.ort.session import open_session
from edgepack.models.ort.watcher import processor_time
from edgepack.records.model import ModelSource

node = helper.make_node
EDGE, TIMES = 5000, 250
"""A square of so many numbers, multiplied with itself so many times: 60 teraflops in few nodes, which take no time to be read."""
ENDS_AT = "graph.onnx computes for longer than a model of its size"


def products(graph: onnx.GraphProto, size: str) -> None:
    graph.node.append(node("ConstantOfShape", [size], ["part0"]))
    graph.node.extend(node("MatMul", [f"part{at}", "part0"], [f"part{at + 1}"]) for at in range(TIMES))


def constant(graph: onnx.GraphProto) -> None:
    """Folded before it is ever run."""
    graph.initializer.append(numpy_helper.from_array(np.array([EDGE, EDGE]), "size"))
    products(graph, "size")


def by_the_text(graph: onnx.GraphProto) -> None:
    """Computed in each run, and in none of the foldings: its edges are those of the batch, times much."""
    graph.initializer.extend(
        numpy_helper.from_array(np.array(value), name)
        for name, value in (("nothing", [0, 0]), ("edges", [EDGE, EDGE]))
    )
    graph.node.extend(
        [
            node("Shape", ["input_ids"], ["said"]),
            node("Mul", ["said", "nothing"], ["none"]),
            node("Add", ["none", "edges"], ["size"]),
        ]
    )
    products(graph, "size")


@pytest.fixture
def source(tmp_path: Path) -> ModelSource:
    return write_bert(tmp_path / "model")[0]


def planted(source: ModelSource, much: Callable[[onnx.GraphProto], None]) -> onnx.ModelProto:
    """A sound encoder, to whose vectors the last product's smallest number is added."""
    model = token_graph(source, source.directory / "graph", output="before")
    much(model.graph)
    model.graph.node.extend(
        [
            node("ReduceMin", [f"part{TIMES}"], ["number"], keepdims=0),
            node("Add", ["before", "number"], ["last_hidden_state"]),
        ]
    )
    model.graph.output[0].name = "last_hidden_state"
    return model


@pytest.mark.tools("python")
@pytest.mark.sample(1)
@pytest.mark.parametrize("much", [constant, by_the_text])
def test_a_small_graph_that_computes_for_hours(
    source: ModelSource, much: Callable[[onnx.GraphProto], None]
) -> None:
    """In one call that gives nothing else of the process a turn: the process ends."""
    write(planted(source, much), source.directory / "graph.onnx")
    done = subprocess.run(
        [sys.executable, "-m", "edgepack", "inspect", str(source.directory / "graph.onnx")],
        env={VARIABLE: "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == -9
    assert f"error: {ENDS_AT}\nhint: " in done.stderr and f"set {VARIABLE}=6000" in done.stderr


def test_many_short_runs_have_one_allowance(source: ModelSource) -> None:
    model = token_graph(source, source.directory / "graph").SerializeToString()
    session = open_session(model, name="graph.onnx")
    feed = {each.name: np.ones((1, 1), np.int64) for each in session.get_inputs()}
    allowance = session._allowance
    before = allowance.left
    session.run(None, feed)
    assert allowance.left != before
    allowance.left = -1
    with pytest.raises(ModelError, match=ENDS_AT):
        session.run(None, feed)


BESIDE = """
import hashlib, threading, time
from edgepack.models.ort.processor_time import Allowance, limited_time
def busy():
    while time.thread_time() < 1:
        hashlib.sha256(bytes(1 << 20))
threads = [threading.Thread(target=each) for each in (busy, busy)]
with limited_time("graph.onnx", Allowance(0)):
    for each in threads:
        each.start()
    for each in threads:
        each.join()
"""


@pytest.mark.tools("python")
def test_what_other_threads_compute_is_not_the_graphs() -> None:
    """Once a process that computed in another thread was ended for it."""
    done = subprocess.run(
        [sys.executable, "-c", BESIDE], env={VARIABLE: "0.5"}, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_thread_that_has_ended_has_taken_no_time() -> None:
    """The program that looks goes on: others have limits, too."""
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    assert thread.native_id is not None
    assert processor_time(os.getpid(), thread.native_id) == 0
    assert processor_time(os.getpid(), threading.get_native_id()) > 0


def test_what_is_allowed_grows_with_the_model_and_its_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = Allowance(1 << 20), Allowance(8 << 30)
    assert small.left < 610 and large.left > small.left + 800
    before = large.left
    large.for_tokens(512)
    assert large.left - before > 16_000
    monkeypatch.setenv(VARIABLE, "6000")
    assert Allowance(0).left >= 6000


@pytest.mark.parametrize("said", ["much", "-1", "0", "nan", "inf"])
def test_a_variable_that_is_no_number_of_seconds(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setenv(VARIABLE, said)
    with pytest.raises(UsageError, match=f"{VARIABLE}={said} is no number of seconds"):
        Allowance(0)


def test_other_errors_stay_what_they_are() -> None:
    allowance = Allowance(0)
    allowance.left = 0
    with pytest.raises(KeyError), limited_time("graph.onnx", allowance):
        raise KeyError
