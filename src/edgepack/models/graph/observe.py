"""What a graph's inner values are for some inputs: found out by running the part that makes them."""

from collections.abc import Sequence
from copy import deepcopy

import numpy as np
import numpy.typing as npt
import onnx

from edgepack.models.graph.clean import without_dead_nodes
from edgepack.models.graph.sample_inputs import Feed, longest_sequence, vocabulary
from edgepack.models.ort.session import open_session, session_options

Values = dict[str, npt.NDArray[np.generic]]

SEED = 23
SIZES = ((3, 7), (2, 11), (5, 5))
"""Texts and tokens of three batches: no two are the same, and most are prime."""


def batches(model: onnx.ModelProto) -> list[Feed]:
    """Inputs of three sizes, with padding on the right; none where the model takes only shorter texts than these."""
    if longest_sequence(model) < max(tokens for _, tokens in SIZES):
        return []
    return [batch_of(model, texts, tokens) for texts, tokens in SIZES]


def batch_of(model: onnx.ModelProto, texts: int, tokens: int) -> Feed:
    """Texts of random tokens, the first of full length, the others shorter one by one."""
    lengths = np.maximum(tokens - np.arange(texts), 1)
    mask = (np.arange(tokens)[None, :] < lengths[:, None]).astype(np.int64)
    ids = np.random.default_rng(SEED).integers(0, vocabulary(model), mask.shape) * mask
    values = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    return {each.name: values[each.name] for each in model.graph.input if each.name in values}


def observed(model: onnx.ModelProto, names: Sequence[str], feeds: Sequence[Feed]) -> list[Values]:
    """Name → value for each of the feeds. Raises ``ModelError`` and the binding's own errors where the graph cannot be run."""
    part = onnx.ModelProto()
    part.CopyFrom(model)
    del part.graph.output[:]
    part.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    part = without_dead_nodes(part)
    options = session_options()
    session = open_session(part.SerializeToString(), options)
    taken = [each.name for each in session.get_inputs()]
    return [
        dict(
            zip(names, session.run(list(names), {name: deepcopy(feed[name]) for name in taken}), strict=True)
        )
        for feed in feeds
    ]
