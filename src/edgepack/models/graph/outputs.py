"""What a model gives beside, or in the place of, one vector a text, written into the graph: all of it from one run.

The text's vector stays the first output, ``sentence_embedding``: a sparse encoder's has a number for each token of the vocabulary,
that of a multi-vector encoder is the mean of its tokens' vectors, which serves for checks only. What each token has comes
as one second output, float32 [batch, sequence, width]: the token's vector, then its weight.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper

from edgepack.models.graph.pooling import finish_vector, pool, write_dense
from edgepack.models.graph.writer import GraphWriter, TokenVectors, name_output
from edgepack.models.read.safetensors import open_tensors
from edgepack.records.model import ModelSource, Pooling
from edgepack.records.outputs import MultiVector, Vocabulary

TOKEN_OUTPUT = "token_embeddings"
SMALLEST_NORM = 1e-12
"""The floor of torch.nn.functional.normalize."""


def write_outputs(
    writer: GraphWriter, tokens: TokenVectors, source: ModelSource
) -> tuple[onnx.ValueInfoProto, ...]:
    """Append the nodes of ``source.outputs`` and those of the text's vector; the graph's outputs behind that vector."""
    outputs = source.outputs
    assert outputs is not None
    if outputs.sparse and outputs.sparse.vocabulary:
        _sparse_vector(writer, tokens, outputs.sparse.vocabulary, outputs.sparse.size)
        return ()
    projected = _projected(writer, tokens.name, outputs.multi_vector)
    pooled = tokens.name if outputs.dense or projected is None else projected
    pool(writer, pooled, tokens.counted, source.pooling, layers=tokens.layers)
    parts = [_normalized(writer, projected)] if projected else []
    if outputs.sparse and outputs.sparse.weight:
        made = write_dense(writer, "token_weight.", tokens.name, outputs.sparse.weight)
        parts.append(writer.add("Relu", "token_weight", made))
    last = parts[0] if len(parts) == 1 else writer.add("Concat", "token_parts", *parts, axis=2)
    name_output(writer, last, TOKEN_OUTPUT)
    shape: list[str | int | None] = ["batch", "sequence", outputs.width]
    return (helper.make_tensor_value_info(TOKEN_OUTPUT, TensorProto.FLOAT, shape),)


def _sparse_vector(writer: GraphWriter, tokens: TokenVectors, head: Vocabulary, size: int) -> None:
    """float32 [batch, vocabulary]: of each token of the vocabulary the largest of log(1 + max(0, x)) over the text's tokens."""
    tensors = open_tensors(head.transform.file)
    matrix = tensors.read(head.matrix, (size, head.transform.outputs))
    made = write_dense(writer, "vocabulary.transform.", tokens.name, head.transform)
    made = writer.add(
        "MatMul",
        "vocabulary.product",
        made,
        writer.weight("vocabulary.weight", np.ascontiguousarray(matrix.T)),
    )
    bias = writer.weight("vocabulary.bias", tensors.read(head.bias, (size,)))
    made = writer.add("Add", "vocabulary.numbers", made, bias)
    kept = writer.add("Cast", "vocabulary.kept", tokens.counted, to=TensorProto.FLOAT)
    column = writer.add("Unsqueeze", "vocabulary.kept_column", kept, writer.ints(2))
    made = writer.add("Mul", "vocabulary.of_text", made, column)
    if head.strategy == "sum":
        weights = _weights(writer, made, head)
        pooled = writer.add("ReduceSum", "vocabulary.sum", weights, writer.ints(1), keepdims=0)
    else:
        # The logarithm grows with its number: that of the largest is the largest, and padding is 0.
        largest = writer.add("ReduceMax", "vocabulary.largest", made, axes=[1], keepdims=0)
        pooled = _weights(writer, largest, head)
    finish_vector(writer, pooled, Pooling(normalize=False))


def _weights(writer: GraphWriter, numbers: str, head: Vocabulary) -> str:
    made = writer.add("Relu", "vocabulary.above_zero", numbers)
    for step in range(head.logs):
        more = writer.add("Add", f"vocabulary.one_more{step}", made, writer.scalar("vocabulary.one", 1.0))
        made = writer.add("Log", f"vocabulary.log{step}", more)
    return made


def _projected(writer: GraphWriter, tokens: str, vectors: MultiVector | None) -> str | None:
    if vectors is None:
        return None
    made = tokens
    for number, layer in enumerate(vectors.dense):
        made = write_dense(writer, f"token_dense.{number}.", made, layer)
    return made


def _normalized(writer: GraphWriter, vectors: str) -> str:
    squares = writer.add("Mul", "token_squares", vectors, vectors)
    total = writer.add("ReduceSum", "token_sum", squares, writer.ints(2), keepdims=1)
    root = writer.add("Sqrt", "token_root", total)
    floor = writer.add("Max", "token_floor", root, writer.scalar("smallest_norm", SMALLEST_NORM))
    return writer.add("Div", "token_vectors", vectors, floor)
