"""Vocabulary pruning: tokens that a corpus, or the words of some languages, never use leave the tokenizer and the embedding table.

As in https://aclanthology.org/2020.sustainlp-1.16: most of a multilingual model is its table, 96 of the 118 million weights
of multilingual-E5-small. Characters by themselves, special tokens and whatever a kept token is merged from are kept, so
that every text still has tokens.

Cost: none for texts of the corpus, which have the same tokens and the same vectors to the bit; other texts are cut into
more and smaller tokens.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from tokenizers import Tokenizer

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.graph.editor import edit
from edgepack.models.graph.sample_inputs import lookups
from edgepack.models.read.documents import EDITED, padding_of
from edgepack.models.read.panics import panics_reported
from edgepack.models.read.tokenizer import minimal_json
from edgepack.quantization.calibration import built_in_texts, read_texts
from edgepack.records.recipe import Material, Note

FILE = "tokenizer.json"
CONTINUED = "##"
BYTE_PIECE = 6
"""Characters of ``<0x0A>``, which stands for a byte."""
MARKS = "#▁Ġ"
"""How vocabularies write that a word begins, or goes on."""
WORDS_A_TEXT, TEXTS_AT_ONCE = 16, 1024
SHOWN = 60
"""Characters of a text in an error."""

Document = dict[str, Any]


def prune_vocabulary(
    model: onnx.ModelProto,
    note: Note,
    material: Material,
    *,
    corpus: str = "",
    languages: tuple[str, ...] = (),
) -> onnx.ModelProto:
    """The model with the rows of its token table that texts use, and a tokenizer to go with it: each of these texts has the tokens
    that it had.

    ``corpus`` is a file of texts, one a line; ``languages`` are ISO 639-1 codes, whose words are texts, and with which tokens without a
    letter stay, too. Without both the calibration texts are the corpus. Raises ``ModelError`` when the model has no tokenizer or no
    token table, names tokens by their numbers, or a text would have other tokens, ``UsageError`` when the corpus cannot be read.
    """
    source = material.source
    if source is None:
        raise ModelError("the vocabulary cannot be pruned without a tokenizer")
    if source.outputs and (source.outputs.tokens or source.outputs.sparse):
        raise ModelError(
            f"the vocabulary of {source.outputs.noun} cannot be pruned: its settings or outputs name tokens by their numbers"
        )
    texts = list(read_texts(Path(corpus)) if corpus else () if languages else material.texts)
    for language in languages:
        texts += in_texts(material.words(language))
    if not texts:
        raise ModelError(
            "the vocabulary cannot be pruned without a corpus",
            hint='name one: { pass = "prune-vocabulary", corpus = "texts.txt" }, or --calibration FILE',
        )
    document, shipped = (
        json.loads(source.tokenizer.read_text(encoding="utf-8")),
        json.loads(minimal_json(source)),
    )
    padding = padding_of(source.config)
    try:
        rows = used_rows(shipped, texts, padding=padding, wordless=bool(languages))
        lost = other_tokens(shipped, rows, texts)
        pruned = json.dumps(pruned_tokenizer(document, rows), ensure_ascii=False).encode()
    except KeyError as error:
        raise ModelError(
            f"{FILE} names the token {error}, which its vocabulary has not", hint=EDITED
        ) from error
    if lost:
        raise ModelError(
            f"with the tokens of the corpus alone, {texts[lost[0]][:SHOWN]!r} would be cut up otherwise",
            hint="leave that text out of the corpus",
        )
    material.files[FILE] = pruned
    others = built_in_texts()
    note(
        f"{len(rows)} of {len(vocabulary_of(document))} tokens kept: of {len(texts)} texts none is cut up otherwise, "
        f"of {len(others)} others in many languages {len(other_tokens(shipped, rows, others))}"
    )
    return with_rows(model, rows)


def in_texts(words: Sequence[str]) -> list[str]:
    """Texts that have each word as it is, at the beginning of a sentence, and behind a bracket, where no space comes before it."""
    return [
        f"{' '.join(some)} {' '.join(word[:1].upper() + word[1:] for word in some)} ({' ('.join(some)}"
        for start in range(0, len(words), WORDS_A_TEXT)
        for some in (words[start : start + WORDS_A_TEXT],)
    ]


def used_rows(document: Document, texts: Sequence[str], *, padding: int, wordless: bool = False) -> list[int]:
    """The ids that stay for these texts, in order; with ``wordless`` also those of tokens without a letter: digits and marks."""
    tokens = vocabulary_of(document)
    used = {tokens[number] for ids in _token_ids(document, texts) for number in ids}
    if wordless:
        used |= {token for token in tokens.values() if not any(map(str.isalpha, token.strip(MARKS)))}
    kept = kept_tokens(document, used, padding=padding)
    return [number for number, token in sorted(tokens.items()) if token in kept]


def other_tokens(document: Document, rows: Sequence[int], texts: Sequence[str]) -> list[int]:
    """Which of the texts the tokenizer with these ids alone cuts up otherwise than the whole one."""
    whole, pruned = _token_ids(document, texts), _token_ids(pruned_tokenizer(document, rows), texts)
    pairs = enumerate(zip(whole, pruned, strict=True))
    return [at for at, (old, new) in pairs if old != [rows[number] for number in new]]


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


def pruned_tokenizer(document: Document, rows: Sequence[int]) -> Document:
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
                table = editor.array(name)
                if rows and rows[-1] >= len(table):
                    raise ModelError(
                        f"{FILE} has the token {rows[-1]}, and the embedding table {len(table)} rows",
                        hint=EDITED,
                    )
                changed.input[place] = editor.weight(f"{name}.kept", table[np.array(rows)])
        editor.keep(changed)
    return editor.finish()


def _token_ids(document: Document, texts: Sequence[str]) -> Iterator[list[int]]:
    """The ids that a tokenizer.json gives each text."""
    with panics_reported():
        tokenizer = Tokenizer.from_str(json.dumps(document))
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        some = texts[start : start + TEXTS_AT_ONCE]
        with panics_reported(letters=sum(map(len, some))):
            found = tokenizer.encode_batch_fast(some)
        yield from (each.ids for each in found)


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
