"""A small model with random weights: real in every respect but its size."""

import json
import shutil
from pathlib import Path

import pytest

from edgepack.records.model import ModelSource


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory, minilm: ModelSource) -> Path:
    """A BERT of two layers and 32 dimensions in Hugging Face's layout, with MiniLM's own tokenizer."""
    import torch
    from transformers import BertConfig, BertModel

    folder = tmp_path_factory.mktemp("models") / "tiny-bert"
    torch.manual_seed(7)
    config = BertConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=128,
    )
    BertModel(config).save_pretrained(folder)
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
