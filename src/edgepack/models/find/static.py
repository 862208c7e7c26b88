"""A folder with a static model: a table and a tokenizer."""

from typing import Any

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.find.decide import ModelRequest
from edgepack.models.find.digests import digests_of
from edgepack.models.read.card import ModelCard
from edgepack.models.read.model_folder import ModelFolder
from edgepack.models.read.modules import cut_of
from edgepack.models.read.sentence_transformers import read_prompts, unread_settings
from edgepack.models.read.static import (
    EMBEDDINGS,
    STATIC,
    UNKNOWN,
    longest_text,
    normalizes,
    static_folder,
    table_name,
    table_of,
    unknown_token,
)
from edgepack.models.read.tokenizer import highest_token, open_tokenizer, pad_id_of
from edgepack.records.model import FLOAT_PRECISIONS, FULL_PRECISION, ModelSource, Pooling

PRECISIONS = {"F16": "fp16", "BF16": "bf16", "I8": "int8"}
"""Of tables that are not in full precision."""
CLASSIFIERS = {"head_config", "head.safetensors", "pipeline.skops"}
"""A key of config.json and files by which model2vec knows a classifier, by version."""


def read_static_folder(folder: ModelFolder, card: ModelCard, asked: ModelRequest) -> ModelSource:
    """The static model in a folder. Raises ``ModelError`` or ``UnsupportedModelError``."""
    name, directory, reading = asked.name, folder.directory, asked.reading
    if reading.pooling not in (None, "mean"):
        raise UnsupportedModelError(
            f"{name} is a static model, which has no pooling but mean", hint="leave --pooling out"
        )
    named = f"{static_folder(folder, folder.names, name)}tokenizer.json"
    tokenizer = folder.directory / named
    weights = tokenizer.with_name("model.safetensors")
    file = folder.tensors(weights)
    table = table_name(file)
    model2vec = table == EMBEDDINGS
    normalize = normalizes(folder, model2vec=model2vec, asked=reading.normalize)
    pooling = Pooling(normalize=normalize, cut=cut_of(folder))
    prompts = read_prompts(folder)
    precision = PRECISIONS.get(file.tensors[table].dtype, FULL_PRECISION)
    opened = open_tokenizer(tokenizer)
    made: dict[str, Any] = {
        "model_type": STATIC,
        "architectures": ["StaticModel" if model2vec else "StaticEmbedding"],
        "hidden_size": file.tensors[table].shape[1],
        UNKNOWN: unknown_token(folder, named) if model2vec else None,
        "pad_token_id": pad_id_of(opened),
    }
    tokens = table_of(file, made).tokens
    if (highest := highest_token(opened)) >= tokens:
        raise ModelError(
            f"tokenizer.json has token {highest}, the table has {tokens}",
            hint="tokenizer and weights are of different models",
        )
    used = {weights, tokenizer, *(directory / each for each in prompts.files)}
    used |= {directory / each for each in ("config.json", "modules.json") if each in folder.names}
    return ModelSource(
        name=name,
        origin=asked.origin,
        directory=directory,
        weights=weights,
        onnx=None,
        tokenizer=tokenizer,
        config=made,
        pooling=pooling,
        max_length=longest_text(folder, named, model2vec=model2vec),
        dimension=pooling.dimension(made["hidden_size"]),
        license=card.license or asked.license,
        files=tuple(digests_of(sorted(used), directory=directory)),
        prompts={**prompts.texts, **reading.prompts},
        pooling_from="config.json" if folder.modules is None else "modules.json",
        default_prompt=prompts.default,
        reading=reading,
        warnings=(*_warnings(precision, folder), *unread_settings(folder), *prompts.warnings),
        precision=precision,
    )


def _warnings(precision: str, folder: ModelFolder) -> tuple[str, ...]:
    found = []
    if precision not in FLOAT_PRECISIONS:
        found.append(
            f"quantized already ({precision}): compared with this file, not with the full-precision model"
        )
    if CLASSIFIERS & {*folder.names, *folder.config}:
        found.append("it is a classifier of model2vec, of which the embeddings alone are taken")
    return tuple(found)
