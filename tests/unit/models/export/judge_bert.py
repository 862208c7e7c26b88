"""BERT with real weights, and in other types of numbers, against transformers' own BertModel."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.support.berts import onnx_vectors, some_tokens, write_bert
from tests.support.installed import export_onnx
from tests.support.judges import torch_model, torch_vectors
from transformers import BertModel


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_other_floating_point_types_are_those_of_transformers(tmp_path: Path, dtype: torch.dtype) -> None:
    source, judged = write_bert(tmp_path / "model")
    model = torch_model(judged)
    assert source.weights is not None
    stored = {name: tensor.to(dtype) for name, tensor in load_file(source.weights).items()}
    save_file(stored, source.weights)
    model.load_state_dict({name: tensor.float() for name, tensor in stored.items()})
    tokens = some_tokens()
    vectors = onnx_vectors(export_onnx(source, tmp_path / "model.onnx"), tokens)
    np.testing.assert_allclose(vectors, torch_vectors(model, tokens, source.pooling, types=True), atol=1e-5)


@pytest.mark.e2e
def test_the_real_weights_give_the_vectors_of_transformers(tmp_path: Path, minilm: Any) -> None:
    model: Any = BertModel.from_pretrained(minilm.directory)
    model.eval()
    tokens = some_tokens(lengths=(40, 3, 128, 17), vocabulary=30_522)
    exported = export_onnx(minilm, tmp_path / "model.onnx")
    expected = torch_vectors(model, tokens, minilm.pooling, types=True)
    np.testing.assert_allclose(onnx_vectors(exported, tokens), expected, atol=1e-5, rtol=0)
