"""Fusing BERT's subgraphs into the operators that ONNX Runtime has kernels for, and proving that nothing changed.

The fusions are onnxruntime.transformers' own (https://onnxruntime.ai/docs/performance/transformers-optimization.html),
without its call into the runtime's graph optimizer: that one imports torch, and the conversion to ORT format does the
same work later.

Cost: none; the vectors stay the same to 0.00001, which is checked.
"""

import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from copy import deepcopy
from io import StringIO
from types import SimpleNamespace
from typing import Literal

import numpy as np
import onnx
from onnx import numpy_helper

from edgepack.errors import EdgepackError
from edgepack.models.fuse.attention import fuse_attention
from edgepack.models.fuse.normalize_attention import plain_attention
from edgepack.models.fuse.normalize_operators import usual_operators
from edgepack.models.fuse.products import plain_products
from edgepack.models.fuse.rotation import plain_rotation
from edgepack.models.fuse.sizes import settle_sizes
from edgepack.models.fuse.split_attention import split_attention
from edgepack.models.fuse.split_embeddings import split_embeddings
from edgepack.models.graph.editor import MICROSOFT
from edgepack.models.graph.external_weights import values_of
from edgepack.models.graph.sample_inputs import Feed, padded_batch
from edgepack.models.graph.writer import OUTPUT, PRODUCER
from edgepack.models.ort.session import open_session

AttentionOperator = Literal["Attention", "MultiHeadAttention"]

LARGEST_DIFFERENCE = 1e-5
"""Between an element of a fused model's vector and the unfused one's; vectors have length 1."""


def fuse(
    model: onnx.ModelProto,
    note: Callable[[str], None],
    *,
    attention: AttentionOperator = "Attention",
    embeddings: bool = True,
) -> onnx.ModelProto:
    """The same model with Attention, SkipLayerNormalization, BiasGelu and EmbedLayerNormalization nodes.

    ``attention`` chooses the operator: Attention merges the three projections into one matrix, MultiHeadAttention leaves
    them outside, or takes them out again. ``embeddings`` says whether EmbedLayerNormalization is fused; without, it is taken
    apart. A fusion that changes the model's vectors is not used: the model stays as it was, and ``note`` says so.
    """
    begun = model
    if model.producer_name != PRODUCER:
        for change in (settle_sizes, usual_operators, plain_products, plain_rotation, plain_attention):
            begun = _checked(model, begun, note, change)
    if attention == "MultiHeadAttention":
        begun = _checked(model, begun, note, split_attention)
    if not embeddings:
        begun = _checked(model, begun, note, split_embeddings)
    begun = _checked(model, begun, note, fuse_attention)

    def optimize(given: onnx.ModelProto) -> onnx.ModelProto:
        return _optimized(deepcopy(given), attention, embeddings)

    return _checked(model, begun, note, optimize)


def _checked(
    original: onnx.ModelProto,
    model: onnx.ModelProto,
    note: Callable[[str], None],
    change: Callable[[onnx.ModelProto], onnx.ModelProto],
) -> onnx.ModelProto:
    """The changed model, or ``model`` itself where the change fails or gives other vectors than ``original``."""
    try:
        fused = change(model)
        if fused is model:
            return model
        difference = largest_difference(original, fused)
    except (
        EdgepackError,
        AssertionError,
        AttributeError,
        LookupError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        # The optimizer walks graphs of any exporter and trips over some of them.
        note(f"not fused ({type(error).__name__}: {error})")
        return model
    if not difference <= LARGEST_DIFFERENCE:
        note(f"not fused (it would change the vectors by {difference:.2g})")
        return model
    return fused


def _optimized(model: onnx.ModelProto, attention: AttentionOperator, embeddings: bool) -> onnx.ModelProto:
    from onnxruntime.transformers.fusion_options import FusionOptions
    from onnxruntime.transformers.optimizer import optimize_model

    producer = model.producer_name, model.producer_version
    options = FusionOptions("bert")
    # A one-dimensional mask would be right for padding on the right only.
    options.use_raw_attention_mask(True)
    options.use_multi_head_attention = attention == "MultiHeadAttention"
    options.enable_embed_layer_norm = embeddings
    # It prints what it trips over, and stdout is for results.
    with quiet_logs(), weights_found(), redirect_stdout(StringIO()):
        optimized = optimize_model(model, "bert", optimization_options=options, opt_level=0)
    fused: onnx.ModelProto = optimized.model
    fused.producer_name, fused.producer_version = producer
    return fused


def fused_operators(model: onnx.ModelProto) -> dict[str, int]:
    """How often each operator of domain com.microsoft occurs."""
    return dict(Counter(node.op_type for node in model.graph.node if node.domain == MICROSOFT))


@contextmanager
def weights_found() -> Iterator[None]:
    """onnxruntime.transformers reads weights by onnx, which follows no absolute path to those set aside."""
    # Its modules lie on sys.path since it was imported, and import one another by their short names.
    modules = [sys.modules[name] for name in ("fusion_utils", "onnx_model")]
    reading = SimpleNamespace(**{**vars(numpy_helper), "to_array": values_of})
    for module in modules:
        vars(module)["numpy_helper"] = reading
    try:
        yield
    finally:
        for module in modules:
            vars(module)["numpy_helper"] = numpy_helper


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


def largest_difference(model: onnx.ModelProto, other: onnx.ModelProto) -> float:
    """Between the elements of two models' vectors, over a batch with padding."""
    feed = padded_batch(model)
    before, after = (_vectors(each, feed) for each in (model, other))
    return float(np.abs(before - after).max())


def _vectors(model: onnx.ModelProto, feed: Feed) -> np.ndarray:
    session = open_session(model.SerializeToString())
    vectors: np.ndarray = session.run([OUTPUT], feed)[0]
    return vectors
