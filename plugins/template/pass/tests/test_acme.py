"""What the pass is for: fewer bits, and the same vectors."""

import numpy as np
import onnx
from edgepack_acme.transform import shorten
from onnx import numpy_helper


def test_weights_keep_their_first_bits() -> None:
    weights = numpy_helper.from_array(np.float32([[1.0, 1 + 2**-12, 1 + 2**-20]]), "w")
    lowest = numpy_helper.from_array(np.finfo(np.float32).min, "mask.value")
    model = onnx.helper.make_model(onnx.helper.make_graph([], "g", [], [], [weights, lowest]))
    kept, constant = map(numpy_helper.to_array, shorten(model, print, bits=12).graph.initializer)
    assert kept.tolist() == [[1.0, 1 + 2**-12, 1.0]]
    assert constant == np.finfo(np.float32).min, "what hides padding is no weight"
