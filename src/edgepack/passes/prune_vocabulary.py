"""Vocabulary pruning: tokens that a corpus never uses leave the tokenizer and the embedding table.

As in https://aclanthology.org/2020.sustainlp-1.16: most of a multilingual model is its table, 96 of the 118 million weights
of multilingual-E5-small. Characters by themselves, special tokens and whatever a kept token is merged from are kept, so
that every text still has tokens.

Cost: none for texts of the corpus, which have the same tokens and the same vectors to the bit; other texts are cut into
more and smaller tokens.
"""

import json
from collections.abc import Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.graph.editor import edit
from edgepack.models.graph.sample_inputs import lookups
from edgepack.models.read.panics import panics_reported
from edgepack.models.read.tokenizer import load_tokenizer
from edgepack.quantization.calibration import read_texts
from edgepack.records.recipe import Material, Note

FILE = "tokenizer.json"
CONTINUED = "##"
BYTE_PIECE = 6
"""Characters of ``<0x0A>``, which stands for a byte."""

Document = dict[str, Any]


def prune_vocabulary(
    model: onnx.ModelProto, note: Note, material: Material, *, corpus: str = ""
) -> onnx.ModelProto:
    """The model with the rows of its token table that texts of ``corpus`` use, and a tokenizer to go with it.

    ``corpus`` is a file of texts, one a line; without it the calibration texts are the corpus. Raises ``ModelError``
    when the model has no tokenizer or no token table, ``UsageError`` when the corpus cannot be read.
    """
    source = material.source
    if source is None:
        raise ModelError("the vocabulary cannot be pruned without a tokenizer")
    texts = read_texts(Path(corpus)) if corpus else material.texts
    if not texts:
        raise ModelError(
            "the vocabulary cannot be pruned without a corpus",
            hint='name one: { pass = "prune-vocabulary", corpus = "texts.txt" }, or --calibration FILE',
        )
    document = json.loads(source.tokenizer.read_text(encoding="utf-8"))
    tokens = vocabulary_of(document)
    tokenizer = load_tokenizer(source)
    tokenizer.no_truncation()
    with panics_reported():
        used = {token for encoding in tokenizer.encode_batch(list(texts)) for token in encoding.tokens}
    kept = kept_tokens(document, used, padding=int(source.config.get("pad_token_id") or 0))
    rows = [number for number, token in sorted(tokens.items()) if token in kept]
    material.files[FILE] = json.dumps(pruned_tokenizer(document, rows), ensure_ascii=False).encode()
    note(f"{len(rows)} of {len(tokens)} tokens kept")
    return with_rows(model, rows)


def vocabulary_of(document: Document) -> dict[int, str]:
    """Token ids → tokens of a tokenizer.json, added tokens included."""
    vocabulary = document["model"].get("vocab")
    if isinstance(vocabulary, list):
        tokens = {number: piece for number, (piece, _) in enumerate(vocabulary)}
    elif isinstance(vocabulary, dict):
        tokens = {number: token for token, number in vocabulary.items()}
    else:
        raise UnsupportedModelError(
            f"a tokenizer of kind {document['model'].get('type')} has no vocabulary to prune"
        )
    return tokens | {each["id"]: each["content"] for each in document.get("added_tokens") or ()}


def kept_tokens(document: Document, used: Iterable[str], *, padding: int) -> set[str]:
    """Tokens that stay: those used, and those without which other texts, or the used ones, could not be cut up.

    Ids up to the padding's stay as they are: graphs may have it as a constant.
    """
    tokens = vocabulary_of(document)
    added = {each["content"] for each in document.get("added_tokens") or ()}
    kept = set(used) | added | {token for number, token in tokens.items() if number <= padding}
    kept |= {token for token in tokens.values() if _is_elementary(token)}
    if unknown := document["model"].get("unk_token"):
        kept.add(unknown)
    if isinstance(document["model"]["vocab"], list):
        # What an unknown character costs is reckoned from the lowest score.
        kept.add(min(document["model"]["vocab"], key=lambda entry: float(entry[1]))[0])
        if (number := document["model"].get("unk_id")) is not None:
            kept.add(tokens[number])
    return _with_parts(kept, _merges(document)) & set(tokens.values())


def pruned_tokenizer(document: Document, rows: list[int]) -> Document:
    """The tokenizer with the tokens of these ids alone, numbered anew in their order."""
    numbers = {old: new for new, old in enumerate(rows)}
    model = dict(document["model"])
    vocabulary = model["vocab"]
    if isinstance(vocabulary, list):
        model["vocab"] = [vocabulary[old] for old in rows if old < len(vocabulary)]
        if model.get("unk_id") is not None:
            model["unk_id"] = numbers[model["unk_id"]]
    else:
        model["vocab"] = {token: numbers[old] for token, old in vocabulary.items() if old in numbers}
    if model.get("merges"):
        left_over = set(model["vocab"])
        model["merges"] = [
            merge
            for merge, (left, right) in zip(model["merges"], _merges(document), strict=True)
            if {left, right, left + right} <= left_over
        ]
    pruned = {**document, "model": model}
    pruned["added_tokens"] = [
        {**each, "id": numbers[each["id"]]} for each in document.get("added_tokens") or ()
    ]
    for name in ("post_processor", "padding"):
        pruned[name] = _renumbered(document.get(name), numbers)
    return pruned


def with_rows(model: onnx.ModelProto, rows: list[int]) -> onnx.ModelProto:
    """The model whose token table has only these rows. Raises ``ModelError`` when it has no such table."""
    tables = {table for table, ids in lookups(model) if ids == "input_ids"}
    editor = edit(model)
    found = [name for name in tables if editor.is_matrix(name)]
    if not found:
        raise ModelError(
            "the graph has no embedding table that input_ids pick from",
            hint="prune the vocabulary before any other pass",
        )
    for node in editor.take_nodes():
        changed = deepcopy(node)
        for place, name in enumerate(node.input):
            if name in found:
                changed.input[place] = editor.weight(f"{name}.kept", editor.array(name)[np.array(rows)])
        editor.keep(changed)
    return editor.finish()


def _is_elementary(token: str) -> bool:
    """Whether a token is one character, alone or within a word, or stands for a byte."""
    return (
        len(token.removeprefix(CONTINUED)) <= 1
        or (len(token) == BYTE_PIECE and token.startswith("<0x"))
        or (len(token) == 2 and token.startswith("▁"))
    )


def _merges(document: Document) -> list[tuple[str, str]]:
    merges = document["model"].get("merges") or ()
    return [tuple(each) if isinstance(each, list) else tuple(each.split(" ", 1)) for each in merges]


def _with_parts(kept: set[str], merges: list[tuple[str, str]]) -> set[str]:
    """Also the tokens that a kept one is merged from, and those that these are merged from."""
    parts: dict[str, set[str]] = {}
    for left, right in merges:
        parts.setdefault(left + right, set()).update((left, right))
    todo, found = list(kept), set(kept)
    while todo:
        for part in parts.get(todo.pop(), ()):
            if part not in found:
                found.add(part)
                todo.append(part)
    return found


def _renumbered(value: Any, numbers: Mapping[int, int]) -> Any:
    """A part of a tokenizer.json with the token ids in it replaced."""
    if isinstance(value, list):
        if len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], int):
            return [value[0], numbers[value[1]]]
        return [_renumbered(each, numbers) for each in value]
    if isinstance(value, dict):
        return {
            key: [numbers[each] for each in entry]
            if key == "ids"
            else numbers[entry]
            if key == "pad_id"
            else _renumbered(entry, numbers)
            for key, entry in value.items()
        }
    return value
