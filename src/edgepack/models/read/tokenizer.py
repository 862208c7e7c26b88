"""The tokenizer: one document, used for the reference and shipped in the bundle."""

import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.read.documents import EDITED, flag_of, read_object
from edgepack.models.read.model_folder import ModelFolder
from edgepack.models.read.panics import allow_tokenizer, panics_reported, require_bounded
from edgepack.models.read.static import is_static_source
from edgepack.records.model import ModelSource

PAD_NAMES = ("[PAD]", "<pad>", "<|padding|>", "<|endoftext|>")


def load_tokenizer(source: ModelSource) -> Tokenizer:
    """The tokenizer that is shipped, cutting at ``source.max_length`` tokens ([CLS] and [SEP] included), unpadded."""
    tokenizer = _parse(minimal_json(source), source.tokenizer.name)
    tokenizer.enable_truncation(source.max_length)
    return tokenizer


def minimal_json(source: ModelSource) -> str:
    """tokenizer.json as the runner needs it: compact, without truncation and padding, which the runner does itself.

    A model that says ``do_lower_case`` beside the tokenizer gets that step put into it, a static one no special tokens. Same
    model, same text.
    """
    document = dict(read_object(source.tokenizer))
    document["truncation"] = document["padding"] = None
    if is_static_source(source):
        # A table's own libraries put no special tokens around a text.
        document["post_processor"] = None
    # sentence-transformers lowers the text before the tokenizer sees it when this file says so.
    elif lowered(ModelFolder(directory=source.directory)):
        document["normalizer"] = _lowered(document.get("normalizer"))
    require_bounded(document, source.tokenizer.name)
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def lowered(folder: ModelFolder) -> bool:
    """Whether the Transformer module's own file asks for that. Raises ``ModelError``."""
    return flag_of(folder.transformer, "do_lower_case", False, where=folder.transformer_file)


def _lowered(normalizer: Any) -> dict[str, Any]:
    steps = [normalizer] if normalizer else []
    return {"type": "Sequence", "normalizers": [{"type": "Lowercase"}, *steps]}


def open_tokenizer(path: Path) -> Tokenizer:
    """A tokenizer.json as it is. Raises ``ModelError`` and ``UnsupportedModelError``."""
    document = dict(read_object(path))
    require_bounded(document, path.name)
    return _parse(json.dumps(document), path.name)


def highest_token(tokenizer: Tokenizer) -> int:
    """The largest token id that a tokenizer can give. Raises ``ModelError`` when there is none."""
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    if not vocabulary:
        raise ModelError("tokenizer.json has an empty vocabulary", hint=EDITED)
    return max(vocabulary.values())


def pad_id_of(tokenizer: Tokenizer) -> int:
    """The id to fill batches with. It is masked, so any id of the vocabulary would do."""
    padding = tokenizer.padding
    if padding is not None:
        return int(padding["pad_id"])
    ids = (tokenizer.token_to_id(name) for name in PAD_NAMES)
    return next((found for found in ids if found is not None), 0)


def _parse(text: str, name: str) -> Tokenizer:
    allow_tokenizer()
    try:
        with panics_reported():
            return Tokenizer.from_str(text)
    except UnsupportedModelError:
        raise
    except Exception as error:  # the library raises plain Exception
        raise ModelError(
            f"{name} is not a tokenizer: {error}",
            hint="it may be damaged, or newer than the tokenizers package",
        ) from error
