"""SmoothQuant: outliers in a few channels of the activations move into the weights, before activations are quantized.

After https://arxiv.org/abs/2211.10438, without its calibration texts: the channels that are large in BERT are large for
every text, so that token sequences drawn at random from the vocabulary show them as well.

Cost: a product of a vector with a constant after every LayerNormalization; in full precision the vectors stay the same.
"""

from collections import Counter
from collections.abc import Mapping

import numpy as np
import onnx

from edgepack.models.graph.editor import GraphEditor, edit, with_input
from edgepack.models.graph.sample_inputs import random_tokens
from edgepack.quantization.few_values import few_values
from edgepack.quantization.layers import NORMALIZATIONS
from edgepack.quantization.observers import observed
from edgepack.records.recipe import Note

SMALLEST = 1e-5
SEQUENCES = 64


def smooth(model: onnx.ModelProto, note: Note, *, strength: float = 0.6) -> onnx.ModelProto:
    """The same function to the last digit, with activations that lose less when they are quantized.

    What a LayerNormalization hands to matrices is divided by a factor for each channel, and the matrices' rows are
    multiplied by it. ``strength`` from 0 to 1 is how much of the difficulty moves from the activations to the weights.
    """
    editor = edit(model)
    places = _places(editor)
    if not places:
        note("nothing to smooth")
        return model
    ranges = _ranges(model, list(places))
    for node in editor.take_nodes():
        vector = node.input[0] if node.input else ""
        if node.op_type == "MatMul" and node.input[1] in places.get(vector, ()):
            factors = _factors(editor, ranges[vector], places[vector], strength)
            editor.keep(_moved(editor, node, factors))
        else:
            editor.keep(node)
    return editor.finish()


def _places(editor: GraphEditor) -> dict[str, list[str]]:
    """Normalized activations → the matrices that they meet, and nothing else does: layers may share them.

    Matrices of few values would have more of them if their rows were multiplied.
    """
    places: dict[str, list[str]] = {}
    taken = Counter(name for node in editor.take_nodes() for name in node.input)
    for node in editor.take_nodes():
        if node.op_type != "MatMul" or not editor.is_matrix(node.input[1]) or taken[node.input[1]] > 1:
            continue
        made_by = editor.producer(node.input[0])
        if made_by is not None and made_by.op_type in NORMALIZATIONS and made_by.output[0] == node.input[0]:
            places.setdefault(node.input[0], []).append(node.input[1])
    return {
        vector: matrices
        for vector, matrices in places.items()
        if all(few_values(editor.array(name)) is None for name in matrices)
    }


def _ranges(model: onnx.ModelProto, values: list[str]) -> Mapping[str, np.ndarray]:
    """The largest magnitude in every channel of some values, float32 [hidden], over random token sequences."""
    ranges = dict.fromkeys(values, np.float32(SMALLEST) * np.ones(1, np.float32))
    for run in observed(model, values, random_tokens(model, SEQUENCES)):
        for name, found in run.items():
            ranges[name] = np.maximum(ranges[name], np.abs(found).max(axis=(0, 1)))
    return ranges


def _factors(editor: GraphEditor, ranges: np.ndarray, matrices: list[str], strength: float) -> np.ndarray:
    """Divisors of the channels; the same for all matrices that take the same activations.

    Powers of two: to multiply and divide by them is exact, and what two processors make differently in the last
    digits of a logarithm is gone after rounding, so that both write the same file.
    """
    weights = np.max([np.abs(editor.array(name)).max(axis=1) for name in matrices], axis=0)
    taken, met = (each.astype(np.float64) for each in (ranges, np.maximum(weights, SMALLEST)))
    wanted = strength * np.log2(taken) - (1 - strength) * np.log2(met)
    factors: np.ndarray = np.exp2(np.rint(wanted))
    return factors.astype(np.float32)


def _moved(editor: GraphEditor, node: onnx.NodeProto, factors: np.ndarray) -> onnx.NodeProto:
    vector, matrix = node.input
    smoothed = f"{vector}.smoothed"
    if not editor.is_made(smoothed):
        inverse = editor.weight(f"{vector}.smoothing", (1 / factors).astype(np.float32))
        editor.add("Mul", [vector, inverse], [smoothed], name=smoothed)
    weights = editor.weight(f"{matrix}.smoothed", editor.array(matrix) * factors[:, None])
    return with_input(with_input(node, 0, smoothed), 1, weights)
