"""Static embeddings: a table with a vector for each token, and no transformer. A text's vector is the mean of its tokens'.

Two forms: sentence-transformers' StaticEmbedding module (tensor ``embedding.weight``), and model2vec's (``embeddings``, and
with a vocabulary that was quantized ``mapping`` and ``weights``), which leaves unknown tokens out of the mean.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.read.documents import EDITED, size_of, truncation_of
from edgepack.models.read.model_folder import ModelFolder
from edgepack.models.read.safetensors import Array, TensorFile, open_tensors
from edgepack.records.model import ModelSource

STATIC = "static-embedding"
"""``model_type`` of such a source's configuration."""
UNKNOWN = "unknown_token_id"
"""In that configuration: the token that does not count where others do; ``null``: all count."""
MODULE = "StaticEmbedding"
WEIGHT, EMBEDDINGS, MAPPING, WEIGHTS = "embedding.weight", "embeddings", "mapping", "weights"
MODEL2VEC_LENGTH = 512
"""Tokens, where config.json does not say it."""
UNLIMITED = 1_000_000
"""Tokens, for a module that cuts no text."""


@dataclass(frozen=True, kw_only=True)
class StaticTable:
    """Table of a static model. Token t's vector is ``scales[t] * vectors[rows[t]]``, where ``rows`` is ``None``
    ``scales[t] * vectors[t]``; a text's is the mean of those of its tokens that count, which
    ``ModelSource.pooling`` may then cut and normalize. No special tokens go around a text;
    ``ModelSource.max_length`` is how many of its tokens there are at most. A bundle gives a text without tokens the
    vector of the padding token, ``TokenizerTables.pad_id``.
    """

    vectors: Array
    """float32 [rows, dimension]."""
    rows: npt.NDArray[np.int64] | None
    """The row of ``vectors`` that each token has, int64 [tokens], tokens by their ids; ``None``: token t has row t."""
    scales: Array | None
    """What each token's row is multiplied by, float32 [tokens], not [rows]; ``None``: 1."""
    unknown: int | None
    """The id of the token that counts only in a text that has no other; ``None``: all count."""

    @property
    def tokens(self) -> int:
        """How many tokens have a vector; more than ``vectors`` has rows, where several share one."""
        return len(self.vectors if self.rows is None else self.rows)


def is_static(folder: ModelFolder) -> bool:
    """Whether a folder, of which modules.json and config.json are there, holds a static model."""
    config = folder.config
    if folder.kinds is not None:
        return folder.kinds[:1] == (MODULE,)
    # model2vec's own config.json named itself for a time, and names its table's type since.
    named = config.get("model_type")
    return named == "model2vec" or (named is None and "embedding_dtype" in config)


def static_folder(folder: ModelFolder, names: Iterable[str], model: str) -> str:
    """Subfolder with table and tokenizer, of a model's folder that has (or is to have) files of these names: the one that modules.json
    names, before sentence-transformers 5.0 ``0_StaticEmbedding/``, or the folder itself. Raises ``ModelError``."""
    place = folder.modules[0].folder if folder.modules else ""
    place += "/" * bool(place)
    if {f"{place}model.safetensors", f"{place}tokenizer.json"} <= set(names):
        return place
    raise ModelError(
        f"{model} has no {place}model.safetensors with a tokenizer.json beside it",
        hint="a static model has both; StaticModel.from_pretrained(F).save_pretrained(F) of model2vec writes them",
    )


def is_static_source(source: ModelSource) -> bool:
    """Whether a source is a table with a tokenizer."""
    return source.config.get("model_type") == STATIC


def static_table(source: ModelSource) -> StaticTable:
    """The table of a static model.

    Raises ``UnsupportedModelError`` for another kind of model, ``ModelError`` for weights that are damaged.
    """
    if source.weights is None or not is_static_source(source):
        raise UnsupportedModelError(
            f"{source.name} is not a static model, which is only a table with one vector per token",
            hint="--target linux-x86-min, on arm64 linux-arm64-min, for transformers",
        )
    return table_of(open_tensors(source.weights), source.config)


def table_of(file: TensorFile, config: Mapping[str, Any]) -> StaticTable:
    """The table in a file. Raises ``ModelError``."""
    name = table_name(file)
    shape = file.tensors[name].shape
    integers = file.tensors[name].dtype == "I8"
    vectors = file.integers(name).astype(np.float32) if integers else file.read(name, shape)
    rows = file.integers(MAPPING) if MAPPING in file.tensors else None
    if rows is not None and (rows.ndim != 1 or not len(rows) or rows.min() < 0 or rows.max() >= shape[0]):
        raise ModelError(f"{file.path.name}: {MAPPING} names rows that {name} does not have", hint=EDITED)
    tokens = shape[0] if rows is None else len(rows)
    scales = file.read(WEIGHTS, (tokens,)) if WEIGHTS in file.tensors else None
    unknown = config.get(UNKNOWN)
    return StaticTable(vectors=vectors, rows=rows, scales=scales, unknown=unknown)


def table_name(file: TensorFile) -> str:
    """The tensor that is the table. Raises ``ModelError``."""
    for name in (WEIGHT, EMBEDDINGS):
        if name in file.tensors and len(file.tensors[name].shape) == 2:
            return name
    raise ModelError(
        f"{file.path.name} has no table called {WEIGHT} or {EMBEDDINGS}",
        hint="its tensors are " + (", ".join(sorted(file.tensors)[:5]) or "none"),
    )


def normalizes(folder: ModelFolder, *, model2vec: bool, asked: bool | None) -> bool:
    """Whether vectors get length 1, as was ``asked`` or the model says. Raises ``UnsupportedModelError`` for modules that a bundle cannot do, ``ModelError`` where two files differ."""
    kinds = folder.kinds or (MODULE,)
    if kinds not in ((MODULE,), (MODULE, "Normalize")):
        raise UnsupportedModelError(
            f"modules.json requires {' and '.join(kinds[1:])} behind {MODULE}, which bundles do not support",
            hint=f"edgepack takes static models of {MODULE} and, if need be, Normalize",
        )
    if asked is not None:
        return asked
    said = kinds[-1] == "Normalize"
    named = bool(folder.config.get("normalize", said)) if model2vec else said
    if folder.modules is not None and named != said:
        raise ModelError(
            f"config.json says normalize {str(named).lower()}, and modules.json has {'a' if said else 'no'} Normalize: model2vec and sentence-transformers make other vectors",
            hint="--normalize or --no-normalize decides it",
        )
    return named


def longest_text(folder: ModelFolder, tokenizer: str, *, model2vec: bool) -> int:
    """Tokens that a text is cut to, as its own library does it."""
    if model2vec:
        said = folder.config.get("max_length", MODEL2VEC_LENGTH)
        return UNLIMITED if said is None else size_of({"max_length": said}, "max_length")
    truncation = truncation_of(folder.table(tokenizer), where="tokenizer.json")
    return size_of(truncation, "max_length", where="tokenizer.json") if truncation else UNLIMITED


def unknown_token(folder: ModelFolder, tokenizer: str) -> int | None:
    """The token for what is not in a vocabulary, as model2vec finds it."""
    from tokenizers import Tokenizer

    model = folder.table(tokenizer).get("model")
    if not isinstance(model, dict):
        raise ModelError("tokenizer.json has no model", hint=EDITED)
    if "unk_token" not in model:
        return model.get("unk_id")
    name = model["unk_token"]
    found: int | None = (
        Tokenizer.from_file(str(folder.directory / tokenizer)).token_to_id(name) if name else None
    )
    return found
