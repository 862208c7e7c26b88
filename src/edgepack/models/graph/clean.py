"""Graphs put in order: values renamed, dead nodes left out, domains declared."""

from collections.abc import Iterator
from copy import deepcopy

import onnx
from onnx import AttributeProto, helper

from edgepack.models.graph.editor import MICROSOFT


def rename_value(model: onnx.ModelProto, old: str, new: str) -> None:
    """Call a value otherwise wherever it is made or taken, in subgraphs too."""
    for graph in all_graphs(model.graph):
        for node in graph.node:
            for names in (node.input, node.output):
                for place, name in enumerate(names):
                    if name == old:
                        names[place] = new
        for each in (*graph.output, *graph.value_info):
            if each.name == old:
                each.name = new


def without_dead_nodes(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without nodes, weights and inputs that its outputs do not depend on."""
    needed = {each.name for each in model.graph.output}
    kept = []
    for node in reversed(model.graph.node):
        if needed.intersection(node.output):
            kept.append(node)
            needed.update(node.input)
            needed.update(name for graph in subgraphs(node) for each in graph.node for name in each.input)
            needed.update(each.name for graph in subgraphs(node) for each in graph.output)
    pruned = deepcopy(model)
    del pruned.graph.node[:], pruned.graph.initializer[:], pruned.graph.input[:], pruned.graph.value_info[:]
    pruned.graph.node.extend(reversed(kept))
    pruned.graph.initializer.extend(each for each in model.graph.initializer if each.name in needed)
    pruned.graph.input.extend(each for each in model.graph.input if each.name in needed)
    return pruned


def declare_domain(model: onnx.ModelProto) -> None:
    """Some tools write ONNX Runtime's operators without their domain: it runs them, ONNX's own inference does not."""
    declared = {each.domain for each in model.opset_import}
    if MICROSOFT not in declared and any(node.domain == MICROSOFT for node in model.graph.node):
        model.opset_import.append(helper.make_opsetid(MICROSOFT, 1))


def all_graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield graph
    for node in graph.node:
        yield from subgraphs(node)


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield from all_graphs(attribute.g)
        elif attribute.type == AttributeProto.GRAPHS:
            for graph in attribute.graphs:
                yield from all_graphs(graph)
