"""ColBERT by sentence-transformers' MultiVectorEncoder: its own folders, and what is recorded of others."""

from pathlib import Path
from typing import Any

import pytest
import torch
from sentence_transformers import MultiVectorEncoder
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
from tests.support.checkpoints import WIDTH
from tests.support.judges import asked_again
from tests.unit.models.outputs.test_colbert import (
    DIMENSION,
    require_same,
    test_folders_of_pylate,
    test_folders_of_stanford,
    write_encoder,
)

from edgepack.plugins.context import HostContext

__all__ = ["asked_again", "test_folders_of_pylate", "test_folders_of_stanford"]


def write_native(folder: Path, **lengths: Any) -> Path:
    write_encoder(folder.with_name("encoder"))
    modules = [
        Transformer(str(folder.with_name("encoder")), **lengths),
        Dense(
            WIDTH,
            DIMENSION,
            bias=True,
            activation_function=torch.nn.Tanh(),
            module_input_name="token_embeddings",
        ),
        MultiVectorMask(
            skiplist_words=["##s", "model", "no such word"], skiplist_tasks=["query", "document"]
        ),
        Normalize(module_input_name="token_embeddings"),
    ]
    model = MultiVectorEncoder(
        modules=modules, device="cpu", prompts={"query": "hello world ", "document": ""}
    )
    model.save(str(folder), create_model_card=False)
    return folder


@pytest.mark.parametrize(
    "lengths",
    [
        {},
        {
            "query_length": 20,
            "query_expansion": {"strategy": "min", "length": 16, "attend": True, "token": "hello"},
        },
    ],
)
def test_folders_of_sentence_transformers(
    tmp_path: Path, context: HostContext, lengths: dict[str, Any]
) -> None:
    found = require_same(write_native(tmp_path / "model", **lengths), f"its own {lengths}", context)
    assert found.query.skip and found.query.skip == found.document.skip
    assert (found.query.marker, found.query.least) == (None, 16 if lengths else 0)
