"""Fusing BERT's subgraphs into the operators that ONNX Runtime has kernels for, and proving that nothing changed.

The fusions are onnxruntime.transformers' own (https://onnxruntime.ai/docs/performance/transformers-optimization.html),
without its call into the runtime's graph optimizer: that one imports torch, and the conversion to ORT format does the
same work later.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import numpy as np
import onnx

from edgepack.errors import ModelError
from edgepack.models.graph_writer import OUTPUT
from edgepack.models.session import open_session

AttentionOperator = Literal["Attention", "MultiHeadAttention"]

LARGEST_DIFFERENCE = 1e-5
"""Between an element of a fused model's vector and the unfused one's; vectors have length 1."""


def fuse(
    model: onnx.ModelProto,
    *,
    attention: AttentionOperator = "Attention",
    embeddings: bool = True,
    heads: int = 0,
    hidden: int = 0,
) -> onnx.ModelProto:
    """The same model with Attention, SkipLayerNormalization, BiasGelu and EmbedLayerNormalization nodes.

    ``attention`` chooses the operator: Attention merges the three projections into one matrix, MultiHeadAttention leaves
    them outside. ``embeddings`` says whether EmbedLayerNormalization is fused. ``heads`` and ``hidden`` are read from the
    graph when they are 0. Raises ``ModelError`` when the fused model's vectors are others than before.
    """
    from onnxruntime.transformers.fusion_options import FusionOptions
    from onnxruntime.transformers.optimizer import optimize_model

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    options = FusionOptions("bert")
    # A one-dimensional mask would be right for padding on the right only.
    options.use_raw_attention_mask(True)
    options.use_multi_head_attention = attention == "MultiHeadAttention"
    options.enable_embed_layer_norm = embeddings
    with quiet_logs():
        fused: onnx.ModelProto = optimize_model(
            copy, "bert", heads, hidden, optimization_options=options, opt_level=0
        ).model
    fused.producer_name, fused.producer_version = model.producer_name, model.producer_version
    _require_equal(model, fused)
    return fused


def fused_operators(model: onnx.ModelProto) -> dict[str, int]:
    """How often each operator of domain com.microsoft occurs."""
    return dict(Counter(node.op_type for node in model.graph.node if node.domain == "com.microsoft"))


@contextmanager
def quiet_logs() -> Iterator[None]:
    """onnxruntime's Python tools warn through the root logger; the story on stderr is ours alone."""
    root = logging.getLogger()
    silent = logging.NullHandler()
    level = logging.root.manager.disable
    # With a handler in place, logging.warning() does not install one of its own for good.
    root.addHandler(silent)
    if not root.isEnabledFor(logging.DEBUG):
        logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(level)
        root.removeHandler(silent)


def _require_equal(model: onnx.ModelProto, fused: onnx.ModelProto) -> None:
    feed = sample_batch(model)
    before, after = (_vectors(each, feed) for each in (model, fused))
    difference = float(np.abs(before - after).max())
    if not difference <= LARGEST_DIFFERENCE:
        raise ModelError(
            f"fusing changed the model's vectors by {difference:.2g}",
            hint='choose a recipe without the pass "fuse" for this model',
        )


def sample_batch(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Inputs that try every path of an encoder: padding, both token types, lengths 1 to 12; int64 [4, 12]."""
    tables = [tensor.dims[0] for tensor in model.graph.initializer if len(tensor.dims) == 2]
    vocabulary = max(tables, default=2)
    lengths = np.array([12, 7, 3, 1])
    random = np.random.default_rng(20)
    mask = (np.arange(12)[None, :] < lengths[:, None]).astype(np.int64)
    feed = {
        "input_ids": random.integers(0, min(vocabulary, 30_000), (4, 12)) * mask,
        "attention_mask": mask,
        "token_type_ids": np.zeros((4, 12), np.int64),
    }
    return {each.name: feed[each.name] for each in model.graph.input if each.name in feed}


def _vectors(model: onnx.ModelProto, feed: dict[str, np.ndarray]) -> np.ndarray:
    session = open_session(model.SerializeToString())
    vectors: np.ndarray = session.run([OUTPUT], feed)[0]
    return vectors
