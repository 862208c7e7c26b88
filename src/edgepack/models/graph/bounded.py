"""Graphs that need never end. A stranger's is folded and run in edgepack's own process, where nothing interrupts it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from edgepack.errors import UnsupportedModelError

MOST_NODES = 1 << 17
"""With all functions written out; torch.export's graphs have some thousands."""
DEEPEST = 64
"""Functions within functions. ONNX's inliner goes down by recursion: where its stack ends, so does the process."""

Named = tuple[str, str]
"""Domain and operator."""


def require_bounded(model: Any, name: str) -> None:
    """Raise ``UnsupportedModelError`` for a ``ModelProto`` with loops, or with functions that call themselves or stand for too much."""
    bodies: dict[Named, list[Named]] = defaultdict(list)
    for function in model.functions:
        # Of overloads, which share a name, a call counts as all.
        bodies[_named(function.domain, function.name)] += _called(function.node, name)
    whole = list(_called(model.graph.node, name))
    sizes: dict[Named, int] = {}
    for _ in range(DEEPEST):
        sizes |= {
            each: _size(body, bodies, sizes)
            for each, body in bodies.items()
            if each not in sizes and all(called in sizes or called not in bodies for called in body)
        }
    if len(sizes) < len(bodies) or max(_size(whole, bodies, sizes), *sizes.values(), 0) > MOST_NODES:
        raise UnsupportedModelError(
            f"{name} has functions that call themselves or one another more than {DEEPEST} deep, or that "
            f"stand for more than {MOST_NODES:,} operators",
            hint="export the model without functions of its own",
        )


def _size(body: Iterable[Named], bodies: Mapping[Named, object], sizes: Mapping[Named, int]) -> int:
    return 1 + sum(sizes[called] if called in bodies else 1 for called in body)


def _called(nodes: Iterable[Any], name: str) -> Iterator[Named]:
    """Operators of all nodes, of those in branches too."""
    for node in nodes:
        yield _named(node.domain, node.op_type)
        for attribute in node.attribute:
            graphs = [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]
            if graphs and node.op_type != "If":
                raise UnsupportedModelError(
                    f"{name} has a {node.op_type}, and nothing says when that ends",
                    hint="export the model by tracing it, without loops",
                )
            for graph in graphs:
                yield from _called(graph.node, name)


def _named(domain: str, operator: str) -> Named:
    return ("" if domain == "ai.onnx" else domain), operator
