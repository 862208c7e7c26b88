"""What a model is made of, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from edgepack.models.usability import Inspection, OperatorCount

MISSING_SHOWN = 4
"""Operators that are named in the table; ``--json`` has all."""

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table


def render_inspection(inspection: Inspection) -> Group:
    """Facts, weights by part, operators before and after fusion, what hinders, and the recipe that fits."""
    from rich.console import Group
    from rich.text import Text

    hindrances = [Text(f"hindrance: {hindrance}", style="yellow") for hindrance in inspection.hindrances]
    recipe = Text.assemble("recommended recipe: ", (inspection.recipe, "bold"), f", {inspection.reason}")
    tables = (_facts(inspection), _parts(inspection), _operators(inspection), _providers(inspection))
    return Group(*tables, *hindrances, recipe)


def _facts(inspection: Inspection) -> Table:
    from rich.text import Text

    table = _table(inspection.name, "", "")
    normalized = ", normalized" if inspection.pooling.normalize else ""
    rows = {
        "architecture": inspection.architecture,
        "from": inspection.origin,
        "licence": inspection.license or "not said",
        "vectors": f"{inspection.dimension} dimensions, {inspection.pooling.mode} pooling{normalized}",
        "longest text": f"{inspection.max_length} tokens",
        "opset": str(inspection.opset),
        "inputs": ", ".join(f"{given.name} [{', '.join(given.shape)}]" for given in inspection.inputs),
        "shapes": "dynamic" if inspection.dynamic else "fixed",
    }
    if inspection.prompts:
        rows["prompts"] = ", ".join(f"{purpose} {text!r}" for purpose, text in inspection.prompts.items())
    if inspection.matryoshka:
        rows["may be cut to"] = ", ".join(map(str, inspection.matryoshka))
    for name, value in rows.items():
        table.add_row(name, Text(value))  # a shape's brackets are no markup
    return table


def _parts(inspection: Inspection) -> Table:
    table = _table("parameters", "part", "millions")
    for part in inspection.parts:
        table.add_row(part.name, f"{part.parameters / 1e6:.2f}")
    table.add_row("all", f"{inspection.parameters / 1e6:.2f}", style="bold")
    return table


def _operators(inspection: Inspection) -> Table:
    table = _table("operators", "as exported", "", "fused", "")
    before, after = _counts(inspection.operators), _counts(inspection.fused_operators)
    for at in range(max(len(before), len(after))):
        left = before[at] if at < len(before) else ("", "")
        right = after[at] if at < len(after) else ("", "")
        table.add_row(*left, *right)
    return table


def _providers(inspection: Inspection) -> Table:
    table = _table("execution providers", "provider", "nodes", "form of the graph", "parts", "runs", "lacks")
    for fit in inspection.providers:
        missing = ", ".join(fit.missing[:MISSING_SHOWN])
        more = f" and {len(fit.missing) - MISSING_SHOWN} more" if len(fit.missing) > MISSING_SHOWN else ""
        parts = "" if fit.partitions is None else str(fit.partitions)
        nodes = f"{fit.supported}/{fit.nodes}"
        table.add_row(fit.provider, nodes, fit.form, parts, fit.verdict, missing + more)
    return table


def _counts(operators: Sequence[OperatorCount]) -> list[tuple[str, str]]:
    return [
        (" ".join((f"{operator.domain}.{operator.name}", *operator.types)), str(operator.count))
        for operator in operators
    ]


def _table(title: str, *columns: str) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=SIMPLE_HEAD,
        title=Text(title),
        title_justify="left",
        title_style="bold",
        pad_edge=False,
        show_header=any(columns),
    )
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number % 2 and any(columns) else "left", overflow="fold")
    return table
