"""EmbeddingGemma 2's numbers of layers against transformers."""

from pathlib import Path

import numpy as np
from safetensors.torch import save_file
from tests.support.berts import onnx_vectors
from tests.support.families import tokens_of, write_family
from tests.support.installed import export_onnx
from tests.support.judges import torch_model, torch_vectors


def test_each_layers_own_number_of_embeddinggemma_2(tmp_path: Path) -> None:
    source, judged = write_family(tmp_path / "model", "embedding_gemma2_text")
    model = torch_model(judged)
    for number, layer in enumerate(model.layers):
        layer.layer_scalar.fill_(0.5 + number)
    assert source.weights is not None
    save_file(dict(model.state_dict()), source.weights)
    tokens = tokens_of("embedding_gemma2_text")
    expected = torch_vectors(model, tokens, source.pooling)
    vectors = onnx_vectors(export_onnx(source, tmp_path / "model.onnx"), tokens)
    np.testing.assert_allclose(vectors, expected, atol=1e-5, rtol=0)
