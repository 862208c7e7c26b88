"""Whether a tokenizer.json makes the tokens that transformers makes of the same folder.

transformers makes a tokenizer by its class and the settings beside tokenizer.json: since release 5 it takes from tokenizer.json little
more than the vocabulary, before it took what the settings do not contradict. A bundle has tokenizer.json alone.
"""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

from edgepack.errors import EdgepackError, ModelError, UnsupportedModelError
from edgepack.models.convert.older_tokenizer import FILE, SETTINGS, added_tokens, said_of
from edgepack.models.convert.tokenizer_classes import (
    ALSO,
    BY_RELEASE_5,
    BYTE_LEVEL,
    FAMILIES,
    GIVEN,
    VOCABULARY,
    WORDS,
    Said,
    class_of,
    content_of,
)
from edgepack.models.convert.typed_tokenizer import gives_types
from edgepack.models.read.documents import EDITED, code_of, read_object, truncation_of
from edgepack.models.read.model_folder import CONFIG, ModelFolder
from edgepack.models.read.panics import panics_reported
from edgepack.models.read.sentence_transformers import read_prompts
from edgepack.models.read.tokenizer import open_tokenizer

PROBES = ("Hello World", "ÉCOLE naïve", "東京 tower", "a\ab", "\ufb01ne \uff11\uff12")
"""Settings tell them apart: case, accents, Chinese characters, control characters, compatibility forms."""
SPACED = "  a  b "
"""Normalizers may keep spaces that no word has: what tells is the words of what they give."""
KINDS = {VOCABULARY: models.WordPiece, WORDS: models.BPE}
"""What tokenizers of a family are, by its first file; Unigram otherwise."""
ENDS = ("bos_token", "eos_token", "cls_token", "sep_token")
BY_TYPE = ("deberta-v2", "gte")
"""``model_type`` of models for which release 5 has a class that is not compared."""
SIGNS = ("<", "[")
"""What special tokens begin with, so that no text has them by chance."""


@panics_reported()
def require_agreement(folder: ModelFolder, tokenizer: Path, *, pairs: bool) -> tuple[str, ...]:
    """Warnings of what release 4 or 5 alone makes otherwise. ``pairs``: the model takes pairs of texts, too.

    Raises ``ModelError`` where a file of settings contradicts tokenizer.json, ``UnsupportedModelError`` for what bundles do not do.
    """
    _require_no_code(folder)
    if not folder.has(FILE):
        return ()  # The tokenizer was made by the settings.
    try:
        said = said_of(folder)
        document = read_object(tokenizer)
        _require_plain(said, document)
        if not folder.has(SETTINGS) and folder.modules is None:
            return ()
        found = _differences(folder, said, open_tokenizer(tokenizer), document, pairs=pairs)
        return tuple(dict.fromkeys(found))
    except EdgepackError:
        raise
    except Exception as error:  # the library raises plain Exception; settings have values of any kind
        raise ModelError(f"{SETTINGS} and {FILE} make no tokenizer: {error}", hint=EDITED) from error


def _require_no_code(folder: ModelFolder) -> None:
    for name in (SETTINGS, CONFIG):
        if code := code_of(folder.optional(name), ("AutoTokenizer",)):
            raise UnsupportedModelError(
                f"code that comes with the model makes its tokens ({code}, auto_map in {name}), which edgepack does not run",
                hint=f"where they are those of {FILE}, take auto_map out of {name}",
            )


def _require_plain(said: Said, document: Any) -> None:
    truncation_of(document, where=FILE)
    if said.get("split_special_tokens"):
        raise UnsupportedModelError(
            f"{SETTINGS} takes special tokens for words (split_special_tokens), which bundles do not support",
            hint="remove it: edgepack then does as other models do",
        )


def _differences(
    folder: ModelFolder, said: Said, tokenizer: Tokenizer, document: Any, *, pairs: bool
) -> Iterator[str]:
    known = {each.content: each for each in tokenizer.get_added_tokens_decoder().values()}
    prompts = _prompts(folder)
    alone = [token.content for token in added_tokens(said) if token.content not in known]
    for content in alone:
        if not content.startswith(SIGNS) or content in prompts:
            raise _contradiction(f"{content!r} is a special token by the one alone")
    if alone and _has_rows(folder, tokenizer):
        yield f"{', '.join(alone[:4])}: a token to transformers, and words to a bundle, as tokenizer.json has no such token"
    named = said.get("tokenizer_class") or folder.config.get("tokenizer_class")
    name = class_of(folder.config, said)
    name = ALSO.get(name, name)
    if pairs and _takes_types(folder, tokenizer):
        yield from _types(folder, name)
    for token in added_tokens({"added_tokens_decoder": said.get("added_tokens_decoder")}):
        common = token.content.startswith(SIGNS) and token.content not in prompts
        if (has := known.get(token.content)) is None or common:
            continue
        if _flags(has) != _flags(token):
            raise _contradiction(f"{token.content!r} is found in other places by the one than by the other")
        if has.normalized != token.normalized:
            yield _by_release(name)
    if (steps := BY_RELEASE_5.get(name)) is not None:
        before, kept = _Ways.of(tokenizer, pairs), (tokenizer.normalizer, tokenizer.pre_tokenizer)
        steps(tokenizer, said, b"")
        if before != _Ways.of(tokenizer, pairs):
            yield _by_release(name)
        tokenizer.normalizer, tokenizer.pre_tokenizer = kept
    yield from _first_space(name, said, document.get("pre_tokenizer") or {})
    family = FAMILIES.get(name)
    stated = {key: value for key, value in said.items() if value is not None}
    if family is None:
        if named and name not in (*BYTE_LEVEL, *GIVEN):
            yield f"the settings of a {name} were not compared with tokenizer.json"
        elif (
            not named
            and folder.config.get("model_type") in BY_TYPE
            and isinstance(tokenizer.model, models.Unigram)
        ):
            yield f"the settings of a {folder.config['model_type']} model's tokenizer were not compared with tokenizer.json"
        elif name in BYTE_LEVEL and not isinstance(tokenizer.model, models.BPE):
            yield _by_release(name)
        return
    said = {**family.specials, **stated}
    if family.steps is None:
        # Before release 5 the first token is put there where nothing says otherwise.
        asked = {"add_bos_token": True, **said}
        added = [content_of(asked[role]) for role in ENDS[:2] if asked.get(f"add_{role}")]
        framed = _Ways.of(tokenizer, pairs).framed
        if None not in map(tokenizer.token_to_id, added):
            tokenizer.post_processor = family.frame(tokenizer, asked)
            if framed == _Ways.of(tokenizer, pairs).framed:
                return
        yield _by_release(name, 4)
        return
    if not isinstance(tokenizer.model, KINDS.get(family.files[0], models.Unigram)):
        yield _by_release(name)
        return
    unknown, pieces = content_of(said["unk_token"]), tokenizer.model
    if isinstance(pieces, models.WordPiece) and "unk_token" in stated and pieces.unk_token != unknown:
        raise _contradiction(f"an unknown word is {pieces.unk_token!r} or {unknown!r}")
    # Others than BERT's own were kept before release 5.
    obeys = isinstance(tokenizer.normalizer, normalizers.BertNormalizer)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    ours = _Ways.of(tokenizer, pairs)
    family.steps(tokenizer, said, _charsmap(document))
    ends = {role: content_of(said[role]) for role in ENDS if role in family.specials}
    absent = [role for role, token in ends.items() if tokenizer.token_to_id(token) is None]
    if absent and (named or stated.keys() & set(absent)):
        raise _contradiction(f"{ends[absent[0]]!r} is no token ({absent[0]})")
    if not absent:
        tokenizer.post_processor = family.frame(tokenizer, said)
    theirs = _Ways.of(tokenizer, pairs)
    for what, parted in (
        ("framed", True),
        ("normalized", obeys),
        ("split", "add_prefix_space" in stated),
    ):
        made = zip(getattr(ours, what), getattr(theirs, what), strict=True)
        if parted and (odd := next((both for both in made if both[0] != both[1]), None)):
            raise _contradiction(f"a text is {what} as {odd[0]!r} or as {odd[1]!r}")
    if ours != theirs or not _is_usual(document["model"], unknown):
        yield _by_release(name)


def _prompts(folder: ModelFolder) -> str:
    """All that the model's settings put before texts."""
    prefixes = (folder.settings.get(f"{side}_prefix") for side in ("query", "document"))
    return "\n".join([*read_prompts(folder).texts.values(), *map(str, prefixes)])


def _has_rows(folder: ModelFolder, tokenizer: Tokenizer) -> bool:
    """Whether the model has vectors for tokens behind the tokenizer's own."""
    rows = folder.config.get("vocab_size")
    return not isinstance(rows, int) or rows > tokenizer.get_vocab_size(with_added_tokens=True)


def _takes_types(folder: ModelFolder, tokenizer: Tokenizer) -> bool:
    """Whether the second text of a pair is of another type, and the model has a vector of that."""
    kind, said = folder.config.get("model_type"), folder.config.get("type_vocab_size")
    kinds = said if said is not None else 2 * (kind in ("albert", "bert"))
    return kinds not in (0, 1) and any(tokenizer.encode("", "").type_ids)


def _types(folder: ModelFolder, name: str) -> Iterator[str]:
    given = gives_types(folder)
    if given and folder.config.get("model_type") in ("camembert", "roberta", "xlm-roberta"):
        raise UnsupportedModelError(
            f"tokens of a pair's second text are of another type, of which edgepack writes none of a {folder.config['model_type']}",
            hint=f'if the model was trained without, {SETTINGS} may say "model_input_names": ["input_ids", "attention_mask"]',
        )
    if given is None:
        yield f"transformers 5 gives the tokens of a pair's second text no type by a {name}, and makes other scores"


def _flags(token: AddedToken) -> tuple[bool, bool, bool]:
    return token.single_word, token.lstrip, token.rstrip


def _first_space(name: str, said: Said, step: Mapping[str, Any]) -> Iterator[str]:
    """Compare whether a space goes before a text, which release 4 takes from the settings whatever the class is, but for LLaMA's."""
    asked = bool(said.get("add_prefix_space", False))
    if step.get("type") != "ByteLevel" or step["add_prefix_space"] == asked:
        return
    if name in BYTE_LEVEL:
        ours, theirs = (
            [word for word, _ in pre_tokenizers.ByteLevel(add_prefix_space=each).pre_tokenize_str(PROBES[0])]
            for each in (not asked, asked)
        )
        raise _contradiction(f"a text is split as {ours!r} or as {theirs!r}")
    if name not in ("LlamaTokenizer", "TokenizersBackend"):
        yield _by_release(name, 4)


def _is_usual(model: Mapping[str, Any], unknown: str) -> bool:
    """Whether a vocabulary is used as release 5 uses any of its kind, whatever tokenizer.json says."""
    if "unk_id" in model:  # Unigram
        at = model["unk_id"]
        return at is not None and bool(model["vocab"][at][0] == unknown)
    begins, ends = model.get("continuing_subword_prefix"), model.get("end_of_word_suffix")
    if "max_input_chars_per_word" in model:  # WordPiece
        return (begins, model["max_input_chars_per_word"]) == ("##", 100)
    return not begins and not ends


def _by_release(name: str, release: int = 5) -> str:
    return f"transformers {release} does not read all of tokenizer.json for a {name}, and may make other tokens of a text"


@dataclass(frozen=True, kw_only=True)
class _Ways:
    """Results of a tokenizer before and behind its vocabulary."""

    normalized: list[str]
    split: list[list[str]]
    framed: list[tuple[list[str], list[int], list[int]]]
    """Tokens, ids and types around an empty text, and around a pair of them."""
    spaced: list[str]
    """Words of a text with more spaces than it needs."""

    @classmethod
    def of(cls, tokenizer: Tokenizer, pairs: bool) -> Self:
        normal, words = tokenizer.normalizer, tokenizer.pre_tokenizer
        empty = [tokenizer.encode(""), *([tokenizer.encode("", "")] if pairs else [])]
        spaced = normal.normalize_str(SPACED) if normal else SPACED
        return cls(
            spaced=[word for word, _ in words.pre_tokenize_str(spaced)] if words else [spaced],
            normalized=[normal.normalize_str(text) if normal else text for text in PROBES],
            split=[
                [word for word, _ in words.pre_tokenize_str(text)] if words else [text] for text in PROBES
            ],
            framed=[(each.tokens, each.ids, each.type_ids) for each in empty],
        )


def _contradiction(what: str) -> ModelError:
    return ModelError(
        f"tokenizer.json and the settings beside it ({SETTINGS}) contradict each other: {what}",
        hint="AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) of transformers writes files that agree",
    )


def _charsmap(document: Any) -> bytes:
    """SentencePiece's table of characters in a tokenizer.json, which transformers keeps of its normalizer."""
    normalizer = document.get("normalizer") or {}
    steps = normalizer.get("normalizers", [normalizer])
    found = (each["precompiled_charsmap"] for each in steps if each.get("type") == "Precompiled")
    return base64.b64decode(next(found, ""))
