"""Graphs that a plugin's architecture writes: pooled by the host as edgepack's own are, and tried out before they are used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx

from edgepack.context import Extension
from edgepack.errors import PluginError
from edgepack.models.graph.outputs import write_outputs
from edgepack.models.graph.pooling import pool
from edgepack.models.graph.precision import FLOAT32_ONLY
from edgepack.models.graph.sample_inputs import padded_batch
from edgepack.models.graph.writer import INPUTS, OUTPUT, GraphWriter, TokenVectors, finish
from edgepack.models.ort.session import open_session
from edgepack.models.read.safetensors import TensorFile
from edgepack.plugins.blame import blamed_on
from edgepack.records.model import ModelSource

if TYPE_CHECKING:
    from edgepack.models.export.architecture import Architecture

LARGEST_DIFFERENCE = 1e-4
"""Between a number of a text's vector in a padded batch and alone, of vectors of length 1 or longer."""


def finished(source: ModelSource, writer: GraphWriter, tokens: TokenVectors) -> onnx.ModelProto:
    """The model of what was written: token vectors, pooled and normalised as the source says, or what else it gives."""
    if source.outputs is not None:
        more = write_outputs(writer, tokens, source)
        return finish(writer, name=source.name, dimension=source.dimension, more=more)
    pool(writer, tokens.name, tokens.counted, source.pooling, layers=tokens.layers)
    model = finish(writer, name=source.name, dimension=source.dimension)
    if tokens.float32_only:
        model.metadata_props.add(key=FLOAT32_ONLY, value=tokens.float32_only)
    return model


def written_by_plugin(
    write: Architecture, source: ModelSource, weights: TensorFile, found: Extension, writer: GraphWriter
) -> onnx.ModelProto:
    """Writes the graph by a plugin. Raises ``PluginError`` for one that fails, or whose graph is not what it should be."""
    said = f"plugin {found.plugin}: architecture {found.name}"
    with blamed_on(found.plugin, f"architecture {found.name}"):
        tokens = write(source.config, weights, writer)
    written = {*INPUTS, *(each for node in writer.nodes for each in node.output)}
    if not isinstance(tokens, TokenVectors) or not {tokens.name, tokens.counted} <= written:
        raise PluginError(
            f"{said} returned {repr(tokens)[:80]}, expected TokenVectors of values that it wrote"
        )
    model = finished(source, writer, tokens)
    try:
        if writer.aside is None:  # the checker takes no paths
            onnx.checker.check_model(model, full_check=True)
        together, alone = _tried(model)
    except Exception as error:  # the libraries raise what they find, each of its own kind
        raise PluginError(f"{said} wrote a graph that does not run: {_last_line(error)}") from error
    if together.shape != (len(alone), source.dimension) or not np.isfinite(together).all():
        raise PluginError(
            f"{said} wrote a graph that gives {list(together.shape)} for {len(alone)} texts, expected {source.dimension} "
            "finite numbers each"
        )
    if (difference := float(np.abs(together - alone).max())) > LARGEST_DIFFERENCE * max(
        1, np.abs(alone).max()
    ):
        raise PluginError(
            f"{said} wrote a graph whose vectors depend on the padding of a batch: they differ by {difference:.2g}",
            hint="add edgepack.api.graphs.additive_mask to the scores of attention",
        )
    return model


def _tried(model: onnx.ModelProto) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of texts in a batch with padding, and of each alone."""
    session = open_session(model.SerializeToString())
    feed = padded_batch(model)
    lengths = feed["attention_mask"].sum(axis=1)
    together = session.run([OUTPUT], feed)[0]
    alone = [
        session.run([OUTPUT], {name: value[row : row + 1, :length] for name, value in feed.items()})[0][0]
        for row, length in enumerate(lengths)
    ]
    return together, np.stack(alone)


def _last_line(error: Exception) -> str:
    return next(iter(reversed(str(error).strip().splitlines())), type(error).__name__)
