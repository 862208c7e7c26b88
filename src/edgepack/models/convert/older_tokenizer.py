"""A tokenizer.json for repositories that have only older files, as transformers 5 makes the tokenizer of them.

After its ``models/*/tokenization_*.py``: BERT's vocab.txt, GPT-2's vocab.json and merges.txt, and SentencePiece's ``.model``.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken

from edgepack.context import BuildContext
from edgepack.errors import EdgepackError, ModelError, UnsupportedModelError
from edgepack.files.store import digest_of_code
from edgepack.models.convert.sentencepiece import (
    CONTROL,
    USER_DEFINED,
    SentencePieceModel,
    read_sentencepiece,
)
from edgepack.models.convert.tokenizer_classes import (
    ALSO,
    CLASSES,
    FAMILIES,
    GIVEN,
    MODELS,
    Family,
    Said,
    class_of,
)
from edgepack.models.read.hub_layout import OLDER_SETTINGS, OLDER_TOKENIZERS
from edgepack.models.read.model_folder import ModelFolder
from edgepack.models.read.panics import panics_reported

FILE = "tokenizer.json"
SETTINGS = "tokenizer_config.json"
SPECIALS, ADDED = OLDER_SETTINGS
ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


def tokenizer_file(source: ModelFolder, *, context: BuildContext) -> Path:
    """The tokenizer.json of a folder; of one that has older files only, made of these and kept in the store.

    Raises as ``converted_tokenizer`` does.
    """
    if source.has(FILE):
        return source.directory / FILE
    older = [name for name in OLDER_TOKENIZERS if source.has(name)]
    used = [*older, *(name for name in (SETTINGS, *OLDER_SETTINGS) if source.has(name))]

    def make(folder: Path) -> None:
        (folder / FILE).write_text(converted_tokenizer(source), encoding="utf-8")

    inputs = {
        **{key: str(source.config.get(key)) for key in ("model_type", "tokenizer_class")},
        "tokenizers": tokenizers.__version__,
        "by": digest_of_code("models"),
    }
    context.note(f"no tokenizer.json: one is made of {' and '.join(older)}, as transformers does")
    files = {name: source.directory / name for name in used}
    return context.store.cached("converted-tokenizer", inputs, make, files=files) / FILE


@panics_reported()
def converted_tokenizer(source: ModelFolder) -> str:
    """The text of a tokenizer.json. Raises ``ModelError``, and ``UnsupportedModelError`` for a class that is not known here."""
    try:
        return _converted(source)
    except EdgepackError:
        raise
    except Exception as error:  # the library raises plain Exception; settings have values of any kind
        older = " and ".join(name for name in OLDER_TOKENIZERS if source.has(name))
        raise ModelError(
            f"no tokenizer can be made of {older}: {error}",
            hint="the files are damaged; fetch them again",
        ) from error


def _converted(source: ModelFolder) -> str:
    said = said_of(source)
    family = _family(source, said)
    said = {**family.specials, **said}
    model = read_sentencepiece(source.directory / family.files[0]) if family.files[0] in MODELS else None
    if model is not None:
        # transformers takes these in place of those that the files name.
        said["additional_special_tokens"] = [*_of_pieces(model), *family.further]
    tokenizer = family.make(source.directory, said, model)
    for token in added_tokens(said):
        if token.special:
            tokenizer.add_special_tokens([token])
        else:
            tokenizer.add_tokens([token])
    tokenizer.post_processor = family.frame(tokenizer, said)
    return str(tokenizer.to_str())


def said_of(source: ModelFolder) -> dict[str, Any]:
    """Settings of tokenizer_config.json, and of the two files that older versions wrote beside it."""
    settings = source.optional(SETTINGS)
    said = {key: value for key, value in settings.items() if value is not None or key in ROLES}
    if "added_tokens_decoder" not in said:
        said |= source.optional(SPECIALS)
        added = source.optional(ADDED)
        said["added"] = [token for token, _ in sorted(added.items(), key=lambda each: each[1])]
    return said


def _family(source: ModelFolder, said: Said) -> Family:
    named = class_of(source.config, said)
    kind = source.config.get("model_type")
    name = CLASSES.get(str(kind), named) if named in GIVEN else ALSO.get(named, named)
    if name not in FAMILIES:
        named = "" if named in GIVEN else named
        raise UnsupportedModelError(
            f"there is no tokenizer.json, and the older files are of {named or f'a model of type {kind!r}'}",
            hint=f"edgepack makes one of {', '.join(sorted(FAMILIES))}; transformers' save_pretrained writes one of others",
        )
    family = FAMILIES[name]
    if missing := [file for file in family.files if not source.has(file)]:
        raise ModelError(
            f"there is no tokenizer.json, and no {missing[0]} that {name} is made of",
            hint="fetch the model again, whole",
        )
    return family


def added_tokens(said: Said) -> list[AddedToken]:
    """In the order in which transformers adds them; the first of the same content counts."""
    listed = said.get("added_tokens_decoder") or {}
    found = [_token(listed[number]) for number in sorted(listed, key=int)]
    named = [said[role] for role in ROLES if said.get(role)]
    further = said.get("additional_special_tokens") or said.get("extra_special_tokens") or ()
    # Since transformers 5 these have names of their own.
    further = further.values() if isinstance(further, Mapping) else further
    found += [_token(each) for each in (*named, *further)]
    found += [AddedToken(each, normalized=True, special=False) for each in said.get("added", ())]
    by_content: dict[str, AddedToken] = {}
    for token in found:
        by_content.setdefault(token.content, token)
    return list(by_content.values())


def _token(said: Any) -> AddedToken:
    if isinstance(said, AddedToken):
        return said
    if not isinstance(said, Mapping):
        return AddedToken(str(said), special=True, normalized=False)
    flags = {key: bool(said.get(key)) for key in ("single_word", "lstrip", "rstrip", "normalized")}
    return AddedToken(str(said["content"]), special=bool(said.get("special", True)), **flags)


def _of_pieces(model: SentencePieceModel) -> list[AddedToken]:
    return [
        AddedToken(piece.text, normalized=False, special=piece.kind == CONTROL)
        for piece in model.pieces
        if piece.kind in (CONTROL, USER_DEFINED)
    ]
