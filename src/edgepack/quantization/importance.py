"""How much the vectors mind an error of each weight: of matrices by what goes in and what comes out, of tables by column.

The Fisher information of a matrix, taken for the Kronecker product of a moment of its inputs and one of its outputs as in
https://arxiv.org/abs/1503.05671, over the gradients of whole texts as in https://arxiv.org/abs/2505.22988. GPTQ's Hessian
says what an error of a weight does to the matrix's own product; this says what it does to the vectors.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import onnx

from edgepack.models.graph.editor import edit
from edgepack.models.graph.sample_inputs import Feed
from edgepack.quantization.arrays import Doubles, Floats
from edgepack.quantization.embeddings import FEW_ROWS, is_embedding_lookup
from edgepack.quantization.gradients import differentiable, gradients, runs
from edgepack.quantization.layers import is_weight_matmul
from edgepack.records.recipe import Patterns

TEXTS_AT_ONCE = 32
SEED = 22
ROWS_AT_ONCE = 2048


@dataclass(frozen=True, kw_only=True)
class Importance:
    """Sums over texts, float64; their scale means nothing."""

    inputs: Mapping[str, Doubles]
    """Matrix → [inputs, inputs]."""
    outputs: Mapping[str, Doubles]
    """Matrix → [outputs, outputs]."""
    columns: Mapping[str, Doubles]
    """Table of many rows → [dimension, dimension], the same for all of its rows."""


def importance(
    model: onnx.ModelProto, feeds: Iterable[Feed], layers: Patterns, *, advance: Callable[[int], None]
) -> Importance:
    """Measure it on texts, each a feed of its own; ``advance`` is told how many are done. Raises ``UnsupportedModelError``."""
    editor = edit(model)
    nodes = editor.take_nodes()
    products = {
        node.input[1]: (node.input[0], node.output[0])
        for node in nodes
        if is_weight_matmul(editor, node, layers)
    }
    rows = {
        node.input[0]: node.output[0]
        for node in nodes
        if is_embedding_lookup(editor, node) and len(editor.array(node.input[0])) >= FEW_ROWS
    }
    made = differentiable(
        model,
        [*rows.values(), *(output for _, output in products.values())],
        beside=[source for source, _ in products.values()],
    )
    random = np.random.default_rng(SEED)
    inputs, outputs, columns = _Sums(), _Sums(), _Sums()
    for values in runs(made, _of_one_length(feeds)):
        vectors = values[made.output]
        # One random direction of every text's vector: more texts tell more than more directions of each.
        found = gradients(made, values, random.standard_normal(vectors.shape).astype(np.float32))
        for name, (source, output) in products.items():
            inputs.add(name, values[source], _alike(found[output]) @ values[source])
            outputs.add(name, found[output], _alike(values[source]) @ found[output])
        for table, output in rows.items():
            # A text's gradients fall as it has more tokens; every text counts the same.
            columns.add(table, found[output], found[output] * np.float32(found[output].shape[1]))
        advance(len(vectors))
    return Importance(inputs=inputs.whole(), outputs=outputs.whole(), columns=columns.whole())


def _alike(rows: Floats) -> Floats:
    """The products of each text's rows, [texts, tokens, tokens]."""
    products: Floats = rows @ rows.swapaxes(-1, -2)
    return products


@dataclass(frozen=True, kw_only=True)
class _Sums:
    """Sums of products of rows by name, added up many rows at once."""

    sums: dict[str, Doubles] = field(default_factory=dict)
    waiting: dict[str, list[tuple[Floats, Floats]]] = field(default_factory=dict)

    def add(self, name: str, one: Floats, other: Floats) -> None:
        """Add the product of two arrays [texts, tokens, numbers] over all but their last axis."""
        pairs = self.waiting.setdefault(name, [])
        pairs.append((one.reshape(-1, one.shape[-1]), other.reshape(-1, other.shape[-1])))
        if sum(len(rows) for rows, _ in pairs) >= ROWS_AT_ONCE:
            self._add_up(name)

    def whole(self) -> Mapping[str, Doubles]:
        """The sums of all that was added."""
        for name, pairs in self.waiting.items():
            if pairs:
                self._add_up(name)
        return self.sums

    def _add_up(self, name: str) -> None:
        pairs = self.waiting[name]
        one, other = (np.concatenate(side) for side in zip(*pairs, strict=True))
        self.sums[name] = self.sums.get(name, 0.0) + (one.T @ other).astype(np.float64)
        pairs.clear()


def _of_one_length(feeds: Iterable[Feed]) -> Iterator[Feed]:
    """Feeds of texts of the same length, several in one."""

    def length(feed: Feed) -> int:
        return int(next(iter(feed.values())).shape[-1])

    for _, group in groupby(sorted(feeds, key=length), key=length):
        waiting = list(group)
        for start in range(0, len(waiting), TEXTS_AT_ONCE):
            some = waiting[start : start + TEXTS_AT_ONCE]
            yield {name: np.concatenate([feed[name] for feed in some]) for name in some[0]}
