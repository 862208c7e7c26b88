"""Every architecture through fusion and int8 into ORT format, and what comes out of it."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tests.support.berts import onnx_vectors
from tests.support.families import FAMILIES, tokens_of, write_family
from tests.support.installed import export_onnx
from tests.support.quick import quick

from edgepack.models.fuse.fusion import fuse, fused_operators
from edgepack.models.reference import exported_model
from edgepack.operators.config import required
from edgepack.plugins.context import HostContext
from edgepack.recipes.prepare import prepare_model
from edgepack.records.target import ModelOptions

DECODERS = ("embedding_gemma2_text", "gemma3_text", "llama", "mistral", "qwen2", "qwen3")
FUSED: dict[str, dict[str, int]] = {
    "albert": {"Attention": 4, "SkipLayerNormalization": 8, "FastGelu": 4},
    "deberta-v2": {"MultiHeadAttention": 2, "SkipLayerNormalization": 4, "BiasGelu": 2},
    "gte": {"MultiHeadAttention": 2, "RotaryEmbedding": 4, "SkipLayerNormalization": 4},
    "new": {"MultiHeadAttention": 2, "RotaryEmbedding": 4, "SkipLayerNormalization": 4},
    "modernbert": {"MultiHeadAttention": 4, "RotaryEmbedding": 8, "SkipLayerNormalization": 8, "Gelu": 4},
    "mpnet": {"MultiHeadAttention": 2, "SkipLayerNormalization": 4, "BiasGelu": 2},
    **{kind: {"MultiHeadAttention": 4, "RotaryEmbedding": 8} for kind in DECODERS},
    "embedding_gemma2_text": {"MultiHeadAttention": 4, "RotaryEmbedding": 8, "SkipLayerNormalization": 4},
    "nomic_bert": {"MultiHeadAttention": 2, "RotaryEmbedding": 4, "SkipLayerNormalization": 4},
}
ATTENTION = {"Attention": 2, "SkipLayerNormalization": 4, "BiasGelu": 2}


@pytest.mark.sample(4)
@pytest.mark.parametrize("kind", FAMILIES)
@pytest.mark.parametrize(
    "parameters",
    quick([{}, {"attention": "MultiHeadAttention", "embeddings": False}], {}),
    ids=str,
)
def test_attention_is_fused_and_nothing_changes(tmp_path: Path, kind: str, parameters: Any) -> None:
    source, _ = write_family(tmp_path / "model", kind)
    model = onnx.load(export_onnx(source, tmp_path / "model.onnx"))
    notes: list[str] = []
    fused = fuse(model, notes.append, **parameters)
    assert notes == []
    found = fused_operators(fused)
    wanted = FUSED.get(kind, ATTENTION)
    if parameters:
        wanted = {name.replace("Attention", "MultiHeadAttention"): count for name, count in wanted.items()}
        wanted = {name.replace("MultiHeadMultiHead", "MultiHead"): count for name, count in wanted.items()}
    assert found.items() >= {name: count for name, count in wanted.items() if "Skip" not in name}.items()
    simplified = "SkipSimplifiedLayerNormalization" if kind in DECODERS else "SkipLayerNormalization"
    assert found[simplified] >= wanted.get("SkipLayerNormalization", 8)
    tokens = tokens_of(kind, lengths=(9, 30, 2, 12))
    before = onnx_vectors(model.SerializeToString(), tokens)
    np.testing.assert_allclose(onnx_vectors(fused.SerializeToString(), tokens), before, atol=1e-5)


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", FAMILIES)
@pytest.mark.parametrize("recipe", quick(["fp32", "int8"], "int8"))
def test_every_architecture_is_prepared(tmp_path: Path, kind: str, recipe: str, context: HostContext) -> None:
    source, _ = write_family(tmp_path / "model", kind, std=0.15)
    prepared = prepare_model(source, options=ModelOptions(recipe=recipe), context=context)
    names = {operator.name for operator in required(prepared.needs).kernels}
    assert names & {"Attention", "MultiHeadAttention"}
    tokens = tokens_of(kind, lengths=(9, 30, 2, 12))
    vectors = onnx_vectors(prepared.file, tokens)
    exact = onnx_vectors(exported_model(source, context=context), tokens)
    nearest = 0.99999 if recipe == "fp32" else 0.99
    assert (vectors * exact).sum(axis=1).min() > nearest
    assert not prepared.batch_dependent
