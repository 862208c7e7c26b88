"""Files that the current exporters write here and now: taken, fused like edgepack's own graphs, and the same vectors."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import transformers
from tests.support.berts import Tokens, onnx_vectors, source_of
from tests.support.exporters import export_as_today
from tests.support.families import FAMILIES, tokens_of, write_family
from tests.support.installed import export_onnx
from tests.support.judges import torch_model, torch_vectors
from tests.support.newest import judged, with_newest

from edgepack.models.fuse.fusion import fuse, fused_operators
from edgepack.records.model import Pooling

COMPARED = (
    "MultiHeadAttention",
    "RotaryEmbedding",
    "SkipLayerNormalization",
    "SkipSimplifiedLayerNormalization",
)
ENOUGH = 0.999999


def unexpected(note: str) -> None:
    raise AssertionError(note)


def fused_of(file: Path) -> onnx.ModelProto:
    return fuse(onnx.load(file), unexpected, attention="MultiHeadAttention", embeddings=False)


def without_types(kind: str) -> Tokens:
    tokens = tokens_of(kind)
    return replace(tokens, types=np.zeros_like(tokens.types))


def is_fused_alike(ours: onnx.ModelProto, theirs: onnx.ModelProto) -> bool:
    """All but the embeddings: positions that are counted by tokens take another way there."""
    own, other = (Counter(fused_operators(each)) for each in (ours, theirs))
    return all(abs(own[name] - other[name]) <= (name == "SkipLayerNormalization") for name in COMPARED)


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["modernbert", "llama", "mpnet"])
def test_the_older_exporter(tmp_path: Path, kind: str) -> None:
    own, kept = write_family(tmp_path / "model", kind)
    eager = torch_model(kept)
    model = getattr(transformers, FAMILIES[kind].model).from_pretrained(tmp_path / "model").eval()
    export_as_today(model, tmp_path / "model" / "theirs.onnx", "script")
    theirs = export_onnx(source_of(tmp_path / "model", onnx="theirs.onnx"), tmp_path / "theirs.onnx")
    fused, tokens = fused_of(theirs), without_types(kind)
    expected = torch_vectors(eager, tokens, Pooling())
    np.testing.assert_allclose(onnx_vectors(fused.SerializeToString(), tokens), expected, atol=2e-6)
    assert is_fused_alike(fused_of(export_onnx(own, tmp_path / "own.onnx")), fused)
    assert "Softmax" not in {node.op_type for node in fused.graph.node}


@pytest.mark.slow
@pytest.mark.tools("python")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("how", ["dynamo", "dynamo23"])
@pytest.mark.parametrize("kind", FAMILIES)
def test_every_architecture(tmp_path: Path, kind: str, how: str) -> None:
    own, _ = write_family(tmp_path / "model", kind)
    file = tmp_path / "model" / "theirs.onnx"
    with_newest(
        ["-m", "tests.support.exporters", str(tmp_path / "model"), FAMILIES[kind].model, str(file), how]
    )
    assert onnx.load(file).opset_import[0].version == (23 if how == "dynamo23" else 20)
    theirs = export_onnx(source_of(tmp_path / "model", onnx=file.name), tmp_path / "theirs.onnx")
    fused, tokens = fused_of(theirs), without_types(kind)
    ours = onnx_vectors(fused.SerializeToString(), tokens)
    assert cosines(ours, judged_vectors(file, tokens, tmp_path)).min() >= ENOUGH
    assert is_fused_alike(fused_of(export_onnx(own, tmp_path / "own.onnx")), fused)


def judged_vectors(file: Path, tokens: Tokens, folder: Path) -> np.ndarray:
    """Means of the tokens' vectors by the newest ONNX Runtime, every text alone and without padding."""
    lengths = tokens.mask.sum(axis=1)
    feeds = [
        {"input_ids": ids[None, :length], "attention_mask": mask[None, :length]}
        for ids, mask, length in zip(tokens.ids, tokens.mask, lengths, strict=True)
    ]
    return np.stack([each[0].mean(axis=0) for each in judged(file, feeds, folder)])


def cosines(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    product: np.ndarray = (one * other).sum(axis=1)
    lengths: np.ndarray = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    made: np.ndarray = product / lengths
    return made
