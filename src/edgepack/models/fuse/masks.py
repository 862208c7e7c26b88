"""What other exporters add to attention's scores, recognised by what it hides, and written as edgepack's own graphs have it.

A mask may be made by a dozen operators that change with every release of an exporter. It is computed instead, for texts
longer than any number that it is made with, and compared with what hides padding, later tokens, or those out of a window.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

from edgepack.models.export.encoder import additive_mask
from edgepack.models.export.rotary import causal_order, count_places, local_window
from edgepack.models.graph.observe import observed
from edgepack.models.graph.sample_inputs import Feed
from edgepack.models.graph.writer import GraphWriter

HIDDEN = -1e4
"""What is added to a score is at most this where a token is hidden."""
FEW = 8
"""Elements of a weight that may be a mask's number: a window, an index, an axis."""
ENDLESS = 1 << 20
"""Numbers from here on stand for the end of an axis, or for what hides."""
LONGEST = 4300
"""Tokens of the longest text that a mask is computed for: room for a window of 4,096."""
SHORT = 9


@dataclass(frozen=True, kw_only=True)
class Window:
    """Which tokens a token sees beside the padding; ``None``: all of them on that side."""

    before: int | None
    after: int | None


def window_of(model: onnx.ModelProto, value: str) -> Window | None:
    """Window that a mask shows, float32 [batch or 1, 1, sequence or 1, sequence]; ``None`` where it is anything else."""
    ancestors = _ancestors(model, value)
    weights = [tensor for tensor in model.graph.initializer if tensor.name in ancestors]
    if any(_is_table(tensor) for tensor in weights):
        return None
    longest = _longest(weights)
    if longest > LONGEST:
        return None
    # A window that is wider than the short text looks like none there.
    return _window_at(model, value, longest) if _window_at(model, value, SHORT) else None


def _ancestors(model: onnx.ModelProto, value: str) -> set[str]:
    wanted = {value}
    for node in reversed(model.graph.node):
        if wanted.intersection(node.output):
            wanted.update(node.input)
    return wanted


def _is_table(tensor: onnx.TensorProto) -> bool:
    """Whether a weight may hide tokens one by one; a row of positions does not."""
    size = math.prod(tensor.dims)
    return size > FEW and (not tensor.dims or size != tensor.dims[-1])


def _longest(weights: Sequence[onnx.TensorProto]) -> int:
    numbers = [
        float(number)
        for tensor in weights
        if math.prod(tensor.dims) <= FEW
        for number in np.abs(numpy_helper.to_array(tensor).astype(np.float64)).reshape(-1)
    ]
    return SHORT + int(2 * max((number for number in numbers if number < ENDLESS), default=0.0))


def _window_at(model: onnx.ModelProto, value: str, tokens: int) -> Window | None:
    feed = _feed(model, tokens)
    added = observed(model, [value], [feed])[0][value]
    if added.ndim != 4 or added.shape[1] != 1 or added.dtype != np.float32:
        return None
    mask = feed["attention_mask"].astype(bool)
    try:
        rows = np.broadcast_to(added[:, 0].astype(np.float32), (len(mask), tokens, tokens))
    except ValueError:
        return None
    shown = rows == 0
    if not ((rows <= HIDDEN) | shown).all():
        return None
    window = _edges(shown[0])
    seen = _shown(tokens, window)
    # What padding itself sees changes no vector of a text.
    fits = [
        np.array_equal(each[kept], (seen & kept[None])[kept]) for each, kept in zip(shown, mask, strict=True)
    ]
    return window if all(fits) else None


def _feed(model: onnx.ModelProto, tokens: int) -> Feed:
    """A text of full length, and one that lacks tokens at its end and between."""
    mask = np.ones((2, tokens), np.int64)
    mask[1, 3::4] = 0
    mask[1, tokens * 2 // 3 :] = 0
    values = {"input_ids": mask, "attention_mask": mask, "token_type_ids": mask * 0}
    return {each.name: values[each.name] for each in model.graph.input if each.name in values}


def _edges(shown: npt.NDArray[np.bool_]) -> Window:
    """How far before and behind the farthest token lies that any sees."""
    queries, keys = np.nonzero(shown)
    far = len(shown) - 1
    before, after = int((queries - keys).max(initial=0)), int((keys - queries).max(initial=0))
    return Window(before=None if before == far else before, after=None if after == far else after)


def _shown(tokens: int, window: Window) -> npt.NDArray[np.bool_]:
    ahead = np.arange(tokens)[None, :] - np.arange(tokens)[:, None]
    seen = np.ones_like(ahead, bool)
    if window.before is not None:
        seen &= ahead >= -window.before
    if window.after is not None:
        seen &= ahead <= window.after
    return seen


def write_mask(writer: GraphWriter, window: Window) -> str | None:
    """Writes the mask as ``edgepack.models.fuse.attention`` looks for it; ``None`` for windows that edgepack's graphs do not have."""
    before, after = window.before, window.after
    if before is None and after is None:
        return additive_mask(writer)
    if after not in (0, before):
        return None
    fixed = []
    places = count_places(writer)
    if after == 0:
        fixed.append(causal_order(writer, places))
    if before is not None:
        fixed.append(local_window(writer, places, before))
    order = fixed[0] if len(fixed) == 1 else writer.add("Add", "window.order", *fixed)
    return writer.add("Add", "window.masked", order, additive_mask(writer))
