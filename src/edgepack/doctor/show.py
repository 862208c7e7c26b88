"""A diagnosis as a table for people, and as plain data for programs."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from edgepack.doctor.verdict import Cosines, Diagnosis
from edgepack.tables import add_row, table

if TYPE_CHECKING:
    from rich.table import Table


def as_dict(made: Diagnosis) -> dict[str, Any]:
    """Schema 1."""
    return {"verdict": made.verdict, "exit_code": made.exit_code, "line": made.line, **asdict(made)}


def render(made: Diagnosis) -> "Table":
    """Figures first, then a line for each finding and note."""
    shown = table("", "found", "expected", title=f"{made.subject} against {made.model}")
    add_row(shown, "cosine", _figures(made.cosines), "1")
    if made.explained is not None:
        add_row(shown, "cosine, the mistakes allowed for", _figures(made.explained), "1")
    for each in made.findings:
        matters = "" if each.without is None else f" (mean cosine {each.without:.4f} were it not allowed for)"
        add_row(shown, each.verdict, each.found + matters, each.expected, style="bold")
    if made.largest_batch:
        add_row(shown, "largest batch that was tried", f"{made.largest_batch} texts", "")
    for note in made.notes:
        add_row(shown, "note", note, "")
    return shown


def _figures(cosines: Cosines | None) -> str:
    if cosines is None:
        return "not comparable"
    return f"mean {cosines.mean:.5f}, 1st percentile {cosines.p1:.5f}, lowest {cosines.least:.5f}, {cosines.texts} texts"
