"""A ready-made ONNX graph, of whatever exporter, as a model with edgepack's inputs and its one output.

What the graph gives is found out by running it: exporters call token vectors ``last_hidden_state``,
``token_embeddings`` or anything else, and seldom write their shape down.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from edgepack.context import BuildContext
from edgepack.errors import EdgepackError, ModelError, UnsupportedModelError
from edgepack.models.graph.clean import rename_value, without_dead_nodes
from edgepack.models.graph.pooling import finish_vector, pool
from edgepack.models.graph.sample_inputs import one_text, padded_batch
from edgepack.models.graph.writer import INPUTS, OUTPUT, PREFIX, GraphWriter, embedding_output, token_input
from edgepack.models.lower.clean import cleaned
from edgepack.models.ort.memory import limited_memory, memory_to_try
from edgepack.models.ort.newer import session_for
from edgepack.models.ort.processor_time import Allowance
from edgepack.models.ort.releases import running
from edgepack.models.read.hub_layout import dimension_of
from edgepack.records.layers import Dense
from edgepack.records.model import ModelSource

OTHER_NAMES = {"input_mask": "attention_mask", "mask": "attention_mask", "segment_ids": "token_type_ids"}
POSITIONS = "position_ids"
TEXT_VECTORS = (OUTPUT, "dense_vecs")
"""What exporters call a text's vector, the latter BGE-M3's, beside vectors of its tokens for another use."""
TOKEN_VECTORS = ("last_hidden_state", "token_embeddings")
"""What exporters call one vector a token; asked for before other outputs of that shape."""
NOT_A_TEXT_VECTOR = "pooler_output"
"""BERT's head for next-sentence prediction: [batch, hidden], yet no embedding."""
PERHAPS_NONE = "pooled_output"
"""What others call that head, or a text's vector: behind vectors of tokens."""


def adapt_graph(source: ModelSource, *, context: BuildContext | None = None) -> onnx.ModelProto:
    """The graph of ``source.onnx`` with pooling and normalisation appended where it does not have them.

    With ``context``, what cannot be lowered stays as it came where a newer release of ONNX Runtime runs it, which is fetched.

    Raises ``ModelError`` when the file is no ONNX model or lacks its external data, ``UnsupportedModelError`` when it
    has other inputs than a text encoder, fixed sizes, or operators that no kernel implements.
    """
    assert source.onnx is not None
    model = _cleaned(source.onnx, newer=context is not None)
    prefix = _unused_prefix(model)
    _take_inputs(model, source.onnx, prefix)
    outputs = _try_out(model, source.onnx, context)
    chosen = _choose_output(outputs, source)
    if not np.isfinite(outputs[chosen][0]).all():
        raise ModelError(
            f"{source.onnx.name} makes vectors that are not finite",
            hint="the model was damaged in training or conversion; get it again",
        )
    if outputs[chosen].ndim == 2 and source.reading.pooling is not None:
        raise UnsupportedModelError(
            f"{source.onnx.name} pools by itself, into {chosen}: its pooling cannot be set to {source.reading.pooling}",
            hint="leave it as it is, or export the encoder alone, with one vector a token",
        )
    _append(model, chosen, outputs[chosen], source, prefix)
    return without_dead_nodes(model)


def dimension_of_graph(file: Path, *, context: BuildContext) -> int:
    """The length of the vectors that a graph gives, found out by running it. Raises as ``adapt_graph`` does."""
    model = _cleaned(file, newer=True)
    _take_inputs(model, file, _unused_prefix(model))
    outputs = {
        name: value
        for name, value in _try_out(model, file, context).items()
        if value.ndim in (2, 3) and value.dtype.kind == "f"
    }
    ranked = _ranked(outputs, text_vectors=True, head=True)
    if not ranked:
        raise UnsupportedModelError(
            f"no output of {file.name} holds vectors of texts or of tokens",
            hint="export the encoder, with one vector a token",
        )
    return int(outputs[ranked[0]].shape[-1])


def longest_text_of_graph(file: Path, at_most: int, *, context: BuildContext) -> int:
    """Tokens of the longest text that a graph takes, ``at_most`` at most: its positions, found out by running it.

    ``at_most`` too where it takes no text at all: what is wrong with it is for ``adapt_graph`` to say.
    """
    try:
        model = _cleaned(file, newer=True)
        _take_inputs(model, file, _unused_prefix(model))
        content = model.SerializeToString()
        with limited_memory(file.name, memory_to_try(len(content)), Allowance(len(content))):
            session = session_for(content, name=file.name, context=context)
    except EdgepackError:
        return at_most

    names = [each.name for each in session.get_outputs()]

    def takes(tokens: int) -> bool:
        try:
            session.run(names, one_text(model, tokens))
        except EdgepackError:
            raise
        except Exception:  # the binding raises a class of its own for each status
            return False
        return True

    if takes(at_most) or not takes(1):
        return at_most
    taken, refused = 1, at_most
    while refused - taken > 1:
        middle = (taken + refused) // 2
        taken, refused = (middle, refused) if takes(middle) else (taken, middle)
    return taken


def _cleaned(file: Path, *, newer: bool) -> onnx.ModelProto:
    try:
        return cleaned(file)
    except UnsupportedModelError:
        if not newer or not running(onnx.load(str(file), load_external_data=False)):
            raise
        return cleaned(file, lower=False)


def _unused_prefix(model: onnx.ModelProto) -> str:
    """For names that are added; a graph that was adapted before has some of them."""
    names = {name for node in model.graph.node for name in node.output}
    names |= {tensor.name for tensor in model.graph.initializer}
    prefix = PREFIX
    while any(name.startswith(prefix) for name in names):
        prefix += PREFIX
    return prefix


def _take_inputs(model: onnx.ModelProto, file: Path, prefix: str) -> None:
    """Name the inputs as ours, int64 [batch, sequence]; refuse what is no text encoder."""
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [each for each in model.graph.input if each.name not in weights]
    del model.graph.input[:]
    for each in inputs:
        name = OTHER_NAMES.get(each.name, each.name)
        if name == POSITIONS:
            _count_positions(model, each, prefix)
            continue
        if name not in INPUTS:
            raise UnsupportedModelError(
                f"{file.name} has an input {each.name}; edgepack knows {', '.join(INPUTS)}",
                hint="export the encoder alone, with those inputs",
            )
        _require_dynamic(each, file)
        if name != each.name:
            rename_value(model, each.name, name)
        if each.type.tensor_type.elem_type != TensorProto.INT64:
            _cast_input(model, name, each.type.tensor_type.elem_type, prefix)
        model.graph.input.append(token_input(name))
    present = {each.name for each in model.graph.input}
    if missing := [name for name in INPUTS[:2] if name not in present]:
        raise UnsupportedModelError(
            f"{file.name} has no input {missing[0]}", hint="export the model with its attention mask"
        )


def _count_positions(model: onnx.ModelProto, positions: onnx.ValueInfoProto, prefix: str) -> None:
    """Decoders take the places of tokens from outside: 0, 1, 2, … for every text, as it is padded on the right."""
    writer = GraphWriter(prefix=f"{prefix}places.")
    shape = writer.add("Shape", "shape", "input_ids")
    length = writer.add("Gather", "length", shape, writer.index(1), axis=0)
    row = writer.add("Range", "row", writer.index(0), length, writer.index(1))
    kind = positions.type.tensor_type.elem_type
    typed = row if kind == TensorProto.INT64 else writer.add("Cast", "typed", row, to=kind)
    writer.add("Expand", "expanded", typed, shape)
    writer.nodes[-1].output[0] = POSITIONS
    nodes = [*writer.nodes, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(writer.initializers.values())


def _require_dynamic(value: onnx.ValueInfoProto, file: Path) -> None:
    sizes = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    if any(sizes):
        shape = " x ".join(str(size) if size else "any" for size in sizes)
        raise UnsupportedModelError(
            f"{file.name} takes {value.name} of the fixed size {shape} only",
            hint="export the model with dynamic axes for batch and sequence",
        )


def _cast_input(model: onnx.ModelProto, name: str, kind: int, prefix: str) -> None:
    inner = f"{prefix}{name}"
    rename_value(model, name, inner)
    model.graph.node.insert(0, helper.make_node("Cast", [name], [inner], name=inner, to=kind))


def _try_out(model: onnx.ModelProto, file: Path, context: BuildContext | None) -> Mapping[str, np.ndarray]:
    """Run the model on a small batch with padding: every output by its name."""
    content = model.SerializeToString()
    try:
        with limited_memory(file.name, memory_to_try(len(content)), Allowance(len(content))):
            session = session_for(content, name=file.name, context=context)
            names = [each.name for each in session.get_outputs()]
            values = session.run(names, padded_batch(model))
    except EdgepackError:
        raise
    except Exception as error:  # the binding raises a class of its own for each status
        raise ModelError(
            f"{file.name} cannot be run: {str(error).strip().splitlines()[-1]}",
            hint="the graph expects inputs other than tokens, or is damaged",
        ) from error
    return dict(zip(names, values, strict=True))


def _choose_output(outputs: Mapping[str, np.ndarray], source: ModelSource) -> str:
    """The output that is, or is to become, the text's vector."""
    pooling = source.pooling
    before_cut = dimension_of(source.config) if pooling.cut else None
    linear = [each.inputs for each in pooling.dense if isinstance(each, Dense)]
    ways = len(pooling.modes)
    width = linear[0] // ways if linear else before_cut or source.dimension // ways
    fitting = {name: value for name, value in outputs.items() if value.shape[-1:] == (width,)}
    # Whether a text's vector has gone through further modules already, nobody can see.
    ranked = _ranked(
        fitting, text_vectors=not (pooling.dense or pooling.joined), head=source.reading.treat_as_embedding
    )
    if not ranked:
        found = ", ".join(f"{name} {list(value.shape)}" for name, value in outputs.items())
        raise UnsupportedModelError(
            f"no output of the graph holds vectors of {width} dimensions (for 4 texts it gives {found})",
            hint="config.json and the graph are of different models, or the graph has another head",
        )
    return ranked[0]


def _ranked(outputs: Mapping[str, np.ndarray], *, text_vectors: bool, head: bool) -> list[str]:
    """Outputs of vectors, the likeliest first; without ``text_vectors`` those of tokens only, with ``head`` that of a head too.

    Of outputs that say nothing by their names the graph's first comes first: what a model gives beside its vectors is behind them.
    """
    vectors = [name for name, value in outputs.items() if value.ndim == 2 and text_vectors]
    tokens = [name for name, value in outputs.items() if value.ndim == 3]
    return [
        *(name for name in TEXT_VECTORS if name in vectors),
        *(name for name in TOKEN_VECTORS if name in tokens),
        *(n for n in outputs if n in tokens or (n in vectors and n not in (NOT_A_TEXT_VECTOR, PERHAPS_NONE))),
        *(name for name in vectors if head or name != NOT_A_TEXT_VECTOR),
    ]


def _append(model: onnx.ModelProto, chosen: str, value: np.ndarray, source: ModelSource, prefix: str) -> None:
    """Make the chosen output the text's vector, float32 [batch, dimension], and the only output."""
    rename_value(model, OUTPUT, f"{prefix}{OUTPUT}")
    if chosen == OUTPUT:
        chosen = f"{prefix}{OUTPUT}"
    writer = GraphWriter(prefix=prefix)
    vector = chosen
    if value.dtype != np.float32:
        vector = writer.add("Cast", "float32", chosen, to=TensorProto.FLOAT)
    if value.ndim == 3:
        pool(writer, vector, "attention_mask", source.pooling)
    else:
        finish_vector(writer, vector, source.pooling)
    model.graph.node.extend(writer.nodes)
    model.graph.initializer.extend(writer.initializers.values())
    del model.graph.output[:]
    model.graph.output.append(embedding_output(source.dimension))
