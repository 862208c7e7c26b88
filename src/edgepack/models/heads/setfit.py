"""SetFit models: a sentence encoder whose vectors a linear classifier takes, of scikit-learn or its own (https://arxiv.org/abs/2209.11055)."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.heads.estimator import (
    LINEAR,
    LOGISTIC,
    MULTI_OUTPUT,
    ONE_VS_REST,
    SETFIT,
    Estimator,
    array_of,
    read_estimator,
)
from edgepack.models.read.model_folder import ModelFolder
from edgepack.models.read.pooling import VectorReading
from edgepack.records.model import Activation, Head

PICKLE, CONFIG = "model_head.pkl", "config_setfit.json"
_OTHER = "the two are of different models, or the head was saved before it was trained"


@dataclass(frozen=True, kw_only=True)
class LinearLayer:
    weight: np.ndarray
    """float64 [labels, dimension]."""
    bias: np.ndarray
    classes: tuple[Any, ...]
    """What the labels were when it was trained: numbers or names."""
    activation: Activation


def is_setfit(folder: ModelFolder) -> bool:
    """Whether a folder holds a classifier behind its encoder."""
    return folder.has(PICKLE)


def with_setfit(encoder: VectorReading, folder: ModelFolder, dimension: int, name: str) -> VectorReading:
    """The encoder's own vectors, of length 1 where the classifier was trained on such, and the classifier behind them.

    ``dimension`` is that of a token's vector. Raises ``ModelError`` and ``UnsupportedModelError``.
    """
    dimension = encoder.pooling.dimension(dimension)
    config = folder.optional(CONFIG)
    layer = linear_layer(folder.directory / PICKLE)
    if layer.weight.shape[1] != dimension:
        raise ModelError(
            f"{PICKLE} takes vectors of {layer.weight.shape[1]} numbers, the encoder's have {dimension}",
            hint=_OTHER,
        )
    head = Head(
        task="classes",
        labels=_labels(layer, config.get("labels"), name),
        activation=layer.activation,
        file=folder.directory / PICKLE,
        tensor="",
    )
    files = (PICKLE, *([CONFIG] if config else []))
    normalize = encoder.pooling.normalize or bool(config.get("normalize_embeddings"))
    pooling = replace(encoder.pooling, normalize=normalize)
    return replace(encoder, pooling=pooling, files=(*encoder.files, *files), head=head)


def linear_layer(path: Path) -> LinearLayer:
    """Linear layer that a pickled classifier computes. Raises ``ModelError`` and ``UnsupportedModelError``."""
    made = read_estimator(path)
    try:
        layer = _LAYERS[made.kind](made)
        rows, width = layer.weight.shape
        if rows < 2 or layer.bias.shape != (rows,) or len(layer.classes) != rows or not width:
            raise ValueError("another shape")
        if not (np.isfinite(layer.weight).all() and np.isfinite(layer.bias).all()):
            raise ValueError("numbers that are not finite")
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise ModelError(f"{path.name} holds no trained {made.kind}: {error}", hint=_OTHER) from error
    return layer


def _logistic(made: Estimator) -> LinearLayer:
    """scikit-learn's probabilities: softmax over labels; of two, one row's sigmoid. Once also one-vs-rest."""
    weight, bias = _numbers(made.get("coef_"), 2), _numbers(made.get("intercept_"), 1)
    bias = np.broadcast_to(bias, len(weight)) if bias.size == 1 else bias
    classes = tuple(array_of(made.get("classes_")).tolist())
    strategy = _optional(made, "multi_class", "auto")
    if len(weight) == 1:
        # The sigmoid of x is the softmax of 0 and x; that of two labels "multinomial" in older releases, of -x and x.
        least = -1.0 if strategy == "multinomial" else 0.0
        weight, bias = np.concatenate([least * weight, weight]), np.concatenate([least * bias, bias])
        return LinearLayer(weight=weight, bias=bias, classes=classes, activation="softmax")
    apart = strategy == "ovr" or _optional(made, "solver", "") == "liblinear"
    return LinearLayer(
        weight=weight, bias=bias, classes=classes, activation="one-vs-rest" if apart else "softmax"
    )


def _one_vs_rest(made: Estimator) -> LinearLayer:
    """A classifier for each label; for one text only one of them holds, unless the labels were sets."""
    found = [_single(each) for each in made.get("estimators_")]
    binarizer = made.get("label_binarizer_")
    several = str(binarizer.get("y_type_")).startswith("multilabel")
    classes = tuple(array_of(binarizer.get("classes_")).tolist())
    if len(found) == 1 and not several:
        weight, bias = (np.stack([np.zeros_like(each), each]) for each in found[0])
        return LinearLayer(weight=weight, bias=bias, classes=classes, activation="softmax")
    return _joined(found, classes, "sigmoid" if several else "one-vs-rest")


def _multi_output(made: Estimator) -> LinearLayer:
    """A classifier for each label, which are apart from each other."""
    found = [_single(each) for each in made.get("estimators_")]
    return _joined(found, tuple(range(len(found))), "sigmoid")


def _own(made: Estimator) -> LinearLayer:
    """SetFit's own, of PyTorch: a linear layer, divided by a temperature."""
    linear = made.get("_modules")["linear"]
    if not isinstance(linear, Estimator) or linear.kind != LINEAR:
        raise ValueError("no linear layer")
    numbers = linear.get("_parameters")
    weight = _numbers(numbers["weight"], 2)
    bias = np.zeros(len(weight)) if numbers["bias"] is None else _numbers(numbers["bias"], 1)
    heat = float(made.get("temperature")) + float(made.get("eps"))
    activation: Activation = "sigmoid" if made.get("multitarget") is True else "softmax"
    return LinearLayer(
        weight=weight / heat, bias=bias / heat, classes=tuple(range(len(weight))), activation=activation
    )


def _joined(
    found: list[tuple[np.ndarray, np.ndarray]], classes: tuple[Any, ...], activation: Activation
) -> LinearLayer:
    return LinearLayer(
        weight=np.stack([weight for weight, _ in found]),
        bias=np.stack([bias for _, bias in found]),
        classes=classes,
        activation=activation,
    )


def _single(made: Any) -> tuple[np.ndarray, np.ndarray]:
    """Row and bias of a classifier of yes and no. Raises ``ValueError``."""
    if not isinstance(made, Estimator) or made.kind != LOGISTIC:
        raise ValueError("a label without examples, or not by logistic regression")
    weight, bias = _numbers(made.get("coef_"), 2), _numbers(made.get("intercept_"), 1)
    if len(weight) != 1 or _optional(made, "multi_class", "auto") == "multinomial":
        raise ValueError("an inner classifier of several labels")
    return weight[0], bias[0]


_LAYERS = {LOGISTIC: _logistic, ONE_VS_REST: _one_vs_rest, MULTI_OUTPUT: _multi_output, SETFIT: _own}


def _numbers(value: Any, axes: int) -> np.ndarray:
    found = array_of(value)
    if found.dtype.kind != "f" or found.ndim != axes:
        raise ValueError("no numbers where they belong")
    return found.astype(np.float64)


def _optional(made: Estimator, name: str, otherwise: str) -> Any:
    try:
        return made.get(name)
    except ValueError:
        return otherwise


def _labels(layer: LinearLayer, named: Any, name: str) -> tuple[str, ...]:
    """Names of the scores: config_setfit.json names the numbers that the classifier was trained on."""
    names = [str(each) for each in named] if isinstance(named, list) else []
    numbers = all(isinstance(each, int) and 0 <= each < len(names) for each in layer.classes)
    labels = tuple(names[each] if numbers else str(each) for each in layer.classes)
    if len(set(labels)) != len(labels) or not all(labels):
        raise UnsupportedModelError(
            f"{name} is a classifier of {len(labels)} labels, and two of them have one name, or none",
            hint=f'give each its own in {CONFIG}: "labels": ["NAME", "NAME", …]',
        )
    return labels
