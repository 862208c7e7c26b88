"""ColBERT: a vector for each token, in the layouts of PyLate, sentence-transformers' MultiVectorEncoder and Stanford's own."""

import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.outputs.reading import linear
from edgepack.models.outputs.tokens import Tokens
from edgepack.models.read.documents import size_of
from edgepack.models.read.hub_layout import dimension_of
from edgepack.models.read.model_folder import SETTINGS, ModelFolder
from edgepack.models.read.modules import module_config, read_dense, require_inputs
from edgepack.models.read.pooling import VectorReading
from edgepack.records.layers import Dense
from edgepack.records.model import Pooling
from edgepack.records.outputs import MultiVector, Outputs, Side

STANFORD = "HF_ColBERT"
METADATA = "artifact.metadata"
EXPANDED = 32
"""Tokens that queries are filled up to where nothing says it."""
LONGEST = 1 << 20
"""Tokens of a text: more than any model takes."""
_TASKS = ("query", "document")
_MODULES = ("Transformer", "Dense", "MultiVectorMask", "Normalize")
_ACROSS = ("LogSoftmax", "Softmax", "Softmin")
"""Activations of torch.nn that choose their axis by the number of axes: of tokens' vectors that of the batch."""
_SHORTEST = 3
"""Tokens of an empty query: the first, the marker and the last."""
_INPUTS = {"Dense": "token_embeddings", "Normalize": "sentence_embedding"}
"""Kind of module → what it reads and writes where its file does not say it."""
_PYLATE = (
    "query_length", "document_length", "query_expansion", "do_query_expansion", "attend_to_expansion_tokens",
    "attend_to_mask_tokens", "query_prefix", "document_prefix", "skiplist_words",
)  # fmt: skip
"""PyLate's settings of the model as a whole."""


def is_colbert(folder: ModelFolder) -> bool:
    """Whether a folder says that its model gives a vector for each token of a text."""
    if folder.kinds is not None:
        # With a Pooling module tokens' vectors are not what comes out.
        said = is_pylate(folder) or folder.settings.get("model_type") == "MultiVectorEncoder"
        return said and "Pooling" not in folder.kinds
    return STANFORD in (folder.config.get("architectures") or ())


def read_colbert(folder: ModelFolder, weights: Path, tokenizer: Path, name: str) -> VectorReading:
    """Raises ``ModelError`` for a model without its linear layer, ``UnsupportedModelError`` for what bundles do not have."""
    tokens = Tokens.read(folder, tokenizer)
    files: tuple[str, ...]
    if folder.modules is None:
        dense: tuple[Dense, ...] = (
            linear(folder.tensors(weights), inputs=dimension_of(folder.config) or 0, tensor="linear"),
        )
        said, files = _stanford(folder), (METADATA,)
    else:
        dense, files = _dense_modules(folder, name)
        said = _sentence_transformers(folder)
        files += (SETTINGS, folder.transformer_file)
    query, document = (_side(said, task, tokens) for task in _TASKS)
    warnings = without_company(folder.config, query, name)
    dimension = dense[-1].outputs
    return VectorReading(
        outputs=Outputs(
            multi_vector=MultiVector(dense=dense, dimension=dimension, query=query, document=document)
        ),
        pooling=Pooling(mode="mean", normalize=True),
        dimension=dimension,
        files=tuple(each for each in (*files, *tokens.files) if folder.has(each)),
        warnings=warnings,
    )


def without_company(config: Mapping[str, Any], query: Side, name: str) -> tuple[str, ...]:
    """A warning where filling tokens, to which none attends, lie where they see no others; their vectors are then left to the library.

    Raises ``UnsupportedModelError`` for an architecture whose filling tokens see none anywhere.
    """
    kind = config.get("model_type")
    if query.expand is None or query.attend:
        return ()
    if kind == "deberta-v2":
        raise UnsupportedModelError(
            f"{name} fills queries up with tokens that are not attended to, which in DeBERTa attend to nothing: bundles do not support that",
            hint="edgepack takes such models of other architectures, and of DeBERTa with attention to those tokens (attend)",
        )
    if kind != "modernbert" or query.least - _SHORTEST <= (
        reach := size_of(config, "local_attention", 128) // 2
    ):
        return ()
    return (
        f"tokens that fill up a query of fewer than {query.least - reach} tokens lie further from it than local attention reaches: their vectors may be others than sentence-transformers'",
    )


def _dense_modules(folder: ModelFolder, name: str) -> tuple[tuple[Dense, ...], tuple[str, ...]]:
    """The linear layers that modules.json names behind the transformer, and their files."""
    kinds = folder.kinds or ()
    odd = next((kind for kind in kinds if kind not in _MODULES), None)
    if odd or kinds[:1] != ("Transformer",) or kinds.count("MultiVectorMask") > 1:
        raise UnsupportedModelError(
            f"modules.json requires {odd or ' → '.join(kinds)}, which bundles of multi-vector models do not support",
            hint="edgepack takes a Transformer, Dense modules, a MultiVectorMask and a Normalize module",
        )
    read = [
        (each, folder.table(place) if (place := module_config(folder, each.folder, required=False)) else {})
        for each in (folder.modules or ())[1:]
    ]
    dense = [(each, config) for each, config in read if each.kind == "Dense"]
    if not dense:
        raise ModelError(
            f"{name} is a multi-vector model without a linear layer: modules.json names no Dense module",
            hint="save the model with the library that trained it; its Dense module makes the tokens' vectors",
        )
    older = is_pylate(folder)
    for module, config in read:
        if module.kind != "MultiVectorMask" and (not older or module.kind == "Normalize"):
            require_inputs(config, module.kind, "token_embeddings", usual=_INPUTS[module.kind])
    # PyLate puts one behind what its files list.
    steps = [kind for kind in kinds if kind in ("Dense", "Normalize")] + ["Normalize"] * older
    if steps[: len(dense) + 1] != ["Dense"] * len(dense) + ["Normalize"]:
        raise UnsupportedModelError(
            f"{name} does not give its tokens' vectors length 1 behind the last Dense module (Normalize), as bundles do",
            hint="edgepack takes multi-vector models whose modules.json ends with a Normalize of token_embeddings",
        )
    found = [module_config(folder, each.folder, required=True) or "" for each, _ in dense]
    usual = {"activation_function": "torch.nn.modules.linear.Identity"} if older else {}
    layers = [read_dense({**usual, **folder.table(each)}, (folder.directory / each).parent) for each in found]
    if odd := next((each.activation for each in layers if each.activation in _ACROSS), None):
        raise UnsupportedModelError(
            f"a Dense module of {name} is activated by {odd}, which torch computes of tokens across a batch",
            hint="edgepack takes other activations of tokens' vectors",
        )
    weights = [layer.file.relative_to(folder.directory).as_posix() for layer in layers]
    return tuple(layers), ("modules.json", *weights, *found)


def is_pylate(folder: ModelFolder) -> bool:
    """Whether PyLate saved a folder: with prefixes of tokens, and without what it does behind its modules."""
    # With sentence-transformers before 5.0 nothing says it but the names of modules.
    named = any(each.type.startswith("pylate.models.") for each in folder.modules or ())
    return bool(folder.settings.get("model_type", "ColBERT" if named else "") == "ColBERT")


def _stanford(folder: ModelFolder) -> dict[str, Any]:
    """Stanford's artifact.metadata, in the words of sentence-transformers; its defaults where it says nothing."""
    said = folder.optional(METADATA)
    least = said.get("query_maxlen") or EXPANDED
    return {
        "query_prefix": said.get("query_token_id") or "[unused0]",
        "document_prefix": said.get("doc_token_id") or "[unused1]",
        "document_length": said.get("doc_maxlen"),
        "query_expansion": {
            "strategy": "fixed",
            "attend": bool(said.get("attend_to_mask_tokens")),
            "length": least,
        },
        "skiplist_words": list(string.punctuation) if said.get("mask_punctuation", True) else [],
    }


def _sentence_transformers(folder: ModelFolder) -> dict[str, Any]:
    """Settings of a ColBERT model that sentence-transformers or PyLate saved, in PyLate's words."""
    settings, transformer = folder.settings, folder.transformer
    prompts = settings.get("prompts") or {}
    said = {key: transformer.get(key) for key in ("query_length", "document_length", "query_expansion")}
    mask = next((each.folder for each in folder.modules or () if each.kind == "MultiVectorMask"), None)
    config = module_config(folder, mask, required=False) if mask else None
    masked = folder.table(config) if config else {}
    if masked.get("keep_only_token_ids"):
        raise UnsupportedModelError(
            "the MultiVectorMask keeps only some tokens of a text (keep_only_token_ids), which bundles do not support",
            hint="edgepack takes multi-vector models of texts",
        )
    said |= {key: masked.get(key) for key in ("skiplist_words", "skiplist_tasks")}
    if is_pylate(folder):
        stated = {
            key: settings[key]
            for key in ("document_length", "query_length", "query_expansion")
            if key in settings and (settings[key] is not None or key == "query_expansion")
        }
        words = settings.get("skiplist_words")
        said["skiplist_words"] = list(string.punctuation) if words is None else words
        asked = settings.get("do_query_expansion") is not False and not settings.keys().isdisjoint(_PYLATE)
        if "query_expansion" not in settings and asked:
            attend = settings.get("attend_to_expansion_tokens", settings.get("attend_to_mask_tokens"))
            length = stated.pop("query_length", None) or EXPANDED
            stated["query_expansion"] = {"strategy": "fixed", "attend": bool(attend), "length": length}
        # What the Transformer module says itself counts.
        said |= {key: value for key, value in stated.items() if key not in transformer}
    elif odd := next((key for key in _PYLATE if settings.get(key) is not None), None):
        raise UnsupportedModelError(
            f"{SETTINGS} has {odd} for a model that PyLate did not save, which bundles do not support",
            hint="load and save the model once with sentence-transformers' MultiVectorEncoder",
        )
    for task in _TASKS:
        prefix = said[f"{task}_prefix"] = _text(settings, f"{task}_prefix")
        said[task] = _text(prompts if isinstance(prompts, dict) else {}, task).removeprefix(prefix)
    return said


def _text(said: Mapping[str, Any], key: str) -> str:
    value = said.get(key) or ""
    if not isinstance(value, str):
        raise _odd(key, value)
    return value


def _length(said: Mapping[str, Any], key: str) -> int:
    """0 where it is not said."""
    value = said.get(key)
    if value is not None and (type(value) is not int or not 0 <= value <= LONGEST):
        raise _odd(key, value)
    return value or 0


def _texts(said: Mapping[str, Any], key: str) -> list[str]:
    value = said.get(key) or []
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise _odd(key, value)
    return value


def _odd(key: str, value: object) -> ModelError:
    return ModelError(
        f"the settings of the multi-vector model say {str(value)[:60]!r} of {key}, which is not what it should be",
        hint="the file was changed or is damaged; get the model whole",
    )


def _side(said: Mapping[str, Any], task: str, tokens: Tokens) -> Side:
    """How texts of a task are read. Raises ``ModelError`` or ``UnsupportedModelError``."""
    marker, rest = _marker(_text(said, f"{task}_prefix"), tokens)
    prefix = rest + _text(said, task)
    skipped = task in (
        ("document",) if said.get("skiplist_tasks") is None else _texts(said, "skiplist_tasks")
    )
    skip = tokens.ids_of(_texts(said, "skiplist_words")) if skipped else ()
    length = _length(said, f"{task}_length")
    expansion = said.get("query_expansion") if task == "query" else None
    if not expansion:
        return Side(marker=marker, prefix=prefix, length=length, skip=skip)
    if not isinstance(expansion, dict):
        raise _odd("query_expansion", expansion)
    word = _text(expansion, "token")
    token = tokens.id_of(word) if word else tokens.special("mask_token")
    if token is None:
        raise ModelError(
            f"queries are expanded by the token {word or 'mask_token'}, which the tokenizer does not have",
            hint="tokenizer_config.json of the model names its mask_token; get the model whole",
        )
    least = _length(expansion, "length") or EXPANDED
    return Side(
        marker=marker,
        prefix=prefix,
        length=least if expansion.get("strategy") == "fixed" else length,
        expand=token,
        least=least,
        attend=bool(expansion.get("attend")),
        skip=skip,
    )


def _marker(prefix: str, tokens: Tokens) -> tuple[int | None, str]:
    """The one token that PyLate's or Stanford's prefix begins with, and the text behind it; no token where it is text alone."""
    words = prefix.split(None, 1)
    for word in (prefix, words[0]) if words else ():
        if (found := tokens.id_of(word)) is not None:
            return found, prefix[len(word) :]
    return None, prefix
