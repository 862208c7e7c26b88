"""Folders that sentence-transformers writes of SPLADE models."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SparseEncoder
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sparse_encoder.modules import SpladePooling
from tests.unit.models.outputs.test_splade import TEXTS, require_same, write_masked

from edgepack.models.find.source import ingest
from edgepack.models.token_reference import reference_outputs
from edgepack.plugins.context import HostContext


@pytest.mark.parametrize(
    ("strategy", "activation", "logs"), [("max", "relu", 1), ("sum", "relu", 1), ("max", "log1p_relu", 2)]
)
def test_folders_of_sentence_transformers(
    tmp_path: Path, context: HostContext, strategy: Any, activation: Any, logs: int
) -> None:
    write_masked(tmp_path / "masked", "bert", tie_word_embeddings=False)
    encoder = Transformer(str(tmp_path / "masked"), transformer_task="fill-mask")
    pooling = SpladePooling(pooling_strategy=strategy, activation_function=activation)
    theirs = SparseEncoder(modules=[encoder, pooling], device="cpu")
    theirs.save(str(tmp_path / "model"), create_model_card=False)
    source = ingest(str(tmp_path / "model"), context=context)
    assert source.outputs is not None and source.outputs.sparse is not None
    head = source.outputs.sparse.vocabulary
    assert head is not None
    assert (head.matrix, head.logs) == ("cls.predictions.decoder.weight", logs)
    exact = theirs.encode(list(TEXTS[:3]), convert_to_sparse_tensor=False)
    for one, row in zip(reference_outputs(source, TEXTS[:3], context=context), exact, strict=True):
        require_same(one, np.asarray(row))
