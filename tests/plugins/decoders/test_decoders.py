"""Decoders by the built-in plugin; what every architecture is asked is in tests/unit/models/export/test_families.py."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tests.support.berts import Tokens, expected_vectors, onnx_vectors
from tests.support.families import tokens_of, write_family
from tests.support.installed import export_onnx, installed
from tests.support.tiny import write_json

from edgepack.errors import EdgepackError, ModelError, UnsupportedModelError
from edgepack.models.find.source import ingest
from edgepack.records.model import ModelSource, Pooling
from edgepack_decoders.settings import read_settings


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        ("llama", {"attention_bias": True, "mlp_bias": True, "num_key_value_heads": 1}),
        ("qwen3", {"attention_bias": True, "use_sliding_window": False}),
        ("qwen3", {"layer_types": ["sliding_attention", "full_attention"] * 2}),
        ("mistral", {"sliding_window": None, "num_key_value_heads": 4}),
        ("gemma3_text", {"use_bidirectional_attention": False, "attention_bias": True}),
        ("gemma3_text", {"sliding_window": 7, "num_key_value_heads": 4, "hidden_size": 36}),
    ],
    ids=str,
)
def test_settings_are_those_of_transformers(tmp_path: Path, kind: str, shape: dict[str, Any]) -> None:
    source, model = write_family(tmp_path / "model", kind, **shape)
    tokens = tokens_of(kind, lengths=(31, 5, 2, 12))
    vectors = onnx_vectors(export_onnx(source, tmp_path / "model.onnx"), tokens)
    expected = expected_vectors(model, tokens, source.pooling)
    np.testing.assert_allclose(vectors, expected, atol=1e-5, rtol=0)


def test_the_last_token_on_whichever_side_the_padding_is(tmp_path: Path) -> None:
    source, model = write_family(tmp_path / "model", "qwen3", pooling=Pooling(mode="last"))
    tokens = tokens_of("qwen3")
    lengths = tokens.mask.sum(axis=1)
    before = [np.roll(row, -length) for row, length in zip(tokens.ids, lengths, strict=True)]
    left = Tokens(ids=np.stack(before), mask=tokens.mask[:, ::-1].copy(), types=tokens.types)
    exported = export_onnx(source, tmp_path / "model.onnx")
    expected = expected_vectors(model, tokens, source.pooling)
    np.testing.assert_allclose(onnx_vectors(exported, tokens), expected, atol=1e-5, rtol=0)
    np.testing.assert_allclose(onnx_vectors(exported, left), expected, atol=1e-5, rtol=0)


def test_the_words_of_older_versions_and_tensors_of_a_model_with_a_head(tmp_path: Path) -> None:
    """As on the hub: ``rope_theta`` by itself, windows from a layer on, names that begin with ``model.``."""
    rope = {"rope_type": "default", "rope_theta": 7000.0}
    source, model = write_family(tmp_path / "model", "qwen2", rope_parameters=rope)
    tokens = tokens_of("qwen2")
    expected = expected_vectors(model, tokens, source.pooling)
    assert source.weights is not None
    save_file({f"model.{name}": tensor for name, tensor in load_file(source.weights).items()}, source.weights)
    config = {
        key: value for key, value in source.config.items() if key not in ("layer_types", "rope_parameters")
    }
    config |= {"rope_theta": 7000.0, "rope_scaling": None, "use_sliding_window": True, "sliding_window": 5}
    exported = export_onnx(replace(source, config=config), tmp_path / "model.onnx")
    np.testing.assert_allclose(onnx_vectors(exported, tokens), expected, atol=1e-5, rtol=0)


def test_the_words_of_embeddinggemma(tmp_path: Path) -> None:
    """As on the hub: two bases by themselves, and a pattern in place of a list."""
    bases = {"full_attention": 9000.0, "sliding_attention": 300.0}
    rope = {kind: {"rope_type": "default", "rope_theta": base} for kind, base in bases.items()}
    shape: dict[str, Any] = {"layer_types": None, "sliding_window_pattern": 3, "rope_parameters": rope}
    source, model = write_family(tmp_path / "model", "gemma3_text", **shape)
    tokens = tokens_of("gemma3_text")
    expected = expected_vectors(model, tokens, source.pooling)
    config = {
        key: value for key, value in source.config.items() if key not in ("layer_types", "rope_parameters")
    }
    config |= {"_sliding_window_pattern": 3, "rope_theta": 9000.0, "rope_local_base_freq": 300.0}
    exported = export_onnx(replace(source, config=config), tmp_path / "model.onnx")
    np.testing.assert_allclose(onnx_vectors(exported, tokens), expected, atol=1e-5, rtol=0)


def test_the_words_of_embeddinggemma_2(tmp_path: Path) -> None:
    """Numbers of layers in two digits; and, where nothing is said of single layers, what is said of those that see all."""
    shape: dict[str, Any] = {"num_hidden_layers": 11, "layer_types": None, "sliding_window_pattern": 3}
    source, model = write_family(tmp_path / "model", "embedding_gemma2_text", **shape)
    assert "02" in source.config["per_layer_config"]
    tokens = tokens_of("embedding_gemma2_text")
    expected = expected_vectors(model, tokens, source.pooling)
    left_out = ("layer_types", "per_layer_config")
    config = {key: value for key, value in source.config.items() if key not in left_out}
    config |= {"sliding_window_pattern": 3, "global_head_dim": 16, "num_global_key_value_heads": 1}
    for number, each in enumerate((source.config, config)):
        exported = export_onnx(replace(source, config=each), tmp_path / f"{number}.onnx")
        np.testing.assert_allclose(onnx_vectors(exported, tokens), expected, atol=1e-5, rtol=0)


def test_the_text_part_of_a_model_of_several_media(tmp_path: Path) -> None:
    """As on the hub: the text part's settings inside of others, its weights beside those for images."""
    source, model = write_family(tmp_path / "model", "embedding_gemma2_text")
    assert source.weights is not None
    tensors = {f"language_model.{name}": tensor for name, tensor in load_file(source.weights).items()}
    save_file({**tensors, "vision_tower.weight": np.ones(3, np.float32)}, source.weights)
    document = {"model_type": "embedding_gemma2", "text_config": source.config, "vision_config": {"depth": 2}}
    write_json(source.directory / "config.json", document)
    found = read(source.directory)
    assert (found.dimension, found.max_length) == (40, 40)
    tokens = tokens_of("embedding_gemma2_text")
    pooling = Pooling()
    expected = expected_vectors(model, tokens, pooling)
    exported = export_onnx(replace(found, pooling=pooling), tmp_path / "model.onnx")
    np.testing.assert_allclose(onnx_vectors(exported, tokens), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"per_layer_config": {}}, ModelError, r"self_attn.q_proj.weight has shape \[64, 32\]"),
        (
            {"per_layer_config": {"1": {"num_key_value_heads": 3}}},
            ModelError,
            "4 attention heads cannot share 3 heads",
        ),
        ({"hidden_size_per_layer_input": 12}, ModelError, r"projection.weight has shape \[80, 32\]"),
        ({"embedding_dim": 64}, ModelError, "64 dimensions, 40 were announced"),
        (
            {"rope_parameters": {"full_attention": {"rope_type": "proportional", "factor": 2.0}}},
            UnsupportedModelError,
            "of share 1.0 and factor 2.0",
        ),
    ],
    ids=str,
)
def test_what_contradicts_the_weights_of_embeddinggemma_2_is_said(
    tmp_path: Path, changes: dict[str, Any], error: type[EdgepackError], said: str
) -> None:
    source, _ = write_family(tmp_path / "model", "embedding_gemma2_text")
    with pytest.raises(error, match=said) as caught:
        export_onnx(replace(source, config={**source.config, **changes}), tmp_path / "model.onnx")
    assert caught.value.hint


@pytest.mark.parametrize(
    ("kind", "activation"),
    [
        ("qwen3", "silu"),
        ("qwen2", "silu"),
        ("llama", "silu"),
        ("mistral", "silu"),
        ("gemma3_text", "gelu_pytorch_tanh"),
    ],
)
def test_an_activation_that_nothing_says_is_its_familys(tmp_path: Path, kind: str, activation: str) -> None:
    source, _ = write_family(tmp_path / "model", kind)
    keys = ("hidden_act", "hidden_activation")
    config = {key: value for key, value in source.config.items() if key not in keys}
    assert read_settings(config).activation == activation


def test_gemma_with_capped_scores_is_refused(tmp_path: Path) -> None:
    source, _ = write_family(tmp_path / "model", "gemma3_text")
    with pytest.raises(UnsupportedModelError, match="attn_logit_softcapping"):
        export_onnx(
            replace(source, config={**source.config, "attn_logit_softcapping": 50.0}), tmp_path / "m.onnx"
        )


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        (
            {"attention_bias": True},
            ModelError,
            "asks for a bias in self_attn.q_proj, model.safetensors has none",
        ),
        ({"num_key_value_heads": 3}, ModelError, "4 attention heads cannot share 3 heads of keys"),
        ({"head_dim": 8}, ModelError, r"q_proj.weight has shape \[48, 32\]"),
        ({"layer_types": ["full_attention"]}, ModelError, "each of 4 layers"),
        ({"layer_types": ["chunked"] * 4}, UnsupportedModelError, "layers of chunked"),
        ({"rope_scaling": {"rope_type": "yarn"}}, UnsupportedModelError, "of type 'yarn'"),
        ({"rope_parameters": {"rope_type": "llama3"}}, UnsupportedModelError, "of type 'llama3'"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, UnsupportedModelError, r"\(0.5\)"),
        ({"is_causal": False}, UnsupportedModelError, "code that comes with the model"),
        ({"hidden_act": "snake"}, UnsupportedModelError, "hidden_act 'snake'"),
    ],
    ids=str,
)
def test_what_contradicts_the_weights_or_is_not_written_is_said(
    tmp_path: Path, changes: dict[str, Any], error: type[EdgepackError], said: str
) -> None:
    source, _ = write_family(tmp_path / "model", "qwen3")
    with pytest.raises(error, match=said) as caught:
        export_onnx(replace(source, config={**source.config, **changes}), tmp_path / "model.onnx")
    assert caught.value.hint


def read(folder: Path) -> ModelSource:
    with installed() as context:
        return ingest(str(folder), context=context)


def test_a_decoder_that_is_no_embedder_is_refused_by_name(tmp_path: Path) -> None:
    folder = write_family(tmp_path / "plain", "qwen3")[0].directory
    with pytest.raises(UnsupportedModelError, match=r"a model that generates text \(qwen3\)") as caught:
        read(folder)
    assert "--treat-as-embedding" in str(caught.value.hint)


def test_a_decoder_is_taken_for_what_its_modules_or_its_name_say(tmp_path: Path) -> None:
    named = write_family(tmp_path / "Qwen3-Embedding-tiny", "qwen3")[0].directory
    assert read(named).pooling.mode == "last"
    folder = write_family(tmp_path / "plain", "qwen3")[0].directory
    kinds = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    modules = [
        {"idx": number, "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (path, kind) in enumerate(kinds.items())
    ]
    (folder / "1_Pooling").mkdir()
    write_json(folder / "modules.json", modules)
    write_json(folder / "1_Pooling" / "config.json", {"pooling_mode_lasttoken": True})
    source = read(folder)
    assert (source.pooling.mode, source.pooling_from) == ("last", "modules.json")
