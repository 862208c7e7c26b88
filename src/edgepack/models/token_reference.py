"""What the full-precision model gives beside a text's vector, on the stock ONNX Runtime: weights of tokens, and their vectors."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from edgepack.context import BuildContext
from edgepack.models.graph.outputs import TOKEN_OUTPUT
from edgepack.models.graph.writer import OUTPUT
from edgepack.models.ort.newer import session_for
from edgepack.models.read.documents import padding_of
from edgepack.models.read.panics import panics_reported
from edgepack.models.read.tokenizer import load_tokenizer
from edgepack.models.reference import exported_model, well_formed
from edgepack.records.model import ModelSource
from edgepack.records.outputs import MultiVector, Outputs, Side

Numbers = npt.NDArray[np.float32]
Weights = dict[int, float]


@dataclass(frozen=True, kw_only=True)
class TextOutputs:
    """Sparse weights and token vectors of one text."""

    sparse: Weights
    """Token → weight, those above zero; empty where the model has none."""
    vectors: Numbers
    """float32 [tokens, dimension]; [0, 0] where the model has none."""


@dataclass(frozen=True, kw_only=True)
class SideTokens:
    """A text as the model takes it."""

    ids: tuple[int, ...]
    attended: int
    """How many of them, from the beginning, are attended to."""


def reference_outputs(
    source: ModelSource,
    texts: Sequence[str],
    *,
    query: bool = False,
    model: Path | None = None,
    context: BuildContext,
) -> list[TextOutputs]:
    """Outputs of each text, alone in its batch; ``query``: read as a query, for models that tell them from documents.

    ``model`` is the file to run, with the outputs that ``write_outputs`` wrote; otherwise the full-precision one.
    """
    assert source.outputs is not None
    session = session_for(model or exported_model(source, context=context), context=context)
    names = {each.name for each in session.get_inputs()}
    wanted = [each.name for each in session.get_outputs() if each.name in (OUTPUT, TOKEN_OUTPUT)]
    tokenizer = load_tokenizer(source)
    side = side_of(source.outputs, query=query)
    found = []
    for text in texts:
        tokens = side_tokens(tokenizer, source, side, text)
        feed = {
            "input_ids": np.array([tokens.ids], np.int64),
            "attention_mask": np.array(
                [[int(at < tokens.attended) for at in range(len(tokens.ids))]], np.int64
            ),
            "token_type_ids": np.zeros((1, len(tokens.ids)), np.int64),
        }
        made = session.run(wanted, {name: array for name, array in feed.items() if name in names})
        found.append(_given(source.outputs, side, tokens, [array[0] for array in made]))
    return found


def side_of(outputs: Outputs, *, query: bool) -> Side:
    """How a text is read."""
    vectors = outputs.multi_vector
    if vectors is None:
        return Side()
    return vectors.query if query else vectors.document


@panics_reported()
def side_tokens(tokenizer: Tokenizer, source: ModelSource, side: Side, text: str) -> SideTokens:
    """The ids of a text on this side: cut, marked, and filled up."""
    room = (side.length or source.max_length) - (side.marker is not None)
    tokenizer.enable_truncation(room)
    ids: list[int] = list(tokenizer.encode(side.prefix + well_formed(text)).ids)
    # A tokenizer without special tokens makes nothing of an empty text, and a model nothing of no token.
    ids = ids or [padding_of(source.config)]
    if side.marker is not None:
        ids.insert(1, side.marker)
    written = len(ids)
    if side.expand is not None:
        ids += [side.expand] * (side.least - written)
    return SideTokens(ids=tuple(ids), attended=len(ids) if side.attend else written)


def _given(outputs: Outputs, side: Side, tokens: SideTokens, made: list[Numbers]) -> TextOutputs:
    """Parts of the graph's outputs for one text: its vector, then what each token has."""
    sparse, vectors = outputs.sparse, np.zeros((0, 0), np.float32)
    weights: Weights = {}
    if sparse and sparse.vocabulary:
        weights = {int(at): float(made[0][at]) for at in np.flatnonzero(made[0] > 0)}
    elif sparse:
        for token, weight in zip(tokens.ids, made[1][:, -1], strict=True):
            if weight > 0 and token not in sparse.skip:
                weights[token] = max(float(weight), weights.get(token, 0.0))
    if outputs.multi_vector:
        kept = kept_tokens(outputs.multi_vector, side, tokens)
        vectors = made[1][kept, : outputs.multi_vector.dimension]
    return TextOutputs(sparse=weights, vectors=vectors)


def kept_tokens(outputs: MultiVector, side: Side, tokens: SideTokens) -> list[int]:
    """The places whose vectors are given out."""
    return [at for at, token in enumerate(tokens.ids) if at >= outputs.first and token not in side.skip]
