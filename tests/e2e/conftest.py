"""A small model with random weights: real in every respect but its size."""

import json
import shutil
from pathlib import Path

import pytest
from tests.support.recorded import Weights, form_of, save_model

from edgepack.records.model import ModelSource


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory, minilm: ModelSource) -> Path:
    """A BERT of two layers and 32 dimensions in Hugging Face's layout, with MiniLM's own tokenizer."""
    folder = tmp_path_factory.mktemp("models") / "tiny-bert"
    shape = {
        "vocab_size": 30_522,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "max_position_embeddings": 128,
    }
    save_model(folder, form_of("bert", shape), Weights(std=0, seed=7))
    shutil.copy(minilm.tokenizer, folder / "tokenizer.json")
    modules = [
        ("0", "", "sentence_transformers.models.Transformer"),
        ("1", "1_Pooling", "sentence_transformers.models.Pooling"),
        ("2", "2_Normalize", "sentence_transformers.models.Normalize"),
    ]
    (folder / "modules.json").write_text(
        json.dumps(
            [{"idx": int(index), "name": index, "path": path, "type": kind} for index, path, kind in modules]
        )
    )
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(
        json.dumps({"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True})
    )
    return folder
