"""Every architecture that is written without PyTorch, element by element against transformers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from safetensors.numpy import load_file, save_file
from tests.support.berts import Tokens, expected_vectors, onnx_vectors
from tests.support.families import FAMILIES, tokens_of, write_family
from tests.support.installed import export_onnx
from tests.support.quick import quick

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.plugins.host import load_plugins
from edgepack.records.model import Pooling

OTHERS = sorted(set(FAMILIES) - {"bert"})

TRUE_SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "bge-small": ("bert", {"vocab_size": 30522, "hidden_size": 384, "num_attention_heads": 12}
                  | {"intermediate_size": 1536, "max_position_embeddings": 512}),
    "bge-large": ("bert", {"vocab_size": 30522, "hidden_size": 1024, "num_attention_heads": 16}
                  | {"intermediate_size": 4096, "max_position_embeddings": 512}),
    "multilingual-e5-base": ("xlm-roberta", {"vocab_size": 2000, "hidden_size": 768, "num_attention_heads": 12}
                             | {"intermediate_size": 3072, "max_position_embeddings": 514}
                             | {"type_vocab_size": 1, "layer_norm_eps": 1e-5}),
    "all-distilroberta-v1": ("roberta", {"vocab_size": 2000, "hidden_size": 768, "num_attention_heads": 12}
                             | {"intermediate_size": 3072, "max_position_embeddings": 514}
                             | {"type_vocab_size": 1, "layer_norm_eps": 1e-5}),
    "all-mpnet-base-v2": ("mpnet", {"vocab_size": 30527, "hidden_size": 768, "num_attention_heads": 12}
                          | {"intermediate_size": 3072, "max_position_embeddings": 514}
                          | {"layer_norm_eps": 1e-5}),
    "msmarco-distilbert": ("distilbert", {"vocab_size": 30522, "dim": 768, "n_heads": 12}
                           | {"hidden_dim": 3072, "max_position_embeddings": 512, "n_layers": 1}),
    "gte-modernbert-base": ("modernbert", {"vocab_size": 50368, "hidden_size": 768, "num_attention_heads": 12}
                            | {"intermediate_size": 1152, "max_position_embeddings": 8192, "local_attention": 128}
                            | {"num_hidden_layers": 2}),
    "nomic-embed-text-v1.5": ("nomic_bert", {"vocab_size": 30528, "hidden_size": 768, "num_attention_heads": 12}
                              | {"intermediate_size": 3072, "max_position_embeddings": 2048}),
    "albert-base-v2": ("albert", {"vocab_size": 30000, "hidden_size": 768, "num_attention_heads": 12}
                       | {"intermediate_size": 3072, "max_position_embeddings": 512, "embedding_size": 128}
                       | {"num_hidden_layers": 2, "num_hidden_groups": 1}),
    "mxbai-rerank-base-v1": ("deberta-v2", {"vocab_size": 2000, "hidden_size": 768, "num_attention_heads": 12}
                             | {"intermediate_size": 3072, "max_position_embeddings": 512}
                             | {"position_buckets": 256, "layer_norm_eps": 1e-7}),
    "gte-multilingual-base": ("gte", {"vocab_size": 2000, "hidden_size": 768, "num_attention_heads": 12}
                              | {"intermediate_size": 3072, "max_position_embeddings": 8192}),
}  # fmt: skip
"""Width, heads and tables of the real models; one layer, and a short vocabulary where it is of 250,000 words."""


def test_what_can_be_written_is_what_is_taken() -> None:
    assert set(load_plugins().extensions("architecture")) - {"static-embedding"} == set(FAMILIES)


@pytest.mark.sample(13)
@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("mode", ["mean", "cls"])
def test_vectors_are_those_of_transformers(tmp_path: Path, kind: str, mode: Any) -> None:
    pooling = Pooling(mode=mode)
    source, model = write_family(tmp_path / "model", kind, pooling=pooling)
    tokens = tokens_of(kind)
    vectors = onnx_vectors(export_onnx(source, tmp_path / "model.onnx"), tokens)
    expected = expected_vectors(model, tokens, pooling)
    np.testing.assert_allclose(vectors, expected, atol=1e-5, rtol=0)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", quick(TRUE_SHAPES, "bge-small", "all-distilroberta-v1", "albert-base-v2"))
def test_the_true_shapes(tmp_path: Path, name: str) -> None:
    kind, shape = TRUE_SHAPES[name]
    layers: dict[str, Any] = {} if kind == "distilbert" else {"num_hidden_layers": 1}
    source, model = write_family(tmp_path / "model", kind, std=0.05, **{**layers, **shape})
    tokens = tokens_of(kind, lengths=(300, 7, 130, 1), vocabulary=shape["vocab_size"])
    vectors = onnx_vectors(export_onnx(source, tmp_path / "model.onnx"), tokens)
    expected = expected_vectors(model, tokens, source.pooling)
    np.testing.assert_allclose(vectors, expected, atol=1e-5, rtol=0)


@pytest.mark.sample(11)
@pytest.mark.parametrize("kind", OTHERS)
def test_padding_does_not_change_a_vector(tmp_path: Path, kind: str) -> None:
    source, _ = write_family(tmp_path / "model", kind)
    exported = export_onnx(source, tmp_path / "model.onnx")
    tokens = tokens_of(kind)
    together = onnx_vectors(exported, tokens)
    alone = Tokens(ids=tokens.ids[1:2, :5], mask=tokens.mask[1:2, :5], types=tokens.types[1:2, :5])
    np.testing.assert_allclose(onnx_vectors(exported, alone)[0], together[1], atol=1e-6)


@pytest.mark.parametrize("kind", ["roberta", "mpnet"])
def test_a_padding_token_inside_a_text_is_counted_as_transformers_counts_it(
    tmp_path: Path, kind: str
) -> None:
    source, model = write_family(tmp_path / "model", kind)
    tokens = tokens_of(kind)
    tokens.ids[0, 3] = FAMILIES[kind].padding
    vectors = onnx_vectors(export_onnx(source, tmp_path / "model.onnx"), tokens)
    expected = expected_vectors(model, tokens, source.pooling)
    np.testing.assert_allclose(vectors, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", OTHERS)
def test_the_graph_takes_just_what_it_uses(tmp_path: Path, kind: str) -> None:
    source, _ = write_family(tmp_path / "model", kind)
    model = onnx.load(export_onnx(source, tmp_path / "model.onnx"))
    onnx.checker.check_model(model, full_check=True)
    assert [(each.domain, each.version) for each in model.opset_import] == [("", 17)]
    inputs = ["input_ids", "attention_mask", *["token_type_ids"] * FAMILIES[kind].types]
    assert [each.name for each in model.graph.input] == inputs


@pytest.mark.parametrize(
    ("kind", "changes", "said"),
    [
        ("mpnet", {"relative_attention_num_buckets": 16}, "16 buckets of distances"),
        ("xlm-roberta", {"is_decoder": True}, "describes a decoder"),
        ("distilbert", {"is_causal": True}, "describes a decoder"),
        ("distilbert", {"activation": "snake"}, "activation 'snake' is not supported"),
    ],
    ids=str,
)
def test_what_is_written_otherwise_is_refused_by_name(
    tmp_path: Path, kind: str, changes: dict[str, Any], said: str
) -> None:
    source, _ = write_family(tmp_path / "model", kind)
    with pytest.raises(UnsupportedModelError, match=said):
        export_onnx(replace(source, config={**source.config, **changes}), tmp_path / "model.onnx")


@pytest.mark.parametrize("kind", OTHERS)
def test_weights_that_lack_a_tensor_say_which(tmp_path: Path, kind: str) -> None:
    source, _ = write_family(tmp_path / "model", kind)
    assert source.weights is not None
    tensors = load_file(source.weights)
    lost = sorted(name for name in tensors if "1." in name and name.endswith("weight"))[0]
    save_file({name: tensor for name, tensor in tensors.items() if name != lost}, source.weights)
    with pytest.raises(ModelError, match=lost.replace(".", r"\.")):
        export_onnx(source, tmp_path / "model.onnx")
