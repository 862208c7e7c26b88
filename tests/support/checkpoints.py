"""Tiny model folders as others publish them, of what transformers saves (``recorded``)."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Encoding

from tests.support.berts import SHAPE
from tests.support.families import ELECTRA, FAMILIES
from tests.support.recorded import Judged, Numbers, Weights, form_of, save_model
from tests.support.tiny import WORDS, tokenizer_document, write_json
from tests.support.torch_files import write_torch_file

WIDTH = int(SHAPE["hidden_size"])


def write_head(folder: Path, name: str, **shape: Any) -> Path:
    """A model of transformers' class ``name``, e.g. ``BertForSequenceClassification``, as a training begins, with its tokenizer."""
    kind, family = next(
        (kind, family)
        for kind, family in {**FAMILIES, "electra": ELECTRA}.items()
        if name.startswith(family.model.removesuffix("Model"))
    )
    head = name.removeprefix(family.model.removesuffix("Model"))
    form = form_of(kind, shape, head="" if head == "Model" else head)
    save_model(folder, form, Weights(std=0, seed=2, norm=family.norm))
    return with_tokenizer(folder)


def write_felt(folder: Path, kind: str, head: str, **shape: Any) -> Judged:
    """A model of an architecture with a head, random weights all of which are felt, and its tokenizer."""
    weights = Weights(seed=3, std=0.2, norm=FAMILIES[kind].norm)
    judged = save_model(folder, form_of(kind, shape, head=head), weights)
    with_tokenizer(folder)
    return judged


def says(judged: Judged, what: str, encoding: Encoding) -> Numbers:
    """What transformers makes of one text as the tokenizer gives it; without the axis of the batch."""
    given = (encoding.ids, encoding.attention_mask, encoding.type_ids)
    ids, mask, types = (np.array([each], np.int64) for each in given)
    types = types if FAMILIES[judged.form.kind].types else np.zeros_like(types)
    found: Numbers = judged.says(what, ids=ids, mask=mask, types=types)[0]
    return found


def older_files(model: Path) -> list[str]:
    """Make the tokenizer of ``tiny.write_model`` a vocab.txt and its weights two files of PyTorch, whose names are returned."""
    tensors = list(load_file(model / "model.safetensors").items())
    shards = ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"]
    halves = tensors[::2], tensors[1::2]
    for shard, half in zip(shards, halves, strict=True):
        write_torch_file(model / shard, dict(half))
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
    save_model(folder, form_of("bert", {}), Weights())
    return with_tokenizer(folder)


def change(file: Path, **fields: Any) -> None:
    """Other fields in a JSON file; ``None`` takes one out."""
    document = json.loads(file.read_text()) if file.is_file() else {}
    merged = {**document, **fields}
    write_json(file, {key: value for key, value in merged.items() if value is not None})
