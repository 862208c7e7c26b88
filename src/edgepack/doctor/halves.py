"""The full-precision model in two halves: tokens to token vectors, and a pooled vector to the text's.

Every row of tokens is run once; poolings, a head that is left out and lengths are then arithmetic.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
from numpy.typing import NDArray

from edgepack.models.graph.external_weights import load_graph
from edgepack.models.graph.writer import OUTPUT, PREFIX
from edgepack.models.ort.session import open_session
from edgepack.models.read.documents import padding_of
from edgepack.models.read.safetensors import open_tensors
from edgepack.records.model import ModelSource

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

Vectors = NDArray[np.float32]
ROWS_AT_ONCE = 16
TOKENS_AT_ONCE = 2048


@dataclass(frozen=True)
class Row:
    """Tokens as the model gets them."""

    ids: tuple[int, ...]
    to: int = 0
    """Padded on the right to so many tokens; at most ``len(ids)``: not at all."""
    attended: bool = False
    """Whether padding is attended to, as without an attention mask."""


@dataclass(frozen=True, kw_only=True)
class Hidden:
    """Output of the model for one row."""

    tokens: Vectors | None
    """float32 [len(row), hidden]; ``None`` where the graph pools inside in a way that cannot be undone."""
    vector: Vectors
    """The text's vector, not yet normalised, float32 [dimension]."""


class Unanswered(Exception):  # noqa: N818 - the model's answer to a question, not a failure
    """More tokens than the model has positions, a graph that pools inside, or fewer numbers than are asked for."""


class Halves:
    """The model, remembering what it has run."""

    def __init__(self, model_file: Path, source: ModelSource) -> None:
        model = load_graph(model_file)
        self._names = _Names.of(model)
        self._outputs = [name for name in (self._names.vector, self._names.tokens) if name]
        there = {each.name for each in model.graph.output}
        for name in set(self._outputs) - there:
            model.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
        self._session = open_session(model.SerializeToString(), name=source.name)
        self._inputs = [each.name for each in self._session.get_inputs()]
        self._head = _head(model, self._names)
        self._padding = padding_of(source.config)
        self._known: dict[Row, Hidden] = {}
        self.mode = source.pooling.mode
        self.pooler = _pooler(source)
        """The weight and bias of BERT's head for next-sentence prediction, where the model carries one."""

    @property
    def has_tokens(self) -> bool:
        """Whether there are token vectors to be pooled otherwise."""
        return self._names.tokens is not None

    @property
    def has_head(self) -> bool:
        """Whether something (a Dense layer) comes between pooling and normalisation."""
        return self._head is not None

    def run(self, rows: Iterable[Row]) -> Iterator[Hidden]:
        """Outputs of the model, one a row; raises ``Unanswered``."""
        wanted = [Row(row.ids or (self._padding,), row.to, row.attended) for row in rows]
        new = sorted({row for row in wanted if row not in self._known}, key=_kind)
        for (_, size, _), alike in groupby(new, key=_kind):
            while some := tuple(islice(alike, max(1, min(ROWS_AT_ONCE, TOKENS_AT_ONCE // size)))):
                self._run_alike(some)
        return (self._known[row] for row in wanted)

    def finish(self, pooled: Vectors) -> Vectors:
        """Pooled vectors [texts, hidden] through the head, if there is one."""
        if self._head is None:
            return pooled
        made: Vectors = self._head.run(None, {self._head.get_inputs()[0].name: pooled})[0]
        return made

    def _run_alike(self, rows: tuple[Row, ...]) -> None:
        _, size, attended = _kind(rows[0])
        ids = np.full((len(rows), size), self._padding, np.int64)
        for line, row in zip(ids, rows, strict=True):
            line[: len(row.ids)] = row.ids
        mask = np.zeros_like(ids)
        mask[:, : size if attended else len(rows[0].ids)] = 1
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        try:
            made = self._session.run(self._outputs, {name: feed[name] for name in self._inputs})
        except Exception as error:  # the binding raises a class of its own for each status
            raise Unanswered(f"the model cannot read {size} tokens") from error
        for at, row in enumerate(rows):
            tokens = made[1][at] if len(made) > 1 else None
            self._known[row] = Hidden(tokens=tokens, vector=made[0][at])


def _kind(row: Row) -> tuple[int, int, bool]:
    """Rows that can be run together: of as many tokens, padded and masked alike."""
    return len(row.ids), max(len(row.ids), row.to), row.attended


@dataclass(frozen=True, kw_only=True)
class _Names:
    """Names of values in the exported graph, which ``edgepack.models.graph.pooling`` gives them."""

    tokens: str | None
    pooled: str | None
    vector: str

    @classmethod
    def of(cls, model: onnx.ModelProto) -> "_Names":
        # A graph of somebody else's may have been written by edgepack once: what was added last counts.
        prefix = PREFIX if any(node.name.startswith(PREFIX) for node in model.graph.node) else ""
        nodes = {
            node.name.removeprefix(prefix): node for node in model.graph.node if node.name.startswith(prefix)
        }
        places = (("pool_without_padding", 1), ("pool_sum_row", 1), ("pooled_cls", 0))
        tokens = [nodes[name].input[at] for name, at in places if name in nodes]
        pooled = [
            nodes[name].output[0] for name in ("pooled_max", "pooled_mean", "pooled_cls") if name in nodes
        ]
        return cls(
            tokens=tokens[0] if tokens else None,
            pooled=pooled[0] if pooled else None,
            vector=nodes["norm_squares"].input[0] if "norm_squares" in nodes else OUTPUT,
        )


def _head(model: onnx.ModelProto, names: _Names) -> "InferenceSession | None":
    """Session of the layers between pooling and normalisation."""
    if names.pooled in (None, names.vector):
        return None
    part = onnx.utils.Extractor(model).extract_model([names.pooled], [names.vector])
    return open_session(part.SerializeToString(), name="the head")


def _pooler(source: ModelSource) -> tuple[Vectors, Vectors] | None:
    if source.weights is None:
        return None
    weights = open_tensors(source.weights)
    name = next((name for name in weights.tensors if name.endswith("pooler.dense.weight")), None)
    if name is None:
        return None
    rows, columns = weights.tensors[name].shape
    return weights.read(name, (rows, columns)), weights.read(name.removesuffix("weight") + "bias", (rows,))
