"""Architectures in their true shapes against transformers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.support.berts import onnx_vectors
from tests.support.families import tokens_of, write_family
from tests.support.installed import export_onnx
from tests.support.judges import torch_model, torch_vectors
from transformers.models.mpnet import modeling_mpnet

from edgepack.models.export.mpnet import distance_buckets


@pytest.mark.slow
@pytest.mark.e2e
def test_the_true_vocabulary_of_multilingual_e5(tmp_path: Path) -> None:
    shape: dict[str, Any] = {
        "vocab_size": 250037,
        "hidden_size": 384,
        "num_attention_heads": 12,
        "intermediate_size": 1536,
    }
    source, judged = write_family(tmp_path / "model", "bert", std=0.05, **shape, num_hidden_layers=1)
    model = torch_model(judged)
    tokens = tokens_of("bert", lengths=(12, 30), vocabulary=250037)
    vectors = onnx_vectors(export_onnx(source, tmp_path / "model.onnx"), tokens)
    expected = torch_vectors(model, tokens, source.pooling, types=True)
    np.testing.assert_allclose(vectors, expected, atol=1e-5, rtol=0)


def test_buckets_of_distances_are_those_of_transformers() -> None:
    theirs: Any = modeling_mpnet.MPNetEncoder
    distances = np.arange(-600, 601)
    expected = theirs.relative_position_bucket(torch.tensor(distances)).numpy()
    np.testing.assert_array_equal(distance_buckets(distances), expected)
