"""What plugins add to a report: a section of rows each."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

from edgepack.bundles.packages import require_unchanged
from edgepack.context import BuildContext
from edgepack.errors import PluginError
from edgepack.plugins.blame import blamed_on, listed
from edgepack.plugins.returned import is_text
from edgepack.records.bundle import Bundle
from edgepack.records.report import Report, Section

AXIS = "report"
MOST = 10_000
"""Characters of a label or a value."""


class ReportRows(Protocol):
    """The rows of a section of reports."""

    def __call__(self, bundle: Bundle, report: Report, /) -> Iterable[tuple[str, str]]:
        """A label and a value each; none: the section is left out. The bundle is where ``bundle.directory`` says, for reading."""


def with_sections(bundle: Bundle, report: Report, *, context: BuildContext) -> Report:
    """The report with what plugins say of the bundle. Raises ``PluginError``."""
    sections = []
    for name, found in context.extensions(AXIS).items():
        rows_of: ReportRows = found.make()
        with blamed_on(found.plugin, f"report {name}"):
            answer = rows_of(bundle.absolute(), report)
        rows = listed(found.plugin, f"report {name}", answer, "rows, a label and a value each")
        if wrong := [row for row in rows if not _is_row(row)]:
            raise PluginError(
                f"plugin {found.plugin}: report {name} returned the row {repr(wrong[0])[:80]}, expected a label and a value"
            )
        if odd := [cell for row in rows for cell in row if len(cell) <= MOST and not is_text(cell)]:
            raise PluginError(f"plugin {found.plugin}: report {name} returned {odd[0]!r}, which is no text")
        if long := [cell for row in rows for cell in row if len(cell) > MOST]:
            raise PluginError(
                f"plugin {found.plugin}: report {name} returned {len(long[0]):,} characters in one cell, at most {MOST:,} are shown",
                hint="put what is long into a file of the bundle, and its name into the row",
            )
        require_unchanged(bundle, found.plugin, f"report {name}")
        if rows:
            pairs = tuple((label, value) for label, value in rows)
            sections.append(Section(name=name, title=found.summary or name, rows=pairs))
    return replace(report, sections=tuple(sections))


def _is_row(row: object) -> bool:
    return isinstance(row, (tuple, list)) and len(row) == 2 and all(isinstance(cell, str) for cell in row)
