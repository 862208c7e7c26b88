"""Differences in the terminal and as JSON."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from edgepack.api.kit import Number, Word, add_row, table
from edgepack.records.report import DownloadCost
from edgepack.tables import blocks, column_megabytes
from edgepack.terminal_text import foreign_words
from edgepack_updates.compare import BundleChange, Drift
from edgepack_updates.verdict import Verdict

SCHEMA = 1
_STYLES = {"same": "green", "mixed": "yellow", "rebuild": "red", "undecided": "yellow"}


@dataclass(frozen=True, kw_only=True)
class PartChange:
    """Bytes of one part: raw before and after, and what of it an update sends."""

    name: str
    before: int
    after: int
    update: int


@dataclass(frozen=True, kw_only=True)
class Difference:
    """All that is said of two bundles."""

    old: str
    """Digest."""
    new: str
    old_said_by: Word
    """Whose word the old bundle's manifest and golden vectors are."""
    new_said_by: Word
    changes: tuple[BundleChange, ...]
    parts: tuple[PartChange, ...]
    archive_before: int
    archive_after: int
    update: int
    """Bytes of the delta."""
    costs_whole: tuple[DownloadCost, ...]
    """Of the new archive."""
    costs_update: tuple[DownloadCost, ...]
    drift: Drift | None
    verdict: Verdict


def as_json(found: Difference) -> dict[str, Any]:
    """Plain data (schema 1): bytes are whole numbers, money is in the currency named."""
    return {"schema": SCHEMA, **asdict(found)}


def render(found: Difference) -> Group:
    """Differences in words: what differs, bytes, money, vectors, and the verdict last."""
    found = foreign_words(found)
    lines: list[RenderableType] = []
    if found.changes:
        made = table("", "old", "new")
        for change in found.changes:
            add_row(made, change.what, change.old, change.new)
        lines.append(made)
    lines.append(_bytes(found))
    if found.costs_whole:
        lines.append(_money(found))
    lines += [Text(line) for line in _vectors(found.drift)]
    lines.append(Text(found.verdict.says, style=_STYLES[found.verdict.outcome]))
    return blocks(*lines)


def _bytes(found: Difference) -> RenderableType:
    made = table("part", Number("before MB"), Number("after MB"), Number("update MB, at most"))
    for part in found.parts:
        add_row(made, part.name, *map(column_megabytes, (part.before, part.after, part.update)))
    sizes = (found.archive_before, found.archive_after, found.update)
    add_row(made, "archive", *map(column_megabytes, sizes), style="bold")
    return made


def _money(found: Difference) -> RenderableType:
    whole, update = _by_provider(found.costs_whole), _by_provider(found.costs_update)
    devices = sorted({cost.devices for cost in found.costs_whole})
    made = table("whole → update", *(Number(f"{count:,} devices") for count in devices))
    for provider, costs in whole.items():
        cells = (f"{costs[count].amount:,.2f} → {update[provider][count].amount:,.2f}" for count in devices)
        add_row(made, f"{provider}, {costs[devices[0]].currency}", *cells)
    return made


def _by_provider(costs: tuple[DownloadCost, ...]) -> Mapping[str, dict[int, DownloadCost]]:
    found: dict[str, dict[int, DownloadCost]] = {}
    for cost in costs:
        found.setdefault(cost.provider, {})[cost.devices] = cost
    return found


def _vectors(drift: Drift | None) -> Iterator[str]:
    if drift is None:
        return
    how = "through both programs" if drift.by == "programs" else "as their makers wrote down"
    yield (
        f"vectors of {drift.texts} texts {how}: cosine {drift.mean_cosine:.6f}, lowest {drift.min_cosine:.6f}, "
        f"largest difference {drift.largest_difference:.1e}"
    )
    if drift.nearest_kept is not None and drift.top10_kept is not None:
        yield (
            f"queries by the new bundle in an index by the old one: nearest kept {drift.nearest_kept:.1%}, "
            f"ten nearest {drift.top10_kept:.1%}"
        )
    if (scores := drift.scores) is not None:
        yield (
            f"scores of {scores.texts:,} texts through both programs: Kendall's tau {scores.tau:.4f}, best kept "
            f"{scores.kept:.1%}, largest difference {scores.largest:.1e}"
        )
    if (found := drift.retrieval) is not None:
        yield (
            f"{found.queries} words among {found.glosses:,} glosses, recall@10: old {found.recall_old:.4f}, "
            f"new {found.recall_new:.4f}, mixed {found.recall_mixed:.4f}; ten nearest kept {found.top10_kept:.1%}"
        )
    if drift.reason:
        yield f"not run: {drift.reason}"
