"""What is in a library, as tables for the terminal."""

from collections.abc import Iterable, Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from edgepack.foundry.explain.sizes import (
    DYNAMIC,
    EVERY,
    MERGED,
    SEVERAL,
    Explanation,
    MemberRow,
    Row,
    short_name,
)
from edgepack.foundry.explain.weaknesses import LINKED, NOT_KNOWN, Weakness
from edgepack.tables import Number, add_row, blocks, table

_NAMED = 3
"""More operators than this are counted, not named."""


def render_explanation(explanation: Explanation, *, members: int) -> Group:
    """Tables by section, by area, by operator and by object; the first two sum to the file."""
    parts: list[Text | Table] = [Text(f"{explanation.library}: {explanation.bytes:,} bytes")]
    if explanation.about:
        parts.append(Text(explanation.about))
    parts.append(_sums("by section", "section", explanation.sections, explanation.bytes))
    if not explanation.members:
        note = "no record of how this library was linked is beside it or in the cache: sections only"
        if explanation.about:
            note = "objects and operators are known of libraries that were linked by zig's lld: sections only"
        return blocks(*parts, Text(note, style="dim"))
    parts.append(_sums("by area", "area", explanation.areas, explanation.bytes, members=True))
    parts.append(_operators(explanation))
    parts.append(_members(explanation.members, members))
    if explanation.weaknesses:
        parts.append(_weaknesses(explanation.weaknesses))
    return blocks(*parts)


def render_why(members: Sequence[MemberRow]) -> Group:
    """How objects came in, a step a line."""
    lines: list[Text] = []
    for member in members:
        head = ", for ".join(
            filter(None, (f"{short_name(member.name)}: {member.bytes:,} bytes", _for(member)))
        )
        lines.append(Text(head, style="bold"))
        steps = member.why or ("nothing is known of how it came in",)
        lines += [Text(f"{'  ' * (depth + 1)}{step}") for depth, step in enumerate(steps)]
    return Group(*lines)


def _sums(title: str, first: str, rows: Iterable[Row], total: int, *, members: bool = False) -> Table:
    count = ["objects"] if members else []
    made = table(first, *map(Number, (*count, "bytes", "share")), title=title)
    for row in rows:
        count = [str(row.members or "")] if members else []
        add_row(made, row.name, *count, f"{row.bytes:,}", f"{row.bytes / total:.1%}")
    made.add_section()
    add_row(made, "total", *([""] if members else []), f"{total:,}", "", style="bold")
    return made


def _operators(explanation: Explanation) -> Table:
    made = table("operator", Number("alone"), Number("with others"), title="by operator, bytes")
    for row in explanation.operators:
        add_row(made, row.name, f"{row.alone:,}", f"{row.shared:,}")
    made.add_section()
    for total in explanation.askers:
        if total.name in (EVERY, SEVERAL):
            add_row(made, total.name, f"{total.bytes:,}", "")
    return made


def _weaknesses(rows: Sequence[Weakness]) -> Table:
    """Those whose code is in the library, or may be; the others are counted."""
    made = table("published", "code", "what", title="known vulnerabilities of the release")
    shown = [row for code in (LINKED, NOT_KNOWN) for row in rows if row.code == code]
    for row in shown:
        add_row(made, row.id, row.code, row.summary)
    made.add_section()
    add_row(made, f"{len(rows) - len(shown)} others", "not in it", "")
    return made


def _members(rows: Sequence[MemberRow], count: int) -> Table:
    shown = rows[:count]
    made = table("object", Number("bytes"), "for", title=f"the {len(shown)} largest of {len(rows)} objects")
    for row in shown:
        add_row(made, short_name(row.name), f"{row.bytes:,}", _for(row))
    return made


def _for(row: MemberRow) -> str:
    if not row.operators:
        return "" if row.area in (MERGED, DYNAMIC) else EVERY
    if len(row.operators) > _NAMED:
        return f"{len(row.operators)} operators"
    return ", ".join(row.operators)
