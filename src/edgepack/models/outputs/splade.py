"""SPLADE: a masked language model whose numbers for each token of the vocabulary, pooled, are a text's sparse vector."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.outputs.reading import linear
from edgepack.models.read.card import ModelCard
from edgepack.models.read.documents import number_of, size_of
from edgepack.models.read.model_folder import ModelFolder
from edgepack.models.read.modules import module_config
from edgepack.models.read.pooling import VectorReading
from edgepack.models.read.safetensors import WORD_TABLES, TensorFile
from edgepack.records.layers import Norm
from edgepack.records.model import Pooling
from edgepack.records.outputs import Outputs, Sparse, Vocabulary

NAME = r"(?<![a-z])splade"
TAGS = ("splade", "sparse-encoder")
_ACTIVATIONS: Mapping[str, Literal["Gelu", "Relu"]] = {"gelu": "Gelu", "gelu_python": "Gelu", "relu": "Relu"}
_LM_HEAD = (
    "lm_head.dense",
    "lm_head.layer_norm",
    ("lm_head.decoder",),
    ("lm_head.decoder.bias", "lm_head.bias"),
)
HEADS: Mapping[str, tuple[str, str, tuple[str, ...], tuple[str, ...]]] = {
    "bert": (
        "cls.predictions.transform.dense",
        "cls.predictions.transform.LayerNorm",
        ("cls.predictions.decoder",),
        ("cls.predictions.decoder.bias", "cls.predictions.bias"),
    ),
    "distilbert": ("vocab_transform", "vocab_layer_norm", ("vocab_projector",), ("vocab_projector.bias",)),
    "modernbert": ("head.dense", "head.norm", ("decoder",), ("decoder.bias",)),
    **dict.fromkeys(("roberta", "xlm-roberta", "camembert", "mpnet"), _LM_HEAD),
}
"""``model_type`` → what transformers calls the head's dense layer, its normalisation, its last matrix and bias (that of the
matrix first: with tied weights, only the other may be there). That matrix is the table of word embeddings where the two are tied, and is then not saved again."""


def is_splade(folder: ModelFolder, card: ModelCard, names: tuple[str, ...]) -> bool:
    """By modules.json; without one, a masked language model that its name or card calls so."""
    if folder.kinds is not None:
        task = folder.transformer.get("transformer_task")
        return folder.kinds == ("MLMTransformer", "SpladePooling") or (
            folder.kinds == ("Transformer", "SpladePooling") and task == "fill-mask"
        )
    masked = any(str(name).endswith("ForMaskedLM") for name in folder.config.get("architectures") or ())
    called = any(re.search(NAME, name.lower()) for name in names) or any(tag in TAGS for tag in card.tags)
    return masked and called


def read_splade(folder: ModelFolder, weights: Path, name: str) -> VectorReading:
    """Raises ``UnsupportedModelError`` for a head that is not read, ``ModelError`` for what the weights lack."""
    config = folder.config
    kind = str(config.get("model_type"))
    if kind not in HEADS:
        raise UnsupportedModelError(
            f"{name} is a sparse encoder (SPLADE) of the architecture {kind!r}, whose head edgepack does not read",
            hint=f"it reads those of {', '.join(sorted(HEADS))}",
        )
    tensors = folder.tensors(weights)
    dense, norm, decoders, biases = HEADS[kind]
    hidden = size_of(config, "dim" if kind == "distilbert" else "hidden_size")
    size = size_of(config, "vocab_size")
    layer = linear(tensors, inputs=hidden, outputs=hidden, tensor=dense)
    epsilon = (
        number_of(config, "norm_eps", 1e-5)
        if kind == "modernbert"
        else number_of(config, "layer_norm_eps", 1e-12)
    )
    with_bias = bool({f"{norm}.bias", f"{norm}.beta"} & tensors.tensors.keys())
    normed = Norm(tensor=norm, epsilon=epsilon, bias=with_bias)
    place = module_config(folder, folder.modules[1].folder, required=False) if folder.modules else None
    strategy, logs = _pooling(folder, place)
    head = Vocabulary(
        transform=replace(layer, activation=_activation(config, kind), norm=normed),
        matrix=_matrix(tensors, decoders),
        bias=_named(tensors, biases),
        strategy=strategy,
        logs=logs,
    )
    tensors.read(head.bias, (size,))  # raises for another shape
    outputs = Outputs(sparse=Sparse(size=size, vocabulary=head))
    files = ("modules.json", place)
    return VectorReading(
        outputs=outputs,
        pooling=Pooling(mode="max", normalize=False),
        dimension=size,
        files=tuple(each for each in files if each and folder.has(each)),
        warnings=(*_kept(folder), *_tied(folder.config, tensors, head, (decoders, biases))),
    )


def _tied(
    config: Mapping[str, Any],
    tensors: TensorFile,
    head: Vocabulary,
    names: tuple[tuple[str, ...], tuple[str, ...]],
) -> tuple[str, ...]:
    """A warning where releases of transformers take different ones of two tensors that config.json says are one."""
    if config.get("tie_word_embeddings", True) is False:
        return ()
    decoders, biases = names
    pairs = [(head.matrix, _word_table(tensors))] if head.matrix.startswith(decoders) else []
    pairs += [(head.bias, other) for other in biases if other != head.bias and other in tensors.tensors]
    for taken, other in pairs:
        shape = tensors.tensors[taken].shape
        if other is not None and not np.array_equal(tensors.read(taken, shape), tensors.read(other, shape)):
            return (
                f"config.json ties {taken} and {other}, which differ: a bundle has the first, as transformers 5; release 4 takes the second",
            )
    return ()


def _word_table(tensors: TensorFile) -> str | None:
    return next((name for name in tensors.tensors if name.endswith(WORD_TABLES)), None)


def _kept(folder: ModelFolder) -> tuple[str, ...]:
    """A warning of a model that keeps some weights of a text alone."""
    most = folder.settings.get("max_active_dims")
    if most is None:
        return ()
    return (
        f"sentence-transformers keeps the {str(most)[:20]} largest weights of a text (max_active_dims), a bundle gives all",
    )


def _matrix(tensors: TensorFile, decoders: tuple[str, ...]) -> str:
    """The last matrix, or the table of word embeddings, which it is tied to."""
    for decoder in decoders:
        if f"{decoder}.weight" in tensors.tensors:
            return f"{decoder}.weight"
    table = _word_table(tensors)
    if table is None:
        raise ModelError(
            f"{tensors.path.name} has neither {decoders[0]}.weight nor a table of word embeddings",
            hint="config.json and weights are of different models",
        )
    return table


def _named(tensors: TensorFile, names: tuple[str, ...]) -> str:
    found = next((name for name in names if name in tensors.tensors), None)
    if found is None:
        raise ModelError(
            f"{tensors.path.name} has no {names[-1]}, which the head of its architecture has",
            hint="config.json and weights are of different models, or the head was not saved",
        )
    return found


def _activation(config: Mapping[str, Any], kind: str) -> Literal["Gelu", "Relu"]:
    """Activation of the head's dense layer, after transformers' modeling files."""
    keys = {"bert": "hidden_act", "distilbert": "activation", "modernbert": "classifier_activation"}
    said = str(config.get(keys.get(kind, ""), "gelu"))
    if said not in _ACTIVATIONS:
        raise UnsupportedModelError(
            f"config.json: {keys[kind]} {said!r} is not supported in the head of a sparse encoder",
            hint=f"edgepack knows {', '.join(_ACTIVATIONS)}",
        )
    return _ACTIVATIONS[said]


def _pooling(folder: ModelFolder, place: str | None) -> tuple[Literal["max", "sum"], int]:
    """How tokens are pooled, and how often the logarithm is taken: as sentence-transformers' SpladePooling says it."""
    said = folder.table(place) if place else {}
    strategy, activation = said.get("pooling_strategy", "max"), said.get("activation_function", "relu")
    logs = {"relu": 1, "log1p_relu": 2}.get(str(activation))
    if strategy not in ("max", "sum") or logs is None:
        raise UnsupportedModelError(
            f"{place} requires {strategy} of {activation}, which bundles do not support",
            hint="edgepack pools by max or sum, of relu or log1p_relu",
        )
    return strategy, logs
