"""A static model as an ONNX graph: each token's row of a table, pooled. The full-precision reference of its bundles."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from edgepack.models.graph.writer import GraphWriter, TokenVectors
from edgepack.models.read.safetensors import TensorFile
from edgepack.models.read.static import StaticTable, table_of

IDS, MASK = "input_ids", "attention_mask"


def write_static(config: Mapping[str, Any], weights: TensorFile, writer: GraphWriter) -> TokenVectors:
    """Token vectors, float32 [batch, sequence, dimension] (``edgepack.api.axes.Architecture``)."""
    table = table_of(weights, config)
    rows = (
        IDS if table.rows is None else writer.add("Gather", "rows", writer.weight("mapping", table.rows), IDS)
    )
    tokens = writer.add("Gather", "tokens", writer.weight("embeddings", table.vectors), rows, axis=0)
    if table.scales is not None:
        scales = writer.add("Gather", "token_scales", writer.weight("scales", table.scales), IDS)
        column = writer.add("Unsqueeze", "token_scales_column", scales, writer.ints(2))
        tokens = writer.add("Mul", "tokens_scaled", tokens, column)
    return TokenVectors(name=tokens, counted=_counted(writer, table))


def _counted(writer: GraphWriter, table: StaticTable) -> str:
    """The mask of the tokens that count, int64 [batch, sequence]: an unknown one does only where no other is."""
    if table.unknown is None:
        return MASK
    known = np.ones(table.tokens, np.int64)
    known[table.unknown] = 0
    counts = writer.add("Gather", "counts", writer.weight("known", known), IDS)
    kept = writer.add("Mul", "counts_in_text", counts, MASK)
    total = writer.add("ReduceSum", "known_tokens", kept, writer.ints(1), keepdims=1)
    nothing = writer.add("Equal", "nothing_known", total, writer.index(0))
    return writer.add("Where", "counted", nothing, MASK, kept)
