"""What a reranker or a classifier of transformers has behind its encoder: how its tokens are pooled, and its last layer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.heads.setfit import PICKLE, linear_layer
from edgepack.models.read.documents import EDITED, number_of, size_of
from edgepack.models.read.model_folder import SETTINGS, ModelFolder
from edgepack.models.read.pooling import VectorReading
from edgepack.models.read.safetensors import Array, TensorFile, open_tensors
from edgepack.records.layers import Dense, Norm
from edgepack.records.model import Activation, Head, Pooling
from edgepack.records.target import PoolingMode

CLASS = "ForSequenceClassification"
"""The end of transformers' class names."""
POOLERS: Mapping[str, tuple[str, str]] = {
    "albert": ("pooler", "Tanh"),
    "bert": ("pooler.dense", "Tanh"),
    "distilbert": ("pre_classifier", "Relu"),
    "gte": ("pooler.dense", "Tanh"),
    "new": ("pooler.dense", "Tanh"),
}
"""``model_type`` of models with a layer ``classifier`` behind a dense layer of the first token → that one, and its activation."""
FAMILIES = (*POOLERS, "camembert", "deberta-v2", "modernbert", "mpnet", "roberta", "xlm-roberta")
"""``model_type`` of models whose heads are read."""
_POOLER_ACTIVATIONS = ("Gelu", "Relu", "Tanh")
_PROBLEMS = ("regression", "single_label_classification", "multi_label_classification")
"""transformers' ``problem_type``."""
_ACTIVATIONS: Mapping[str, Activation] = {
    "torch.nn.modules.activation.Sigmoid": "sigmoid",
    "torch.nn.modules.activation.Softmax": "softmax",
    "torch.nn.modules.linear.Identity": "identity",
}


def has_head(folder: ModelFolder) -> bool:
    """Whether a folder says that it holds a reranker or a classifier whose head can be read.

    A cross-encoder of sentence-transformers has a modules.json with the transformer alone.
    """
    config = folder.config
    if folder.kinds is not None and not (
        folder.kinds == ("Transformer",) and folder.settings.get("model_type") == "CrossEncoder"
    ):
        return False
    said = config.get("architectures")
    names = [str(each) for each in said] if isinstance(said, list) else []
    return any(name.endswith(CLASS) for name in names) and config.get("model_type") in FAMILIES


def read_head(folder: ModelFolder, weights: Path, name: str) -> VectorReading:
    """Raises ``UnsupportedModelError`` for a classifier without labels or a setting that bundles do not have, ``ModelError``
    for what the weights lack.
    """
    config, tensors = folder.config, folder.tensors(weights)
    layer, mode, dense = _layers(config, weights, tensors)
    count = tensors.tensors[f"{layer}.weight"].shape[0]
    labels = labels_of(config, name)
    if len(labels) != count:
        raise ModelError(
            f"config.json describes {len(labels)} labels, {tensors.path.name} has a head for {count}",
            hint="the two files are of different models",
        )
    said, files = _activation(folder)
    activation, warnings = _scores(said, folder, count)
    head = Head(
        task="rank" if count == 1 else "classes",
        labels=labels,
        activation=activation,
        file=weights,
        tensor=layer,
    )
    pooling = Pooling(mode=mode, dense=dense, normalize=False)
    return VectorReading(head=head, pooling=pooling, files=files, warnings=warnings)


def head_weights(head: Head, dimension: int) -> tuple[Array, Array]:
    """The layer's matrix, float32 [labels, dimension], and bias [labels]. Raises ``ModelError``."""
    if head.file.name == PICKLE:
        layer = linear_layer(head.file)
        return layer.weight.astype(np.float32), layer.bias.astype(np.float32)
    tensors = open_tensors(head.file)
    count = len(head.labels)
    return tensors.read(f"{head.tensor}.weight", (count, dimension)), tensors.read(
        f"{head.tensor}.bias", (count,)
    )


def _layers(
    config: Mapping[str, Any], weights: Path, tensors: TensorFile
) -> tuple[str, PoolingMode, tuple[Dense, ...]]:
    """The last layer's name, how tokens are pooled, and what is between the two: after transformers' modeling files."""
    kind = config["model_type"]
    width = size_of(config, "dim" if kind == "distilbert" else "hidden_size")

    def dense(tensor: str, activation: Any, *, bias: bool = True, norm: Norm | None = None) -> tuple[Dense]:
        inner = _named(tensors, tensor)
        layer = Dense(
            file=weights,
            inputs=width,
            outputs=width,
            bias=bias,
            activation=activation,
            tensor=inner,
            norm=norm,
        )
        return (layer,)

    if kind == "deberta-v2":
        said = str(config.get("pooler_hidden_act", "gelu"))
        if said.title() not in _POOLER_ACTIVATIONS:
            raise UnsupportedModelError(
                f"config.json: pooler_hidden_act {said!r} is not supported",
                hint=f"edgepack writes DeBERTa's heads with {', '.join(_POOLER_ACTIVATIONS).lower()}",
            )
        return _named(tensors, "classifier"), "cls", dense("pooler.dense", said.title())
    if kind in POOLERS:
        return _named(tensors, "classifier"), "cls", dense(*POOLERS[kind])
    if kind == "modernbert":
        if config.get("classifier_activation", "gelu") != "gelu":
            raise UnsupportedModelError(
                f"config.json: classifier_activation {config['classifier_activation']!r} is not supported",
                hint="edgepack writes ModernBERT's heads with gelu",
            )
        epsilon, bias = number_of(config, "norm_eps", 1e-5), bool(config.get("norm_bias"))
        norm = Norm(tensor=_named(tensors, "head.norm"), epsilon=epsilon, bias=bias)
        mode: PoolingMode = "mean" if config.get("classifier_pooling") == "mean" else "cls"
        inner = dense("head.dense", "Gelu", bias=bool(config.get("classifier_bias")), norm=norm)
        return _named(tensors, "classifier"), mode, inner
    return _named(tensors, "classifier.out_proj"), "cls", dense("classifier.dense", "Tanh")


def _named(tensors: TensorFile, layer: str) -> str:
    """The layer as the weights name it, which may put the model's name before. Raises ``ModelError``."""
    ending = f"{layer}.weight"
    found = [name for name in tensors.tensors if name == ending or name.endswith(f".{ending}")]
    if len(found) != 1:
        raise ModelError(
            f"{tensors.path.name} has no {ending}, which the head of its architecture has",
            hint="config.json and weights are of different models, or the head was not saved",
        )
    return found[0].removesuffix(".weight")


def labels_of(config: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Names of the scores. Raises ``UnsupportedModelError`` for a classifier whose labels nothing names."""
    named = config.get("id2label")
    table = {str(key): str(label) for key, label in named.items()} if isinstance(named, dict) else {}
    # transformers writes nothing where there are two that nobody has named.
    said = config.get("num_labels", len(table) or 2)
    count = said if isinstance(said, int) else 0
    if count == 1:
        return ("score",)
    labels = tuple(table.get(str(at), "") for at in range(min(count, len(table))))
    if not labels or not all(labels) or len(set(labels)) != count:
        raise UnsupportedModelError(
            f"{name} is a classifier of {count} labels, and config.json does not name them",
            hint='add "id2label": {"0": "NAME", "1": "NAME", …} to config.json',
        )
    return labels


def _activation(folder: ModelFolder) -> tuple[Activation | None, tuple[str, ...]]:
    """Activation that sentence-transformers' settings name, old and new, and the files that name it. Raises ``UnsupportedModelError``."""
    config = folder.config
    inside = config.get("sentence_transformers")
    older = inside.get("activation_fn") if isinstance(inside, dict) else None
    newer = folder.settings.get("activation_fn")
    said = newer or older or config.get("sbert_ce_default_activation_function")
    if said is None:
        return None, ()
    if not isinstance(said, str) or said not in _ACTIVATIONS:
        raise UnsupportedModelError(
            f"the model's scores are activated by {str(said)[:200]}, which bundles do not support",
            hint=f"edgepack knows {', '.join(each.rpartition('.')[2] for each in _ACTIVATIONS)}",
        )
    names = [SETTINGS] * bool(newer) + [folder.transformer_file]
    return _ACTIVATIONS[said], tuple(name for name in names if folder.has(name))


def _scores(said: Activation | None, folder: ModelFolder, count: int) -> tuple[Activation, tuple[str, ...]]:
    """The model's own activation; without it, that of CrossEncoder in what sentence-transformers saved, and of transformers' pipeline
    otherwise, with a warning where the two differ of one score. Raises ``ModelError``.
    """
    if said is not None:
        return said, ()
    if folder.modules is not None or "sentence_transformers" in folder.config:
        return ("sigmoid" if count == 1 else "identity"), ()
    problem = folder.config.get("problem_type")
    if problem is not None and problem not in _PROBLEMS:
        raise ModelError(
            f"config.json: problem_type is {str(problem)[:60]!r}, expected one of {', '.join(_PROBLEMS)}",
            hint=EDITED,
        )
    if problem == "regression":
        other = "scores are the numbers themselves, as transformers' pipeline gives them of a regression; CrossEncoder gives their sigmoid"
        return "identity", (other,) * (count == 1)
    return ("softmax" if count > 1 and problem != "multi_label_classification" else "sigmoid"), ()
