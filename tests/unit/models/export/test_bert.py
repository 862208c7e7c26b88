"""The graph that is written from weights, against transformers' own BertModel."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from safetensors.numpy import load_file, save_file
from tests.support.berts import expected_vectors, onnx_vectors, some_tokens, source_of, write_bert
from tests.support.installed import export_onnx

from edgepack.records.model import Pooling


@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"hidden_act": "gelu_new"},
        {"hidden_act": "gelu_pytorch_tanh"},
        {"hidden_act": "relu"},
        {"num_hidden_layers": 1, "num_attention_heads": 1, "hidden_size": 7, "intermediate_size": 5},
        {"num_hidden_layers": 3, "hidden_size": 48, "num_attention_heads": 12, "intermediate_size": 200},
        {"type_vocab_size": 3, "max_position_embeddings": 12, "vocab_size": 200},
        {"layer_norm_eps": 1e-5},
    ],
    ids=str,
)
@pytest.mark.parametrize("pooling", [Pooling(mode="mean"), Pooling(mode="cls")], ids=lambda p: str(p.mode))
def test_vectors_are_those_of_transformers(tmp_path: Path, shape: dict[str, Any], pooling: Pooling) -> None:
    source, model = write_bert(tmp_path / "model", pooling=pooling, **shape)
    exported = export_onnx(source, tmp_path / "model.onnx")
    tokens = some_tokens()
    expected = expected_vectors(model, tokens, pooling)
    np.testing.assert_allclose(onnx_vectors(exported, tokens), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("mode", ["mean", "cls"])
def test_vectors_are_left_as_long_as_they_are_when_the_model_does_not_normalize(
    tmp_path: Path, mode: Any
) -> None:
    pooling = Pooling(mode=mode, normalize=False)
    source, model = write_bert(tmp_path / "model", pooling=pooling)
    tokens = some_tokens()
    vectors = onnx_vectors(export_onnx(source, tmp_path / "model.onnx"), tokens)
    expected = expected_vectors(model, tokens, pooling)
    np.testing.assert_allclose(vectors, expected, atol=1e-5 * np.abs(expected).max(), rtol=0)
    assert np.abs(np.linalg.norm(vectors, axis=1) - 1).max() > 0.1


def test_padding_does_not_change_a_vector(tmp_path: Path) -> None:
    source, _ = write_bert(tmp_path / "model")
    exported = export_onnx(source, tmp_path / "model.onnx")
    together = onnx_vectors(exported, some_tokens(lengths=(9, 3, 12)))
    batch = some_tokens(lengths=(9, 3, 12))
    for row, length in enumerate((9, 3, 12)):
        alone = type(batch)(
            ids=batch.ids[row : row + 1, :length],
            mask=batch.mask[row : row + 1, :length],
            types=batch.types[row : row + 1, :length],
        )
        np.testing.assert_allclose(onnx_vectors(exported, alone)[0], together[row], atol=1e-6)


def test_padding_on_the_left_is_left_out_as_well(tmp_path: Path) -> None:
    source, model = write_bert(tmp_path / "model")
    tokens = some_tokens(lengths=(9, 4))
    flipped = type(tokens)(
        ids=tokens.ids[:, ::-1].copy(), mask=tokens.mask[:, ::-1].copy(), types=tokens.types[:, ::-1].copy()
    )
    vectors = onnx_vectors(export_onnx(source, tmp_path / "model.onnx"), flipped)
    np.testing.assert_allclose(vectors, expected_vectors(model, flipped, source.pooling), atol=1e-5)


def test_no_tokens_at_all_give_zeros_and_no_nan(tmp_path: Path) -> None:
    source, _ = write_bert(tmp_path / "model")
    tokens = some_tokens(lengths=(4,))
    empty = type(tokens)(ids=tokens.ids, mask=tokens.mask * 0, types=tokens.types)
    assert not onnx_vectors(export_onnx(source, tmp_path / "model.onnx"), empty).any()


@pytest.mark.parametrize("prefix", ["bert.", "0.auto_model."])
def test_a_prefix_before_the_names_makes_no_difference(tmp_path: Path, prefix: str) -> None:
    source, model = write_bert(tmp_path / "model")
    assert source.weights is not None
    tensors = {prefix + name: tensor for name, tensor in load_file(source.weights).items()}
    save_file({**tensors, "cls.predictions.bias": np.zeros(60, np.float32)}, source.weights)
    tokens = some_tokens()
    vectors = onnx_vectors(export_onnx(source, tmp_path / "model.onnx"), tokens)
    np.testing.assert_allclose(vectors, expected_vectors(model, tokens, source.pooling), atol=1e-5)


def test_the_names_that_tensorflow_gave_layer_norms_are_understood(tmp_path: Path) -> None:
    source, model = write_bert(tmp_path / "model")
    assert source.weights is not None
    renamed = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor
        for name, tensor in load_file(source.weights).items()
    }
    save_file(renamed, source.weights)
    tokens = some_tokens()
    vectors = onnx_vectors(export_onnx(source, tmp_path / "model.onnx"), tokens)
    np.testing.assert_allclose(vectors, expected_vectors(model, tokens, source.pooling), atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float16, np.float64], ids=lambda dtype: dtype.__name__)
def test_other_floating_point_types_are_read_as_float32(tmp_path: Path, dtype: Any) -> None:
    source, _ = write_bert(tmp_path / "model")
    assert source.weights is not None
    stored = {name: tensor.astype(dtype) for name, tensor in load_file(source.weights).items()}
    made: list[bytes] = []
    for tensors in (stored, {name: tensor.astype(np.float32) for name, tensor in stored.items()}):
        save_file(tensors, source.weights)
        made.append(export_onnx(source, tmp_path / f"{len(made)}.onnx").read_bytes())
    assert made[0] == made[1]


def test_the_graph_is_opset_17_with_free_batch_and_sequence(tmp_path: Path) -> None:
    source, _ = write_bert(tmp_path / "model")
    model = onnx.load(export_onnx(source, tmp_path / "model.onnx"))
    onnx.checker.check_model(model, full_check=True)
    assert [(each.domain, each.version) for each in model.opset_import] == [("", 17)]
    assert model.ir_version <= 10
    shapes = {
        each.name: [dim.dim_param or dim.dim_value for dim in each.type.tensor_type.shape.dim]
        for each in (*model.graph.input, *model.graph.output)
    }
    assert shapes == {
        "input_ids": ["batch", "sequence"],
        "attention_mask": ["batch", "sequence"],
        "token_type_ids": ["batch", "sequence"],
        "sentence_embedding": ["batch", 32],
    }


def test_the_same_model_in_another_folder_gives_the_same_bytes(tmp_path: Path) -> None:
    write_bert(tmp_path / "one")
    (tmp_path / "one").rename(tmp_path / "two")
    (tmp_path / "one").mkdir()
    again, _ = write_bert(tmp_path / "one")
    first = export_onnx(again, tmp_path / "a.onnx").read_bytes()
    second = export_onnx(source_of(tmp_path / "two"), tmp_path / "sub" / "b.onnx").read_bytes()
    assert first == second
    assert str(tmp_path).encode() not in first
