"""A quantized ONNX graph as a plan: each operator that edgepack's recipes write for an encoder, and nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from edgepack.api import UnsupportedModelError
from edgepack.quantization.int8 import quantized_columns
from edgepack_engine.attention import (
    Kinds,
    Projection,
    attended,
    head_places,
    require_distances,
    require_size,
)
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
    Pooled,
    Step,
    in_front,
    packed,
    rounded,
    shared_buffers,
)
from edgepack_engine.pooling import (
    COMBINED,
    SHARES,
    Altered,
    altered,
    at_unit_length,
    axes_of,
    pooling_of,
    without_padding,
)
from edgepack_engine.tables import Table, tables_of

SIGNED, UNSIGNED = (1 / 127, 128), (1 / 255, 0)
"""Step and zero point of what ``int8-dynamic`` quantizes by token."""
NORMS = (
    "LayerNormalization",
    "SkipLayerNormalization",
    "SimplifiedLayerNormalization",
    "SkipSimplifiedLayerNormalization",
)
ACTIVATIONS = {"BiasGelu": Activation.GELU, "Gelu": Activation.GELU, "FastGelu": Activation.GELU_TANH}
VECTOR, TOKENS = "sentence_embedding", "token_embeddings"
"""A graph's outputs: a text's, and what each token has."""
AT_ONCE = 4096
"""Columns of a product that are pooled before the next are made: a text's number for each token of a vocabulary needs no more room."""


def lower(model: onnx.ModelProto, *, longest: int, in_floats: bool = False) -> Plan:
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
    given = lowering.give(TOKENS) if any(each.name == TOKENS for each in model.graph.output) else 0
    vector, dimension = lowering.vector(VECTOR)
    plan = Plan(
        steps=tuple(lowering.steps),
        pooled=(*lowering.pooling, *lowering.behind),
        vector=vector,
        dimension=dimension,
        longest=longest,
        given=given,
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


@dataclass(frozen=True, kw_only=True)
class _Columns:
    """Matrices side by side, as the kernels read them."""

    width: int
    places: tuple[Array, ...]
    """Where the columns of each lie."""
    tensors: tuple[Array, ...] = ()
    """Packed weights, their sums, their scales."""

    @property
    def of_buffer(self) -> Array | None:
        """Places of the numbers of all."""
        whole = np.concatenate(self.places)
        return None if len(whole) == self.width else whole


@dataclass(kw_only=True)
class _Lowering:
    """Steps as they are written, and the buffers of the values that they have made."""

    graph: Graph
    longest: int
    in_floats: bool
    steps: list[Step] = field(default_factory=list)
    pooling: list[Step] = field(default_factory=list)
    """Of a text's tokens, as they are pooled."""
    behind: list[Step] = field(default_factory=list)
    """Of what was pooled."""
    texts: set[Buffer] = field(default_factory=set)
    """Those that have a row for a text."""
    floats: dict[str, Buffer] = field(default_factory=dict)
    quantized: dict[str, Buffer] = field(default_factory=dict)
    norms: dict[str, Step] = field(default_factory=dict)
    """By the value that a normalisation makes."""
    packed: dict[tuple[Any, ...], tuple[Array, ...]] = field(default_factory=dict)
    """Weights of a product by their names, and where they lie: packed, their sums, their scales."""

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
            bias = self.graph.constant(node.input[1])
            if bias is not None and bias.size > 1:
                return self._product(
                    [self._matrix(node.input[0])], [self.graph.vector(node.input[1])], Activation.LINEAR
                )
        if self._is_gate(node):
            return self._gated(node)
        if (tokens := without_padding(self.graph, name)) != name:
            return self.value(tokens)
        if (tables := tables_of(self.graph, name)) is not None:
            return self._sum(tables)
        return self._pooled(node, name) or self._of_numbers(node, name)

    def _add(self, operation: Operation, *outputs: Buffer, **rest: Any) -> Buffer:
        rest.setdefault("tensors", [])
        step = Step(operation=operation, outputs=list(outputs), **rest)
        if any(each in self.texts for each in step.inputs if isinstance(each, Buffer)):
            self.texts.update(outputs)
            self.behind.append(step)
        else:
            self.steps.append(step)
        return outputs[0]

    def _sum(self, tables: Sequence[Table]) -> Buffer:
        """Rows of tables, added up."""
        count = tables[0].numbers.shape[1]
        width = rounded(count, WIDTH)
        output = Buffer(width=width, places=in_front(count, width))
        for number, table in enumerate(tables):
            self._add(
                Operation.LOOKUP,
                output,
                flags=Flag.ACCUMULATED if number else Flag.NONE,
                inputs=(int(table.by),),
                sizes=(width, len(table.numbers), table.first, table.padding),
                tensors=[output.spread(table.numbers), table.scales],
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
        output = replace(source)
        tensors = [self.graph.vector(each) for each in (bias, weight, shift)]
        self._add(
            Operation.NORM,
            output,
            flags=Flag.WITHOUT_MEAN if simple else Flag.NONE,
            inputs=(source, skip),
            sizes=(source.width, source.counted),
            numbers=(attribute(node, "epsilon", 1e-5),),
            tensors=[*(None if each is None else source.spread(each) for each in tensors), None],
        )
        step = (self.behind if output in self.texts else self.steps)[-1]
        step.outputs += [None, None]
        self.norms[node.output[0]] = step
        if len(node.output) > 3 and node.output[3]:
            step.outputs[2] = self.floats[node.output[3]] = replace(source)
            self.floats[node.output[0]] = output
            if output in self.texts:
                self.texts.add(self.floats[node.output[3]])
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
            buffer, output = self._attention(source)
        else:
            buffer = self.value(source)
            output = replace(buffer, bytes=1)
        width = output.width
        smoothing = None if smoothing is None else output.spread(smoothing)
        norm = self.norms.get(source)
        if norm is not None and not unsigned and norm.outputs[1] is None:
            norm.outputs[1] = output
            norm.tensors[3] = smoothing
            if buffer in self.texts:
                self.texts.add(output)
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
        self,
        matrices: Sequence[_Matrix],
        biases: Sequence[Array | None],
        activation: Activation,
        columns: Sequence[Array] = (),
    ) -> Buffer:
        """Products of the same bytes side by side; ``columns`` are where those of each matrix lie, unless they lie one behind the other."""
        if len({each.source for each in matrices}) != 1:
            raise UnsupportedModelError(
                "products that belong together are made of different values", hint=HINT
            )
        source = self._bytes_of(matrices[0].source)
        made = self._columns(matrices, source, columns)
        none = [np.zeros(each.weights.shape[1], "<f4") for each in matrices]
        bias = [zero if given is None else given for given, zero in zip(biases, none, strict=True)]
        return self._multiplied(source, made, self._beside(bias, made), activation, matrices[0].zero)

    def _multiplied(
        self, source: Buffer, made: _Columns, bias: Array, activation: Activation, zero: int
    ) -> Buffer:
        return self._add(
            Operation.PRODUCT,
            Buffer(width=made.width, places=made.of_buffer),
            inputs=(source,),
            sizes=(source.width, made.width, int(activation), zero),
            tensors=[*made.tensors, bias],
        )

    @staticmethod
    def _beside(parts: Sequence[Array], made: _Columns) -> Array:
        """Numbers of columns where those lie."""
        whole = np.zeros(made.width, "<f4")
        for part, places in zip(parts, made.places, strict=True):
            whole[places] = part
        return whole

    def _columns(
        self, matrices: Sequence[_Matrix], source: Buffer, columns: Sequence[Array] = ()
    ) -> _Columns:
        """The matrices as the kernels read them, in as many rows as the source is wide."""
        counts = [each.weights.shape[1] for each in matrices]
        if not columns:
            columns = np.split(np.arange(sum(counts)), np.cumsum(counts)[:-1])
        last = np.concatenate(columns)
        made = _Columns(width=rounded(int(last.max()) + 1, WIDTH), places=tuple(columns))
        # Layers may share weights, as ALBERT's do.
        names = (*(each.name for each in matrices), source.width, last.tobytes())
        if names in self.packed:
            return replace(made, tensors=self.packed[names])
        rows = np.arange(source.width) if source.places is None else source.places
        if source.width > MOST_DEPTH:
            raise UnsupportedModelError(
                f"a product of {len(rows):,} numbers could exceed 32 bits: at most {MOST_DEPTH:,} are added up",
                hint=HINT,
            )
        weights = np.zeros((source.width, made.width), np.int8)
        for each, places in zip(matrices, columns, strict=True):
            weights[np.ix_(rows, places)] = each.weights
        pairs = np.abs(weights.astype(np.int16)).reshape(source.width // 2, 2, made.width).sum(axis=1)
        if (widest := int(pairs.max())) > WIDEST_PAIR:
            raise UnsupportedModelError(
                f"two neighbouring weights are {widest} together, above {WIDEST_PAIR}",
                hint="--recipe int8 keeps them below",
            )
        self.packed[names] = (
            packed(weights),
            weights.sum(axis=0, dtype="<i4"),
            self._beside([each.scales for each in matrices], made),
        )
        return replace(made, tensors=self.packed[names])

    def _activated(self, node: onnx.NodeProto) -> Buffer:
        """A product, its bias, and an activation."""
        name, bias = inputs_of(node, 2)[:2]
        added = self.graph.maker(name, "Add")
        if added is not None and not bias and self._is_product(added.input[0]):
            name, bias = added.input
        if self._is_product(name):
            return self._product([self._matrix(name)], [self.graph.vector(bias)], ACTIVATIONS[node.op_type])
        return self._of_numbers(node, node.output[0])

    def _is_gate(self, node: onnx.NodeProto) -> bool:
        """Whether a value is one product, activated, times another (https://arxiv.org/abs/2002.05202)."""
        graph = self.graph
        gate = graph.maker(node.input[0], "Mul", *ACTIVATIONS) if node.op_type == "Mul" else None
        if gate is None or not self._is_product(node.input[1]) or not self._is_product(gate.input[0]):
            return False
        sigmoid = graph.maker(gate.input[1], "Sigmoid") if gate.op_type == "Mul" else None
        return gate.op_type != "Mul" or (sigmoid is not None and sigmoid.input[0] == gate.input[0])

    def _gated(self, node: onnx.NodeProto) -> Buffer:
        graph = self.graph
        gate = graph.need(node.input[0])
        activation = ACTIVATIONS.get(gate.op_type, Activation.SILU)
        bias = graph.vector(inputs_of(gate, 2)[1]) if activation != Activation.SILU else None
        matrices = [self._matrix(gate.input[0]), self._matrix(node.input[1])]
        count = matrices[0].weights.shape[1]
        width = rounded(count, WIDTH // 2)
        columns = [np.arange(count), width + np.arange(count)]
        both = self._product(matrices, [bias, None], Activation.LINEAR, columns)
        output = Buffer(width=width, places=in_front(count, width))
        return self._add(Operation.GATE, output, inputs=(both,), sizes=(width, int(activation)))

    # --- what is pooled, and functions of numbers

    def vector(self, name: str) -> tuple[Buffer, int]:
        """A text's vector, and how many of its first numbers are given."""
        node = self.graph.need(name)
        if node.op_type == "Slice":
            buffer = self.value(node.input[0])
            ends = self.graph.constant(node.input[2])
            assert ends is not None
            return buffer, min(int(ends.item()), buffer.counted)
        buffer = self.value(name)
        if buffer not in self.texts or not _lies_in_front(buffer):
            raise self.graph.no_step(name)
        return buffer, buffer.counted

    def give(self, name: str) -> int:
        """Steps that give what each token has; how many numbers that are."""
        node = self.graph.need(name)
        place = 0
        for each in node.input if node.op_type == "Concat" else [name]:
            buffer = self.value(each)
            self.steps.append(
                Step(
                    operation=Operation.GIVE,
                    inputs=(buffer,),
                    outputs=[],
                    sizes=(buffer.counted, place),
                    tensors=[],
                )
            )
            place += buffer.counted
        return place

    def _pooled(self, node: onnx.NodeProto, name: str) -> Buffer | None:
        """Tokens' vectors as one, or several such side by side; none for another value."""
        graph = self.graph
        parts = [graph.need(each) for each in node.input] if node.op_type == "Concat" else [node]
        found = [pooling_of(graph, each) for each in parts]
        if None in found:
            return self._of_vocabulary(node)
        sources = [(mode, self.value(of)) for mode, of in filter(None, found)]
        count = sum(source.counted for _, source in sources)
        output = self._text(count)
        place = 0
        for mode, source in sources:
            self._pool(mode, source, output, place)
            place += source.counted
        return output

    def _text(self, count: int) -> Buffer:
        width = rounded(count, WIDTH)
        made = Buffer(width=width, places=in_front(count, width))
        self.texts.add(made)
        return made

    def _pool(self, mode: Pooled, source: Buffer, output: Buffer, place: int) -> None:
        if source in self.texts or not _lies_in_front(source):
            raise UnsupportedModelError("the engine pools vectors of tokens alone", hint=HINT)
        self.pooling.append(
            Step(
                operation=Operation.POOL,
                inputs=(source,),
                outputs=[output],
                sizes=(int(mode), source.counted, place),
                tensors=[],
            )
        )

    def _of_vocabulary(self, node: onnx.NodeProto) -> Buffer | None:
        """The largest, or the sum, of a number that each token has for each token of the vocabulary (SPLADE); none for another value.

        Some columns after the other are made and pooled.
        """
        graph = self.graph
        mode = {"ReduceMax": Pooled.LARGEST, "ReduceSum": Pooled.SUM}.get(node.op_type)
        if mode is None or axes_of(graph, node) != [1]:
            return None
        # What is done to the numbers of each token before they are added up.
        name, functions = node.input[0], []
        while (found := altered(graph, graph.need(name))) is not None:
            functions.append(found)
            name = found.source
        name = without_padding(graph, name)
        biased = graph.need(name, "Add")
        matrix, bias = self._matrix(biased.input[0]), graph.vector(biased.input[1])
        assert bias is not None
        source = self._bytes_of(matrix.source)
        output = self._text(len(bias))
        for first in range(0, len(bias), AT_ONCE):
            some = slice(first, first + AT_ONCE)
            part = replace(
                matrix,
                name=f"{matrix.name}.{first}",
                weights=matrix.weights[:, some],
                scales=matrix.scales[some],
            )
            before = len(self.steps)
            made = self._columns([part], source)
            numbers = self._multiplied(
                source, made, self._beside([bias[some]], made), Activation.LINEAR, matrix.zero
            )
            for each in reversed(functions):
                numbers = self._alter(each, numbers)
            self.pooling += self.steps[before:]
            del self.steps[before:]
            self._pool(mode, numbers, output, first)
        return output

    def _alter(self, how: Altered, source: Buffer) -> Buffer:
        if not _lies_in_front(source):
            raise UnsupportedModelError("the engine has no function of heads' numbers", hint=HINT)
        return self._add(
            Operation.ALTER,
            replace(source),
            inputs=(source,),
            sizes=(source.counted, int(how.function)),
            numbers=how.parameters,
        )

    def _of_numbers(self, node: onnx.NodeProto, name: str) -> Buffer:
        """A value of which each number is a function of one or two others, or of those of its row."""
        if node.op_type == "Identity":
            return self.value(node.input[0])
        if at_unit_length(self.graph, node):
            source = self.value(node.input[0])
            return self._add(Operation.UNIT, replace(source), inputs=(source,), sizes=(source.width,))
        if (found := altered(self.graph, node)) is not None:
            return self._alter(found, self.value(found.source))
        if node.op_type in SHARES:
            source = self.value(node.input[0])
            return self._add(
                Operation.SHARES,
                replace(source),
                inputs=(source,),
                sizes=(source.counted, SHARES[node.op_type]),
            )
        if node.op_type not in COMBINED:
            raise self.graph.no_step(name)
        one, other = (self.value(each) for each in node.input)
        if one.width != other.width or (one in self.texts) != (other in self.texts):
            raise self.graph.no_step(name)
        return self._add(
            Operation.COMBINE,
            replace(one),
            inputs=(one, other),
            sizes=(one.counted, int(COMBINED[node.op_type])),
        )

    # --- attention

    def _attention(self, name: str) -> tuple[Buffer, Buffer]:
        """Query, key and value in one buffer, what is done to them there, and the attention: the buffer, and one for its result as bytes.

        The result lies where the queries were, which saves long texts a buffer. Heads lie at multiples of whole vectors.
        """
        found = attended(self.graph, self.graph.need(name, "MultiHeadAttention"))
        parts = (found.query, found.key, found.value)
        matrices = [self._matrix(each.product) for each in parts]
        counts = [each.weights.shape[1] for each in matrices]
        size = counts[0] // found.heads
        wide = rounded(size, PANEL)
        require_size(size)
        require_distances(found.reach, self.longest)
        heads = [count // size for count in counts]
        if heads[1] != heads[2] or heads[0] != heads[1] * found.key.repeats or found.query.repeats != 1:
            raise UnsupportedModelError(f"{heads[0]} heads cannot share {heads[1]}", hint=HINT)
        begins = (0, heads[0] * wide, (heads[0] + heads[1]) * wide)
        columns = [
            begin + head_places(count, size, wide, turned=found.turned and part is not found.value)
            for part, begin, count in zip(parts, begins, heads, strict=True)
        ]
        made = self._product(matrices, [each.bias for each in parts], Activation.LINEAR, columns)
        apart, kinds = found.reach.distances, found.reach.kinds
        for part, place, count in zip(parts, begins, heads, strict=True):
            self._prepared(made, part, place, count, size, turned=found.turned and part is not found.value)
        tables = [
            self._by_kinds(made, kinds, table, begin, heads[0], size)
            for table, begin in zip(_tables(kinds), begins, strict=False)
        ]
        width = max((each.width for each in tables if each is not None), default=0)
        within = None if kinds is None else kinds.within(self.longest)
        added = within if apart is None else apart
        self._add(
            Operation.ATTENTION,
            made,
            flags=(Flag.CAUSAL if found.reach.causal else Flag.NONE)
            | (Flag.IN_FLOATS if self.in_floats else Flag.NONE),
            inputs=(made, *tables),
            sizes=(
                heads[0],
                heads[1],
                wide,
                begins[1],
                begins[2],
                found.reach.radius,
                0 if added is None else added.shape[-1],
                width // heads[0],
            ),
            numbers=(found.scale or size**-0.5,),
            tensors=[apart, within],
        )
        places = head_places(heads[0], size, wide, turned=False)
        width = heads[0] * wide
        return made, Buffer(width=width, bytes=1, places=None if size == wide else places)

    def _by_kinds(
        self, buffer: Buffer, kinds: Kinds | None, table: Array | None, begin: int, heads: int, size: int
    ) -> Buffer | None:
        """A number of each head for each kind of distance: the heads as bytes, each times its part of the table."""
        if kinds is None or table is None:
            return None
        wide, width = rounded(size, PANEL), rounded(len(table), WIDTH)
        made = Buffer(width=heads * width)
        for head in range(heads):
            bytes = Buffer(width=wide, bytes=1)
            self._add(
                Operation.QUANTIZE,
                bytes,
                inputs=(buffer,),
                sizes=(wide, begin + head * wide),
                numbers=(0.0,),
                tensors=[None],
            )
            values, scales = quantized_columns(table[:, head * size : (head + 1) * size].T, "paired")
            weights = np.pad(values, ((0, wide - size), (0, width - len(table))))
            factors = np.pad(scales * np.float32(SIGNED[0] * kinds.scale), (0, width - len(table)))
            self._add(
                Operation.PRODUCT,
                made,
                inputs=(bytes,),
                sizes=(wide, width, int(Activation.LINEAR), SIGNED[1], head * width),
                tensors=[
                    packed(weights),
                    weights.sum(axis=0, dtype="<i4"),
                    factors.astype("<f4"),
                    np.zeros(width, "<f4"),
                ],
            )
        return made

    def _prepared(
        self, buffer: Buffer, part: Projection, place: int, heads: int, size: int, *, turned: bool
    ) -> None:
        """Heads normalised and rotated, where they are."""
        wide = rounded(size, PANEL)
        if part.norm is not None:
            weight = np.zeros(wide, "<f4")
            weight[head_places(1, size, wide, turned=turned)] = part.norm
            self._add(
                Operation.NORM_HEADS,
                buffer,
                inputs=(buffer,),
                sizes=(place, heads, wide, size),
                numbers=(part.epsilon,),
                tensors=[weight],
            )
        if part.frequencies is not None:
            frequencies = np.zeros(wide // 2, "<f4")
            frequencies[: size // 2] = part.frequencies
            self._add(
                Operation.ROTATE,
                buffer,
                inputs=(buffer,),
                sizes=(place, heads, wide),
                tensors=[frequencies],
            )


def _tables(kinds: Kinds | None) -> tuple[Array | None, Array | None]:
    """Tables of queries, and of keys."""
    return (None, None) if kinds is None else (kinds.by_query, kinds.by_key)


def _lies_in_front(buffer: Buffer) -> bool:
    """Whether what does not count lies behind all that does."""
    return buffer.places is None or bool((buffer.places == np.arange(len(buffer.places))).all())
