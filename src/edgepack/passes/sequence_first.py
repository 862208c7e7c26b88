"""Activations as [sequence, batch, hidden] instead of [batch, sequence, hidden]: one transposition a layer, not four.

A product of heads wants [batch, heads, sequence, size], a product with weights makes [batch, sequence, hidden]: three
transpositions before attention's products and one after them, of all activations, in every layer. FusedMatMul
(https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.FusedMatMul) can read heads out of
[sequence, batch, heads, size] where they lie. Whatever is done to each token alone does not depend on the order of tokens:
only the token ids are transposed, once, and the last layer's vectors before they are pooled.

Cost: none; the vectors stay the same to 0.00001, which is checked.
"""

from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper

from edgepack.models.fuse.fusion import LARGEST_DIFFERENCE, largest_difference
from edgepack.models.graph.editor import MICROSOFT, GraphEditor, edit, with_input
from edgepack.quantization.embeddings import is_embedding_lookup
from edgepack.records.recipe import Note

ATTENTION = "MultiHeadAttention"
OF_EACH_TOKEN = (
    *("Add", "Sub", "Mul", "Div", "Relu", "Tanh", "Sigmoid", "Erf", "Identity"),
    *("LayerNormalization", "SkipLayerNormalization", "BiasGelu", "Gelu", "FastGelu", "QuickGelu"),
)
"""Operators that do the same to every token, when all else that they take are vectors of weights."""
HIDDEN = -10000.0
"""What MultiHeadAttention adds to the score of a token that is masked, unless it is told otherwise."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One run of the pass."""

    editor: GraphEditor
    turned: set[str] = field(default_factory=set)
    """Values that are [sequence, batch, hidden] now."""


def sequence_first(model: onnx.ModelProto, note: Note) -> onnx.ModelProto:
    """The same function, with MultiHeadAttention written out as products that read heads where they lie.

    A model whose attention is of another kind stays as it is, and ``note`` says so.
    """
    wanted = sum(node.op_type == ATTENTION for node in model.graph.node)
    try:
        turned = _turned(model)
        left = sum(node.op_type == ATTENTION for node in turned.graph.node)
        if not wanted or left:
            note("its attention cannot be computed with tokens before texts")
            return model
        difference = largest_difference(model, turned)
    except Exception as error:  # the binding has an exception of its own for each status
        note(f"tokens stay behind texts ({type(error).__name__})")
        return model
    if not difference <= LARGEST_DIFFERENCE:
        note(f"tokens stay behind texts (the vectors would change by {difference:.2g})")
        return model
    return turned


def _turned(model: onnx.ModelProto) -> onnx.ModelProto:
    run = Turn(editor=edit(model))
    for node in run.editor.take_nodes():
        if is_embedding_lookup(run.editor, node) and node.input[1] not in run.editor.weights:
            _look_up(run, node)
        elif node.op_type == ATTENTION and _is_plain(run, node):
            _attend(run, node)
        elif _is_of_each_token(run, node):
            run.editor.keep(node)
            run.turned.update(node.output)
        else:
            run.editor.keep(_given_back(run, node))
    return run.editor.finish()


def _look_up(run: Turn, node: onnx.NodeProto) -> None:
    """Rows by ids [sequence, batch]."""
    ids = f"{node.input[1]}.by_sequence"
    if not run.editor.is_made(ids):
        run.editor.add("Transpose", [node.input[1]], [ids], name=ids, perm=[1, 0])
    run.editor.keep(with_input(node, 1, ids))
    run.turned.add(node.output[0])


def _is_plain(run: Turn, node: onnx.NodeProto) -> bool:
    """Whether attention takes projections, their bias and a mask of tokens, and nothing else."""
    given = list(node.input)
    return (
        all(value in run.turned for value in given[:3])
        and len(given) in (4, 5)
        and run.editor.is_vector(given[3])
        and len(run.editor.array(given[3])) % (3 * _heads(node)) == 0
    )


def _is_of_each_token(run: Turn, node: onnx.NodeProto) -> bool:
    if node.op_type == "MatMul":
        return node.input[0] in run.turned and run.editor.is_matrix(node.input[1])
    return (
        node.op_type in OF_EACH_TOKEN
        and any(value in run.turned for value in node.input)
        and all(value in run.turned or _is_small(run.editor, value) for value in node.input if value)
    )


def _is_small(editor: GraphEditor, value: str) -> bool:
    tensor = editor.weights.get(value)
    return tensor is not None and len(tensor.dims) <= 1


def _given_back(run: Turn, node: onnx.NodeProto) -> onnx.NodeProto:
    """The node with what it takes in the order of texts again."""
    for place, value in enumerate(node.input):
        if value in run.turned:
            back = f"{value}.by_text"
            if not run.editor.is_made(back):
                run.editor.add("Transpose", [value], [back], name=back, perm=[1, 0, 2])
            node = with_input(node, place, back)
    return node


def _attend(run: Turn, node: onnx.NodeProto) -> None:
    """Scores of queries and keys, their softmax, and its product with the values."""
    editor, output, heads = run.editor, node.output[0], _heads(node)
    size = len(editor.array(node.input[3])) // (3 * heads)
    query, key, value = (_heads_of(editor, node, at, size) for at in range(3))
    scores = editor.add(
        "FusedMatMul",
        [query, key],
        [f"{output}.scores"],
        name=f"{output}.scores",
        domain=MICROSOFT,
        alpha=_attribute(node, "scale") or size**-0.5,
        transB=1,
        transBatchA=1,
        transBatchB=1,
    )
    if len(node.input) > 4 and node.input[4]:
        masked = _what_hides(editor, node)
        scores = editor.add("Add", [scores, masked], [f"{output}.masked"], name=f"{output}.masked")
    shares = editor.add("Softmax", [scores], [f"{output}.shares"], name=f"{output}.shares", axis=-1)
    mixed = editor.add(
        "FusedMatMul",
        [shares, value],
        [f"{output}.heads"],
        name=f"{output}.heads",
        domain=MICROSOFT,
        transBatchB=1,
    )
    ordered = editor.add(
        "Transpose", [mixed], [f"{output}.ordered"], name=f"{output}.ordered", perm=[2, 0, 1, 3]
    )
    whole = editor.weight("attention.whole", np.array([0, 0, heads * size], np.int64))
    editor.add("Reshape", [ordered, whole], [output], name=node.name or output)
    run.turned.add(output)


def _heads_of(editor: GraphEditor, node: onnx.NodeProto, at: int, size: int) -> str:
    """Queries, keys or values with their bias, [sequence, batch, heads, size]."""
    name, heads = f"{node.output[0]}.{('query', 'key', 'value')[at]}", _heads(node)
    width = heads * size
    part = editor.array(node.input[3])[at * width : (at + 1) * width]
    bias = editor.weight(f"{name}.bias", part.copy())
    biased = editor.add("Add", [node.input[at], bias], [f"{name}.biased"], name=f"{name}.biased")
    apart = editor.weight("attention.heads", np.array([0, 0, heads, size], np.int64))
    return editor.add("Reshape", [biased, apart], [name], name=name)


def _what_hides(editor: GraphEditor, node: onnx.NodeProto) -> str:
    """Mask that is added to scores, float32 [batch, 1, 1, sequence]; made once for all layers."""
    mask = node.input[4]
    hides = f"{mask}.hides"
    if not editor.is_made(hides):
        shape = editor.weight("attention.row", np.array([0, 1, 1, -1], np.int64))
        one = editor.weight("attention.one", np.array(1, np.float32))
        hidden = _attribute(node, "mask_filter_value") or HIDDEN
        weight = editor.weight("attention.hidden", np.array(-hidden, np.float32))
        kept = editor.add("Cast", [mask], [f"{mask}.kept"], name=f"{mask}.kept", to=TensorProto.FLOAT)
        row = editor.add("Reshape", [kept, shape], [f"{mask}.row"], name=f"{mask}.row")
        less = editor.add("Sub", [row, one], [f"{mask}.less"], name=f"{mask}.less")
        editor.add("Mul", [less, weight], [hides], name=hides)
    return hides


def _heads(node: onnx.NodeProto) -> int:
    return int(_attribute(node, "num_heads"))


def _attribute(node: onnx.NodeProto, name: str) -> float:
    """An attribute's number, 0 where the node has none of that name."""
    found = (helper.get_attribute_value(each) for each in node.attribute if each.name == name)
    return float(next(found, 0))
