"""What goes through a graph while it runs: ranges and second moments of the values that matrices take."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import onnx

from edgepack.models.graph.sample_inputs import Feed
from edgepack.models.ort.session import open_session
from edgepack.quantization.arrays import Doubles, Floats
from edgepack.quantization.same_bits import same_bits

ROWS_AT_ONCE = 1024


def observed(
    model: onnx.ModelProto, values: Sequence[str], feeds: Iterable[Feed]
) -> Iterator[Mapping[str, Floats]]:
    """The named values of every run, float32 where they are not integers; the same on every processor."""
    copy = same_bits(model)
    for name in values:
        copy.graph.output.append(onnx.ValueInfoProto(name=name))
    session = open_session(copy.SerializeToString())
    for feed in feeds:
        yield dict(zip(values, session.run(list(values), feed), strict=True))


def minmax_ranges(
    model: onnx.ModelProto, values: Sequence[str], feeds: Iterable[Feed]
) -> dict[str, tuple[float, float]]:
    """The smallest and the largest element of each value, over all runs."""
    found: dict[str, tuple[float, float]] = {}
    for run in observed(model, values, feeds):
        for name, array in run.items():
            low, high = found.get(name, (np.inf, -np.inf))
            found[name] = min(low, float(array.min())), max(high, float(array.max()))
    return found


def second_moments(
    model: onnx.ModelProto, values: Sequence[str], feeds: Iterable[Feed]
) -> dict[str, Doubles]:
    """Xᵀ·X of the rows of each value, one at least, float64 [channels, channels]: what GPTQ calls the Hessian."""
    sums: dict[str, Doubles] = {}
    waiting: dict[str, list[Floats]] = {name: [] for name in values}
    rows = 0

    def add_up() -> None:
        for name, arrays in waiting.items():
            if arrays:
                stacked = np.concatenate(arrays)
                product = (stacked.T @ stacked).astype(np.float64)
                sums[name] = sums[name] + product if name in sums else product
                arrays.clear()

    for run in observed(model, values, feeds):
        for name, array in run.items():
            waiting[name].append(array.reshape(-1, array.shape[-1]))
        rows += len(waiting[values[0]][-1])
        if rows >= ROWS_AT_ONCE:
            add_up()
            rows = 0
    add_up()
    return sums
