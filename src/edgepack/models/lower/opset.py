"""Newer opsets, lowered to the newest that ONNX Runtime 1.21.0 has kernels for.

Between opsets 21 and 28 most operators only learned more element types; their nodes stay as they are. Those that are new are
written with older ones (``LOWERED``). Everything else is rejected by its name: an operator or attribute that opset 21 does not know.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import onnx
from onnx import defs, helper

from edgepack.errors import UnsupportedModelError
from edgepack.models.graph.clean import all_graphs
from edgepack.models.graph.facts import GraphFacts, facts_of
from edgepack.models.graph.writer import GraphWriter
from edgepack.models.lower.attention import attention
from edgepack.models.lower.operators import (
    CannotLowerError,
    rms_normalization,
    rotary_embedding,
    swiglu,
    swish,
)

NEWEST_RUN = 21
"""The newest opset that ONNX Runtime 1.21.0 has all kernels of."""
NEWEST_KNOWN = 28
"""The newest opset of which edgepack knows what it changed (onnx 1.23)."""
OWN = ("", "ai.onnx")

Rule = Callable[[GraphWriter, onnx.NodeProto, GraphFacts], str]
LOWERED: Mapping[str, Rule] = {
    "Attention": attention,
    "RMSNormalization": rms_normalization,
    "RotaryEmbedding": rotary_embedding,
    "SwiGLU": swiglu,
    "Swish": swish,
}
NEUTRAL: Mapping[tuple[str, str], tuple[object, ...]] = {
    ("Cast", "round_mode"): (b"up",),
    ("CastLike", "round_mode"): (b"up",),
    ("DequantizeLinear", "output_dtype"): (0, 1),
    ("QuantizeLinear", "precision"): (0, 1),
    ("Range", "stash_type"): (1,),
    ("SpaceToDepth", "mode"): (b"DCR",),
}
"""Attributes that came later, and values of them that change nothing for float32."""


def lower_opset(model: onnx.ModelProto, file: Path) -> onnx.ModelProto:
    """The same model in an opset that ONNX Runtime 1.21.0 runs; the model itself where it is in one already.

    Raises ``UnsupportedModelError`` for an opset that is not known, and for operators that cannot be said with older ones.
    """
    opset = next((each.version for each in model.opset_import if each.domain in OWN), 1)
    if opset > NEWEST_KNOWN:
        raise UnsupportedModelError(
            f"{file.name} is of opset {opset}; the newest that edgepack knows is {NEWEST_KNOWN}",
            hint=f"export the model with opset {NEWEST_RUN} or older, or install a newer edgepack",
        )
    if opset <= NEWEST_RUN:
        return model
    facts = facts_of(_relabelled(model))
    for graph in all_graphs(model.graph):
        _lower_graph(graph, facts, opset, file)
    return _relabelled(model)


def _relabelled(model: onnx.ModelProto) -> onnx.ModelProto:
    same = onnx.ModelProto()
    same.CopyFrom(model)
    for each in same.opset_import:
        if each.domain in OWN:
            each.version = NEWEST_RUN
    return same


def _lower_graph(graph: onnx.GraphProto, facts: GraphFacts, opset: int, file: Path) -> None:
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        if node.domain not in OWN:
            nodes.append(node)
        elif node.op_type in LOWERED:
            writer = GraphWriter(prefix=f"{node.output[0]}.")
            try:
                LOWERED[node.op_type](writer, node, facts)
            except CannotLowerError as error:
                raise _refused(f"{node.op_type} {error}", opset, file) from error
            writer.nodes[-1].output[0] = node.output[0]
            nodes.extend(writer.nodes)
            graph.initializer.extend(writer.initializers.values())
        else:
            nodes.append(_as_before(node, opset, file))
    del graph.node[:]
    graph.node.extend(nodes)


def _as_before(node: onnx.NodeProto, opset: int, file: Path) -> onnx.NodeProto:
    """The node without attributes that say nothing; rejected where opset 21 has no such operator or attribute."""
    if not defs.has(node.op_type, NEWEST_RUN, ""):
        raise _refused(node.op_type, opset, file)
    known = defs.get_schema(node.op_type, NEWEST_RUN, "").attributes
    kept = [each for each in node.attribute if each.name in known]
    for each in node.attribute:
        neutral = NEUTRAL.get((node.op_type, each.name), ())
        if each.name not in known and helper.get_attribute_value(each) not in neutral:
            raise _refused(f"{node.op_type} with {each.name}", opset, file)
    same = onnx.NodeProto()
    same.CopyFrom(node)
    del same.attribute[:]
    same.attribute.extend(kept)
    return same


def _refused(what: str, opset: int, file: Path) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"{file.name} uses {what} of opset {opset}, which ONNX Runtime 1.21.0 has not, and which older operators cannot express",
        hint=f"export the model with opset {NEWEST_RUN} or older",
    )
