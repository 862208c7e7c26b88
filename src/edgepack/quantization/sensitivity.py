"""How much each matrix matters to the vectors: where steps may be wide, and where bytes are well spent.

What a matrix's rounding costs the vectors grows with its step squared, and each doubling of the step saves a bit a weight.
At a given size the sum of these costs is smallest where all matrices cost the same per weight: rate and distortion, as in any
transform coder (https://doi.org/10.1109/18.720541). So each matrix is rounded alone, and what that costs is measured.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

from edgepack.models.graph.external_weights import values_of
from edgepack.models.graph.sample_inputs import Feed
from edgepack.models.ort.session import open_session
from edgepack.quantization.arrays import Doubles, Floats
from edgepack.quantization.same_bits import same_bits
from edgepack.records.recipe import Advance

NARROWEST, WIDEST = 0.35, 2.5
GRADES = 4
"""Widths of steps within a doubling: what two processors measure differently in the last digits is gone after rounding."""
LEAST_COST = 1e-12


def step_factors(
    model: onnx.ModelProto,
    rounded: Mapping[str, Floats],
    feeds: Sequence[Feed],
    *,
    advance: Advance = lambda: None,
) -> dict[str, float]:
    """How many times as wide the steps of each matrix should be, for about as many bits in all.

    ``rounded`` are the matrices as steps of one width make them; ``feeds`` are what the model is run on. ``advance`` is called after
    each matrix.
    """
    exact = {each.name: values_of(each) for each in model.graph.initializer if each.name in rounded}
    session = open_session(_taking(same_bits(model), exact).SerializeToString())
    output = session.get_outputs()[0].name

    def units(changed: Mapping[str, Floats]) -> Doubles:
        runs = [session.run([output], {**feed, **exact, **changed})[0] for feed in feeds]
        rows = np.concatenate([each.reshape(-1, each.shape[-1]) for each in runs]).astype(np.float64)
        found: Doubles = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), LEAST_COST)
        return found

    right = units({})
    costs = []
    for name, values in rounded.items():
        costs.append(1 - (units({name: values}) * right).sum(axis=1).mean())
        advance()
    return dict(zip(rounded, _factors(costs, [exact[name].size for name in rounded]), strict=True))


def _factors(costs: Sequence[float], sizes: Sequence[int]) -> list[float]:
    """Factors of what each matrix costs at one width of steps, and its weights."""
    weights = np.array(sizes, np.float64)
    wanted = 0.5 * np.log2(weights / np.maximum(costs, LEAST_COST))
    wanted -= (wanted * weights).sum() / weights.sum()
    factors = np.clip(np.exp2(np.rint(wanted * GRADES) / GRADES), NARROWEST, WIDEST)
    return [float(each) for each in factors]


def _taking(model: onnx.ModelProto, matrices: Mapping[str, Floats]) -> onnx.ModelProto:
    """The model with matrices as inputs, so that one session tries them all."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    kept = [each for each in model.graph.initializer if each.name not in matrices]
    del copy.graph.initializer[:]
    copy.graph.initializer.extend(kept)
    copy.graph.input.extend(
        helper.make_tensor_value_info(name, TensorProto.FLOAT, values.shape)
        for name, values in matrices.items()
    )
    return copy
