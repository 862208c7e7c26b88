"""A feed-forward part of experts (nomic-embed-text v2-moe): of each token, the few that its router chooses.

After ``NomicMoELayer`` of nomic-ai/nomic-bert-2048's code. An expert computes only the tokens that chose it: their rows are
gathered and its results are added to theirs. Weights of a token's experts are as the router's softmax has them, not made to add up to 1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from edgepack.api import ModelError, UnsupportedModelError
from edgepack.api.graphs import Encoder, GraphWriter, activate, size_of

FIXED: Mapping[str, tuple[Any, ...]] = {
    "expert_choice_router": (False, None),
    "ffn_div": (1, None),
    "moe_normalize_expert_weights": (False, None),
    "num_shared_experts": (0, None),
}
"""Settings of experts that are written one way only."""


@dataclass(frozen=True, kw_only=True)
class Experts:
    """Which layers have experts, how many, and how many of them a token chooses."""

    every: int
    count: int
    chosen: int

    def are_in(self, layer: int) -> bool:
        """The second of two layers, of three, …"""
        return layer % self.every == 1


def read_experts(config: Mapping[str, Any]) -> Experts | None:
    """Check what config.json says of experts; ``None`` where there are none. Raises ``ModelError`` or ``UnsupportedModelError``."""
    if not config.get("moe_every_n_layers"):
        return None
    for key, written in FIXED.items():
        if config.get(key) not in (*written, None):
            raise UnsupportedModelError(
                f"config.json: {key} is {config[key]!r}; edgepack supports NomicBert models with {written[0]!r}",
                hint="export the model to ONNX yourself and use the .onnx file",
            )
    experts = Experts(
        every=size_of(config, "moe_every_n_layers"),
        count=size_of(config, "num_experts"),
        chosen=size_of(config, "moe_top_k", 1),
    )
    if experts.every < 2 or experts.chosen > experts.count:
        raise ModelError(
            f"config.json: {experts.chosen} of {experts.count} experts in one of {experts.every} layers make no model",
            hint="get config.json again from where the weights come from",
        )
    return experts


def write_experts(encoder: Encoder, part: str, experts: Experts, hidden: str, first: str) -> str:
    """The part's output for [batch, sequence, hidden], of the same shape; ``first`` is ``first_row``."""
    writer, shape, tensors = encoder.writer, encoder.shape, encoder.tensors
    rows = writer.add("Reshape", f"{part}rows", hidden, writer.ints(-1, shape.hidden))
    shares = _shares(encoder, part, experts, rows)
    wide = (experts.count * shape.inner, shape.hidden)
    inner, outer = (
        np.split(tensors.read(f"{part}experts.mlp.{name}", *wide), experts.count) for name in ("w1", "w2")
    )
    bias = writer.weight(f"{part}experts.bias", tensors.read(f"{part}experts.bias", shape.hidden))
    summed = writer.add("Expand", f"{part}begun", bias, writer.add("Shape", f"{part}shape", rows))
    for number in range(experts.count):
        own = f"{part}experts.{number}."
        share = writer.add("Gather", f"{own}share", shares, writer.index(number), axis=1)
        # The first token goes to all experts, weighed by 0 where it did not choose them: no expert has nothing to do.
        marked = writer.add("NonZero", f"{own}marked", writer.add("Add", f"{own}chosen", share, first))
        places = writer.add("Squeeze", f"{own}places", marked, writer.ints(0))
        taken = writer.add("Gather", f"{own}tokens", rows, places)
        product = writer.add("MatMul", f"{own}w1.product", taken, writer.weight(f"{own}w1", inner[number].T))
        active = activate(writer, shape.activation, own, product)
        made = writer.add("MatMul", f"{own}w2.product", active, writer.weight(f"{own}w2", outer[number]))
        weighed = writer.add(
            "Unsqueeze", f"{own}weights", writer.add("Gather", f"{own}shares", share, places), writer.ints(1)
        )
        column = writer.add("Unsqueeze", f"{own}column", places, writer.ints(1))
        scaled = writer.add("Mul", f"{own}scaled", made, weighed)
        summed = writer.add("ScatterND", f"{own}added", summed, column, scaled, reduction="add")
    return writer.add("Reshape", f"{part}output", summed, writer.add("Shape", f"{part}sizes", hidden))


def _shares(encoder: Encoder, part: str, experts: Experts, rows: str) -> str:
    """Each expert's weight for each token, float32 [tokens, experts]; 0 where it was not chosen."""
    writer, shape = encoder.writer, encoder.shape
    name = f"{part}router.layer"
    router = encoder.tensors.read(f"{name}.weight", experts.count, shape.hidden)
    # No MatMul, which passes would quantize: which experts are chosen hangs on small differences.
    logits = writer.add("Gemm", f"{name}.product", rows, writer.weight(f"{name}.weight", router.T))
    shares = left = writer.add("Softmax", f"{name}.shares", logits, axis=-1)
    least = ""
    for number in range(experts.chosen):
        least = writer.add("ReduceMax", f"{name}.largest.{number}", left, axes=[-1], keepdims=1)
        below = writer.add("Less", f"{name}.below.{number}", left, least)
        left = writer.add("Where", f"{name}.left.{number}", below, left, writer.scalar("experts.none", -1.0))
    unchosen = writer.add("Less", f"{name}.unchosen", shares, least)
    return writer.add("Where", f"{name}.chosen", unchosen, writer.scalar("experts.zero", 0.0), shares)


def first_row(writer: GraphWriter) -> str:
    """float32 [batch · sequence]: 1 for the first token of all, 0 for others."""
    count = writer.add("Size", "experts.count", "input_ids")
    numbers = writer.add("Range", "experts.numbers", writer.index(0), count, writer.index(1))
    is_first = writer.add("Equal", "experts.is_first", numbers, writer.index(0))
    return writer.add("Cast", "experts.first", is_first, to=TensorProto.FLOAT)
