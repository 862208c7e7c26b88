"""A quantized ONNX graph as a plan: each operator that edgepack's recipes write for an encoder, and nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from edgepack.api import UnsupportedModelError
from edgepack_engine.attention import Projection, attended, require_distances, require_size
from edgepack_engine.graph import HINT, Array, Graph, attribute, inputs_of, same
from edgepack_engine.plan import (
    MOST_BYTES,
    MOST_DEPTH,
    PANEL,
    WIDEST_PAIR,
    WIDTH,
    Activation,
    Buffer,
    Flag,
    Operation,
    Plan,
    Step,
    packed,
    shared_buffers,
)
from edgepack_engine.tables import tables_of

SIGNED, UNSIGNED = (1 / 127, 128), (1 / 255, 0)
"""Step and zero point of what ``int8-dynamic`` quantizes by token."""
NORMS = (
    "LayerNormalization",
    "SkipLayerNormalization",
    "SimplifiedLayerNormalization",
    "SkipSimplifiedLayerNormalization",
)
ACTIVATIONS = {"BiasGelu": Activation.GELU, "Gelu": Activation.GELU, "FastGelu": Activation.GELU_TANH}


def lower(
    model: onnx.ModelProto, *, pooling: str, normalize: bool, longest: int, in_floats: bool = False
) -> Plan:
    """The plan of a model that the recipe ``int8`` made, or one of its kin; with ``in_floats`` its attention is no product of bytes.

    Raises ``UnsupportedModelError`` naming the operator that has no step.
    """
    norms = [node for node in model.graph.node if node.op_type in NORMS]
    if not norms:
        raise UnsupportedModelError(
            "the model has no layer normalisation: it is no encoder that a plan can be made of",
            hint="--target linux-x86-static, on arm64 linux-arm64-static, for static embeddings; linux-x86-min takes other graphs",
        )
    lowering = _Lowering(graph=Graph(model.graph), longest=longest, in_floats=in_floats)
    vector = lowering.value(norms[-1].output[0])
    plan = Plan(
        steps=tuple(lowering.steps), vector=vector, pooling=pooling, normalize=normalize, longest=longest
    )
    if (size := sum(width * bytes for width, bytes, _ in shared_buffers(plan)[0])) > MOST_BYTES:
        raise UnsupportedModelError(
            f"a token needs {size:,} bytes of buffers, above {MOST_BYTES:,}", hint=HINT
        )
    return plan


@dataclass(frozen=True, kw_only=True)
class _Matrix:
    """A product of bytes and weights, before what adds and activates."""

    source: str
    """The bytes' value."""
    name: str
    """Of the weights."""
    weights: npt.NDArray[np.int8]
    scales: npt.NDArray[np.float32]
    zero: int


@dataclass(kw_only=True)
class _Lowering:
    """Steps as they are written, and the buffers of the values that they have made."""

    graph: Graph
    longest: int
    in_floats: bool
    steps: list[Step] = field(default_factory=list)
    floats: dict[str, Buffer] = field(default_factory=dict)
    quantized: dict[str, Buffer] = field(default_factory=dict)
    norms: dict[str, Step] = field(default_factory=dict)
    """By the value that a normalisation makes."""
    packed: dict[tuple[str, ...], tuple[Array, Array, Array]] = field(default_factory=dict)
    """Weights of a product by their names: packed, their sums, their scales."""

    def value(self, name: str) -> Buffer:
        """The buffer of a float value, and before it the steps that make it."""
        if name not in self.floats:
            made = self._make(self.graph.need(name), name)
            self.floats.setdefault(name, made)
        return self.floats[name]

    def _make(self, node: onnx.NodeProto, name: str) -> Buffer:
        if node.op_type in NORMS:
            return self._norm(node, name)
        if node.op_type in ACTIVATIONS:
            return self._activated(node)
        if self._is_product(name):
            return self._product([self._matrix(name)], [None], Activation.LINEAR)
        if node.op_type == "Add" and self._is_product(node.input[0]):
            return self._product(
                [self._matrix(node.input[0])], [self.graph.vector(node.input[1])], Activation.LINEAR
            )
        if node.op_type == "Mul" and not self.graph.maker(node.input[0], "Cast"):
            return self._gated(node)
        return self._sum(name)

    def _add(self, operation: Operation, *outputs: Buffer, **rest: Any) -> Buffer:
        rest.setdefault("tensors", [])
        self.steps.append(Step(operation=operation, outputs=list(outputs), **rest))
        return outputs[0]

    def _sum(self, name: str) -> Buffer:
        """Rows of tables, added up."""
        tables = tables_of(self.graph, name)
        width = tables[0].numbers.shape[1]
        output = Buffer(width=width)
        for number, table in enumerate(tables):
            self._add(
                Operation.LOOKUP,
                output,
                flags=Flag.ACCUMULATED if number else Flag.NONE,
                inputs=(int(table.by),),
                sizes=(width, len(table.numbers), table.first, table.padding),
                tensors=[table.numbers, table.scales],
            )
        return output

    def _norm(self, node: onnx.NodeProto, name: str) -> Buffer:
        """A normalisation, of a sum where it skips; what it quantizes is found later."""
        skipping, simple = node.op_type.startswith("Skip"), "Simplified" in node.op_type
        names = inputs_of(node, 5)
        source = self.value(names[0])
        skip = self.value(names[1]) if skipping else None
        weight, shift, bias = names[2:5] if skipping else (*names[1:3], "")
        if simple:
            shift, bias = "", shift if skipping else ""
        output = Buffer(width=source.width)
        self._add(
            Operation.NORM,
            output,
            flags=Flag.WITHOUT_MEAN if simple else Flag.NONE,
            inputs=(source, skip),
            sizes=(source.width,),
            numbers=(attribute(node, "epsilon", 1e-5),),
            tensors=[*map(self.graph.vector, (bias, weight, shift)), None],
        )
        step = self.steps[-1]
        step.outputs += [None, None]
        self.norms[node.output[0]] = step
        if len(node.output) > 3 and node.output[3]:
            step.outputs[2] = self.floats[node.output[3]] = Buffer(width=source.width)
            self.floats[node.output[0]] = output
        return self.floats.get(name, output)

    # --- products

    def _is_product(self, name: str) -> bool:
        """Whether a value is a product times the ranges of its tokens."""
        node = self.graph.maker(name, "Mul")
        return node is not None and self.graph.maker(node.input[0], "MatMulIntegerToFloat") is not None

    def _bytes_of(self, name: str) -> Buffer:
        """The buffer of a value that is quantized by token."""
        if name not in self.quantized:
            self.quantized[name] = self._quantized(name)
        return self.quantized[name]

    def _quantized(self, name: str) -> Buffer:
        graph = self.graph
        node = graph.need(name, "QuantizeLinear")
        step, zero = graph.number(node.input[1]), int(graph.number(node.input[2]))
        unsigned = zero == UNSIGNED[1]
        if not same(step, (UNSIGNED if unsigned else SIGNED)[0]) or (not unsigned and zero != SIGNED[1]):
            raise graph.no_step(name)
        source, smoothing, raised = graph.need(node.input[0], "Div").input[0], None, 0.0
        scaled = graph.maker(source, "Add" if unsigned else "Mul")
        constant = graph.constant(scaled.input[1]) if scaled is not None else None
        if scaled is not None and constant is not None and unsigned and constant.size == 1:
            source, raised = scaled.input[0], float(constant.item())
        elif scaled is not None and constant is not None and not unsigned:
            source, smoothing = scaled.input[0], constant.reshape(-1).astype("<f4")
        if self.graph.maker(source, "MultiHeadAttention"):
            buffer, width = self._attention(source)
        else:
            buffer = self.value(source)
            width = buffer.width
        output = Buffer(width=width, bytes=1)
        norm = self.norms.get(source)
        if norm is not None and not unsigned and norm.outputs[1] is None:
            norm.outputs[1] = output
            norm.tensors[3] = smoothing
            return output
        return self._add(
            Operation.QUANTIZE,
            output,
            flags=Flag.UNSIGNED if unsigned else Flag.NONE,
            inputs=(buffer,),
            sizes=(width,),
            numbers=(raised,),
            tensors=[smoothing],
        )

    def _matrix(self, name: str) -> _Matrix:
        """A product times the ranges of its tokens."""
        graph = self.graph
        node = graph.need(name, "Mul")
        product = graph.need(node.input[0], "MatMulIntegerToFloat")
        source, weights, step, scales, zero, zeros, *bias = inputs_of(product, 6)
        matrix, factors, columns = graph.constant(weights), graph.vector(scales), graph.constant(zeros)
        divided = graph.need(graph.need(source, "QuantizeLinear").input[0], "Div")
        if (
            matrix is None
            or factors is None
            or columns is None
            or columns.any()
            or any(bias)
            or divided.input[1] != node.input[1]
        ):
            raise graph.no_step(name)
        factors = np.broadcast_to(factors * np.float32(graph.number(step)), matrix.shape[1]).astype("<f4")
        return _Matrix(
            source=source, name=weights, weights=matrix, scales=factors, zero=int(graph.number(zero))
        )

    def _product(
        self, matrices: Sequence[_Matrix], biases: Sequence[Array | None], activation: Activation
    ) -> Buffer:
        """Products of the same bytes side by side."""
        if len({each.source for each in matrices}) != 1:
            raise UnsupportedModelError(
                "products that belong together are made of different values", hint=HINT
            )
        weights = np.concatenate([each.weights for each in matrices], axis=1)
        depth, width = weights.shape
        if width % WIDTH or depth % PANEL:
            raise UnsupportedModelError(
                f"a matrix of {depth} x {width} is no multiple of {PANEL} x {WIDTH}", hint=HINT
            )
        if depth > MOST_DEPTH:
            raise UnsupportedModelError(
                f"a product of {depth:,} numbers could exceed 32 bits: at most {MOST_DEPTH:,} are added up",
                hint=HINT,
            )
        pairs = np.abs(weights.astype(np.int16)).reshape(depth // 2, 2, width).sum(axis=1)
        if (widest := int(pairs.max())) > WIDEST_PAIR:
            raise UnsupportedModelError(
                f"two neighbouring weights are {widest} together, above {WIDEST_PAIR}",
                hint="--recipe int8 keeps them below",
            )
        source = self._bytes_of(matrices[0].source)
        # Layers may share weights, as ALBERT's do.
        names = tuple(each.name for each in matrices)
        if names not in self.packed:
            self.packed[names] = (
                packed(weights),
                weights.sum(axis=0, dtype="<i4"),
                np.concatenate([each.scales for each in matrices]),
            )
        none = [np.zeros(each.weights.shape[1], "<f4") for each in matrices]
        bias = [zero if given is None else given for given, zero in zip(biases, none, strict=True)]
        return self._add(
            Operation.PRODUCT,
            Buffer(width=width),
            inputs=(source,),
            sizes=(depth, width, int(activation), matrices[0].zero),
            tensors=[*self.packed[names], np.concatenate(bias)],
        )

    def _activated(self, node: onnx.NodeProto) -> Buffer:
        """A product, its bias, and an activation."""
        name, bias = inputs_of(node, 2)[:2]
        added = self.graph.maker(name, "Add")
        if added is not None and not bias:
            name, bias = added.input
        return self._product([self._matrix(name)], [self.graph.vector(bias)], ACTIVATIONS[node.op_type])

    def _gated(self, node: onnx.NodeProto) -> Buffer:
        """One product, activated, times another (https://arxiv.org/abs/2002.05202)."""
        graph = self.graph
        gate = graph.need(node.input[0], "Mul", *ACTIVATIONS)
        activation = ACTIVATIONS.get(gate.op_type, Activation.SILU)
        if activation == Activation.SILU and graph.need(gate.input[1], "Sigmoid").input[0] != gate.input[0]:
            raise graph.no_step(gate.output[0])
        bias = graph.vector(inputs_of(gate, 2)[1]) if activation != Activation.SILU else None
        matrices = [self._matrix(gate.input[0]), self._matrix(node.input[1])]
        both = self._product(matrices, [bias, None], Activation.LINEAR)
        output = Buffer(width=both.width // 2)
        return self._add(Operation.GATE, output, inputs=(both,), sizes=(output.width, int(activation)))

    # --- attention

    def _attention(self, name: str) -> tuple[Buffer, int]:
        """Query, key and value in one buffer, what is done to them there, and the attention: the buffer, and how wide its result is.

        That lies where the queries were, which saves long texts a buffer.
        """
        found = attended(self.graph, self.graph.need(name, "MultiHeadAttention"))
        parts = (found.query, found.key, found.value)
        matrices = [self._matrix(each.product) for each in parts]
        made = self._product(matrices, [each.bias for each in parts], Activation.LINEAR)
        widths = [each.weights.shape[1] for each in matrices]
        size = widths[0] // found.heads
        require_size(size)
        require_distances(found.reach, self.longest)
        heads = [width // size for width in widths]
        if heads[1] != heads[2] or heads[0] != heads[1] * found.key.repeats or found.query.repeats != 1:
            raise UnsupportedModelError(f"{heads[0]} heads cannot share {heads[1]}", hint=HINT)
        places = (0, widths[0], widths[0] + widths[1])
        apart = found.reach.distances
        for part, place, count in zip(parts, places, heads, strict=True):
            self._prepared(made, part, place, count, size)
        self._add(
            Operation.ATTENTION,
            made,
            flags=(Flag.CAUSAL if found.reach.causal else Flag.NONE)
            | (Flag.IN_FLOATS if self.in_floats else Flag.NONE),
            inputs=(made,),
            sizes=(
                heads[0],
                heads[1],
                size,
                places[1],
                places[2],
                found.reach.radius,
                0 if apart is None else apart.shape[1],
            ),
            numbers=(found.scale or size**-0.5,),
            tensors=[apart],
        )
        return made, widths[0]

    def _prepared(self, buffer: Buffer, part: Projection, place: int, heads: int, size: int) -> None:
        """Heads normalised and rotated, where they are."""
        if part.norm is not None:
            self._add(
                Operation.NORM_HEADS,
                buffer,
                inputs=(buffer,),
                sizes=(place, heads, size),
                numbers=(part.epsilon,),
                tensors=[part.norm],
            )
        if part.frequencies is not None:
            self._add(
                Operation.ROTATE,
                buffer,
                inputs=(buffer,),
                sizes=(place, heads, size),
                tensors=[part.frequencies],
            )
