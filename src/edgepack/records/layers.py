"""Layers of a model, between its tokens' vectors and a text's, and behind that."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

DenseActivation = Literal[
    "Tanh", "Relu", "Sigmoid", "Gelu", "CELU", "ELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "LogSigmoid",
    "LogSoftmax", "Mish", "ReLU6", "RReLU", "SELU", "SiLU", "Softmax", "Softmin", "Softplus", "Softshrink", "Softsign", "Tanhshrink",
]  # fmt: skip
"""torch.nn's, the first four by ONNX's names. PReLU, which has a weight of its own, is not among them."""


@dataclass(frozen=True, kw_only=True)
class Dense:
    """A linear layer behind the pooling: activation(vector · weightᵀ + bias)."""

    file: Path
    """Safetensors with ``linear.weight`` [outputs, inputs] and, with ``bias``, ``linear.bias`` [outputs]."""
    inputs: int
    outputs: int
    bias: bool
    activation: DenseActivation | None
    tensor: str = "linear"
    """What stands before ``.weight`` and ``.bias``."""
    norm: "Norm | None" = None
    """A layer normalisation behind the activation."""
    residual: bool = False
    """What came in is added, by ``residual.weight`` [outputs, inputs] where the lengths differ."""


@dataclass(frozen=True, kw_only=True)
class Norm:
    """A layer normalisation, in the file of the layer that it follows."""

    tensor: str
    """What stands before ``.weight`` and, with ``bias``, ``.bias``."""
    epsilon: float
    bias: bool


@dataclass(frozen=True, kw_only=True)
class LayerNorm:
    """A layer normalisation by itself."""

    file: Path
    """Safetensors with ``norm.weight`` and ``norm.bias`` [size]."""
    size: int


@dataclass(frozen=True, kw_only=True)
class Unit:
    """The vector at length 1, which others follow."""


@dataclass(frozen=True, kw_only=True)
class WeighedLayers:
    """Token vectors that are the mean of what several layers make, each with a weight (WeightedLayerPooling)."""

    file: Path
    """Safetensors with ``layer_weights`` [layers + 1 - first]."""
    first: int
    """The first layer that counts; 0 is what the first takes."""
    layers: int


Layer = Dense | LayerNorm | Unit
"""What turns one text's vector into another."""
