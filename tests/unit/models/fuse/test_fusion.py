"""Fusion: fewer, larger operators, and the same vectors."""

import logging
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from tests.support.berts import onnx_vectors, some_tokens, write_bert
from tests.support.installed import export_onnx

from edgepack.models.fuse import fusion
from edgepack.models.fuse.fusion import fuse, fused_operators, quiet_logs
from edgepack.records.model import Pooling


def exported(tmp_path: Path, *, pooling: Pooling | None = None, **shape: Any) -> onnx.ModelProto:
    source, _ = write_bert(tmp_path / "model", pooling=pooling, **shape)
    return onnx.load(export_onnx(source, tmp_path / "model.onnx"))


def unexpected(note: str) -> None:
    raise AssertionError(note)


@pytest.mark.parametrize("activation", ["gelu", "gelu_new"])
@pytest.mark.parametrize("pooling", [Pooling(mode="mean"), Pooling(mode="cls")], ids=lambda p: str(p.mode))
def test_fused_vectors_are_the_unfused_ones(tmp_path: Path, activation: str, pooling: Pooling) -> None:
    model = exported(tmp_path, pooling=pooling, hidden_act=activation)
    fused = fuse(model, unexpected)
    tokens = some_tokens(lengths=(9, 2, 12, 1))
    before = onnx_vectors(model.SerializeToString(), tokens)
    after = onnx_vectors(fused.SerializeToString(), tokens)
    np.testing.assert_allclose(after, before, atol=1e-5, rtol=0)
    assert fused_operators(fused) == {
        "EmbedLayerNormalization": 1,
        "Attention": 2,
        "SkipLayerNormalization": 4,
        "BiasGelu" if activation == "gelu" else "FastGelu": 2,
    }


def test_projections_and_embeddings_can_stay_outside(tmp_path: Path) -> None:
    model = exported(tmp_path)
    fused = fuse(model, unexpected, attention="MultiHeadAttention", embeddings=False)
    counts = Counter(node.op_type for node in fused.graph.node)
    assert counts["MultiHeadAttention"] == 2
    assert counts["LayerNormalization"] == 1, "that of the embeddings"
    assert not {"Attention", "EmbedLayerNormalization"} & counts.keys()
    tokens = some_tokens()
    np.testing.assert_allclose(
        onnx_vectors(fused.SerializeToString(), tokens),
        onnx_vectors(model.SerializeToString(), tokens),
        atol=1e-5,
    )


@pytest.mark.parametrize("attention", ["Attention", "MultiHeadAttention"])
def test_padding_on_either_side_stays_out_of_fused_vectors(tmp_path: Path, attention: Any) -> None:
    fused = fuse(exported(tmp_path), unexpected, attention=attention).SerializeToString()
    tokens = some_tokens(lengths=(12, 4))
    right = onnx_vectors(fused, tokens)[1]
    alone = type(tokens)(ids=tokens.ids[1:, :4], mask=tokens.mask[1:, :4], types=tokens.types[1:, :4])
    np.testing.assert_allclose(onnx_vectors(fused, alone)[0], right, atol=1e-6)
    other = tokens.ids.copy()
    other[1, 4:] = 7
    changed = type(tokens)(ids=other, mask=tokens.mask, types=tokens.types)
    np.testing.assert_allclose(onnx_vectors(fused, changed)[1], right, atol=1e-6)


@pytest.mark.parametrize("raw_mask", [True, False], ids=["mask", "lengths"])
def test_attention_of_another_exporter_is_taken_apart(tmp_path: Path, raw_mask: bool) -> None:
    """Optimum's graphs from level O2 on: one matrix for three projections, and lengths in the place of a mask."""
    model = exported(tmp_path)
    theirs = fuse(model, unexpected, attention="Attention", embeddings=False)
    if not raw_mask:
        with_lengths(theirs)
    made = fuse(theirs, unexpected, attention="MultiHeadAttention", embeddings=False)
    found = fused_operators(made)
    assert found["MultiHeadAttention"] == 2 and "Attention" not in found
    matrices = [node for node in made.graph.node if node.op_type == "MatMul" and "pool" not in node.name]
    assert len(matrices) >= 2 * 6, "every projection is a product of its own"
    tokens = some_tokens(lengths=(9, 2, 12, 1))
    before, after = (onnx_vectors(each.SerializeToString(), tokens) for each in (model, made))
    np.testing.assert_allclose(after, before, atol=1e-5, rtol=0)


def with_lengths(model: onnx.ModelProto) -> None:
    """Give attention the number of a text's tokens instead of the mask."""
    nodes = [node for node in model.graph.node if node.op_type == "Attention"]
    axes = numpy_helper.from_array(np.array([1], np.int64), "lengths.axes")
    model.graph.initializer.append(axes)
    total = helper.make_node("ReduceSum", [nodes[0].input[3], axes.name], ["lengths"], keepdims=0)
    first = list(model.graph.node).index(nodes[0])
    for node in nodes:
        node.input[3] = "lengths"
    model.graph.node.insert(first, total)


def test_the_model_that_was_given_stays_as_it_was(tmp_path: Path) -> None:
    model = exported(tmp_path)
    before = model.SerializeToString(deterministic=True)
    fuse(model, unexpected)
    assert model.SerializeToString(deterministic=True) == before


def test_a_wrong_fusion_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = exported(tmp_path)
    right = fusion._optimized

    def wrong(copy: onnx.ModelProto, attention: Any, embeddings: bool) -> onnx.ModelProto:
        fused = right(copy, attention, embeddings)
        next(node for node in fused.graph.node if node.op_type == "Attention").attribute[0].i = 2
        return fused

    monkeypatch.setattr(fusion, "_optimized", wrong)
    notes: list[str] = []
    assert fuse(model, notes.append) is model
    assert len(notes) == 1 and notes[0].startswith("not fused (it would change the vectors by ")


@pytest.mark.parametrize("kind", [AttributeError, RuntimeError])
def test_a_graph_that_trips_the_optimizer_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    def trip(*_: Any) -> onnx.ModelProto:
        raise kind("'NoneType' object has no attribute 'op_type'")

    monkeypatch.setattr(fusion, "_optimized", trip)
    model = exported(tmp_path)
    notes: list[str] = []
    assert fuse(model, notes.append) is model
    assert notes == [f"not fused ({kind.__name__}: 'NoneType' object has no attribute 'op_type')"]


@pytest.mark.tools("python")
def test_neither_torch_is_imported_nor_anything_printed(tmp_path: Path) -> None:
    exported(tmp_path)
    code = (
        "import onnx, sys\n"
        "from edgepack.models.fuse.fusion import fuse\n"
        "fuse(onnx.load(sys.argv[1]), print)\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "model.onnx")], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_what_the_optimizer_prints_stays_off_stdout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says ``failed in shape inference`` of graphs of torch's newer exporter, in the midst of a command's JSON."""
    from onnxruntime.transformers import optimizer

    right = optimizer.optimize_model

    def talkative(*arguments: Any, **more: Any) -> Any:
        print("failed in shape inference")  # noqa: T201
        return right(*arguments, **more)

    monkeypatch.setattr(optimizer, "optimize_model", talkative)
    assert fused_operators(fuse(exported(tmp_path), unexpected))["Attention"] == 2
    assert "shape inference" not in capsys.readouterr().out


def test_warnings_of_others_come_back_afterwards(caplog: pytest.LogCaptureFixture) -> None:
    with quiet_logs():
        logging.warning("inside")
    logging.getLogger("someone").warning("outside")
    assert [record.message for record in caplog.records] == ["outside"]
