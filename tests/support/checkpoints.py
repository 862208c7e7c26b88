"""Tiny model folders as others publish them: saved by sentence-transformers itself, or by transformers with a head on."""

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file

from tests.support.berts import SHAPE
from tests.support.tiny import WORDS, tokenizer_document, write_json

WIDTH = int(SHAPE["hidden_size"])


def write_head(folder: Path, kind: str, *, family: str = "Bert", **shape: Any) -> Path:
    """A model of transformers' class ``kind``, e.g. ``BertForSequenceClassification``, with its tokenizer."""
    torch.manual_seed(2)
    config = getattr(transformers, f"{family}Config")(**{**SHAPE, **shape})
    getattr(transformers, kind)(config).eval().save_pretrained(folder)
    return with_tokenizer(folder)


def older_files(model: Path) -> list[str]:
    """Make the tokenizer of ``tiny.write_model`` a vocab.txt and its weights two files of PyTorch, whose names are returned."""
    tensors = list(load_file(model / "model.safetensors").items())
    shards = ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"]
    halves = tensors[::2], tensors[1::2]
    for shard, half in zip(shards, halves, strict=True):
        torch.save(dict(half), model / shard)
    places = {name: shard for shard, half in zip(shards, halves, strict=True) for name, _ in half}
    write_json(model / "pytorch_model.bin.index.json", {"weight_map": places})
    (model / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    write_json(model / "tokenizer_config.json", {"mask_token": None})
    (model / "tokenizer.json").unlink()
    (model / "model.safetensors").unlink()
    return [shard for shard in shards if shard in places.values()]


def with_tokenizer(folder: Path, *, longest: int = 16) -> Path:
    """The folder, with a tokenizer that transformers and edgepack read alike."""
    write_json(folder / "tokenizer.json", tokenizer_document())
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    named = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": longest, **special}
    write_json(folder / "tokenizer_config.json", named)
    return folder


def write_encoder(folder: Path) -> Path:
    """A bare BERT, every weight of which is felt."""
    torch.manual_seed(1)
    model: Any = transformers.BertModel(transformers.BertConfig(**SHAPE))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.normal_(mean=1.0 if name.endswith("LayerNorm.weight") else 0.0, std=0.3)
    model.save_pretrained(folder)
    return with_tokenizer(folder)


def save(folder: Path, *behind: Any, **settings: Any) -> Path:
    """What sentence-transformers saves of a bare BERT with these modules behind it."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer

    encoder = Transformer(str(write_encoder(folder.with_name(f"{folder.name}.encoder"))))
    model = SentenceTransformer(modules=[encoder, *behind], device="cpu", **settings)
    model.save(str(folder), create_model_card=False)
    return folder


def change(file: Path, **fields: Any) -> None:
    """Other fields in a JSON file; ``None`` takes one out."""
    document = json.loads(file.read_text()) if file.is_file() else {}
    merged = {**document, **fields}
    write_json(file, {key: value for key, value in merged.items() if value is not None})
