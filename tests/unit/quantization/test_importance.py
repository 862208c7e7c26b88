"""How much vectors mind errors of weights: sums over texts, and errors that they foretell."""

import numpy as np
import onnx
from onnx import numpy_helper
from tests.support.compare import Load, load

from edgepack.models.graph.sample_inputs import random_tokens
from edgepack.quantization.importance import importance
from edgepack.records.recipe import ALL

__all__ = ["load"]


def test_sums_are_of_every_matrix_and_of_tables_of_many_rows(load: Load) -> None:
    model = load(vocab_size=1100)
    done: list[int] = []
    found = importance(model, random_tokens(model, 12), ALL, advance=done.append)
    assert sum(done) == 12
    shapes = {each.name: tuple(each.dims) for each in model.graph.initializer}
    assert found.inputs.keys() == found.outputs.keys() and len(found.inputs) == 12
    for name in found.inputs:
        assert (len(found.inputs[name]), len(found.outputs[name])) == shapes[name]
        for moments in (found.inputs[name], found.outputs[name]):
            np.testing.assert_allclose(moments, moments.T, rtol=1e-3, atol=1e-6 * np.abs(moments).max())
            assert np.linalg.eigvalsh(moments)[0] > -1e-4 * np.trace(moments)
    assert [moments.shape for moments in found.columns.values()] == [(32, 32)], "of words, not of positions"


def test_a_table_of_few_rows_is_not_quantized_and_the_first_matrices_are(load: Load) -> None:
    """What these take depends on nothing that is rounded."""
    model = load()
    found = importance(model, random_tokens(model, 4), ALL, advance=lambda texts: None)
    assert len(found.inputs) == 12
    assert not found.columns


def test_directions_that_matter_are_told_from_those_that_do_not(load: Load) -> None:
    """Errors of rows along the first directions move vectors far more than those along the last."""
    model = load(vocab_size=1100)
    feeds = list(random_tokens(model, 40))
    found = importance(model, feeds, ALL, advance=lambda texts: None)
    ((table, moments),) = found.columns.items()
    directions = np.linalg.eigh(moments)[1].T.astype(np.float32)

    def lost(direction: np.ndarray) -> float:
        import onnxruntime

        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        tensor = next(each for each in copy.graph.initializer if each.name == table)
        signs = np.random.default_rng(5).choice([-1, 1], (1100, 1)).astype(np.float32)
        errors = signs * direction * np.float32(0.01)
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) + errors, table))
        exact, other = (onnxruntime.InferenceSession(each.SerializeToString()) for each in (model, copy))
        return float(
            np.mean([1 - (exact.run(None, feed)[0] * other.run(None, feed)[0]).sum() for feed in feeds])
        )

    assert lost(directions[-1]) > 4 * lost(directions[1])
