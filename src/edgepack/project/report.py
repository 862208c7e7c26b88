"""The report of a project's build: rows for the terminal, JSON, one page."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from edgepack.bundles.manifest import digest, read_manifest
from edgepack.errors import BundleError, UsageError
from edgepack.files.folder import PAGE, require_kind
from edgepack.files.store import Store, default_root, written_beside
from edgepack.project.jobs import Result
from edgepack.recorded.beside import record_beside
from edgepack.records.bundle import Bundle
from edgepack.records.word import HERE, Word
from edgepack.reports.page.beside import drawn_bars
from edgepack.reports.page.cards import Card, render_cards
from edgepack.reports.page.markup import document, section, table
from edgepack.tables import megabytes

SCHEMA = 1
COLUMNS = ("bundle", "state", "archive MB", "mean cosine", "seconds")
MADE = ("bundle", "state", "archive MB", "mean cosine", "lowest", "verified", "seconds")
"""Columns of the page's table of bundles that there are."""
REPLACED = ("to be made", "in the store")
"""States of a dry run: what lies in the place is another bundle, or damaged."""
FORMS = {".html": PAGE, ".json": re.compile(rb'{\s*"schema": \d+,\s*"bundles": \[')}
"""What a report's name ends with → how it begins."""


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Figures in a bundle's own report."""

    digest: str | None = None
    archive_bytes: int | None = None
    mean_cosine: float | None = None
    min_cosine: float | None = None
    status: str = ""
    said_by: Word | None = None
    """Whose word that is; ``None``: there is no report."""


def figures_of(result: Result) -> Figures:
    """Nothing where there is no bundle, where the one that lies there is to be replaced, or no report beside it that can be read."""
    if result.path is None or result.error is not None or result.state in REPLACED:
        return Figures()
    try:
        record = record_beside(result.path, store=Store(root=default_root()))
        manifest = read_manifest(result.path)
        # Another bundle's report says nothing of this one.
        if record is None or record.content["digest"] != digest(
            Bundle(directory=result.path, manifest=manifest)
        ):
            return Figures()
        found = record.content["verification"]
        return Figures(
            digest=str(record.content["digest"]),
            archive_bytes=int(record.content["archive_bytes"]),
            mean_cosine=float(found["mean_cosine"]),
            min_cosine=float(found["min_cosine"]),
            status=str(found["status"]),
            said_by=record.said_by,
        )
    except (BundleError, OSError, ValueError, KeyError, TypeError):
        return Figures()


def row_of(result: Result) -> dict[str, str]:
    found = figures_of(result)
    return {
        "bundle": result.label,
        "state": f"failed: {result.error.message}" if result.error else result.state,
        "archive MB": "" if found.archive_bytes is None else f"{found.archive_bytes / 1e6:.2f}",
        "mean cosine": _cosine(found),
        "seconds": f"{result.seconds:.1f}",
    }


def _cosine(found: Figures) -> str:
    if found.mean_cosine is None or found.said_by is None:
        return ""
    return f"{found.mean_cosine:.4f}{'' if found.said_by == HERE else f', {found.said_by}'}"


def summary(results: Sequence[Result], *, seconds: float) -> str:
    """E.g. ``12 bundles in 31 s: 2 made, 10 up to date``."""
    states = Counter(result.state for result in results)
    said = ", ".join(f"{states[state]} {state}" for state in sorted(states))
    return f"{len(results)} bundles in {seconds:.0f} s: {said or 'none'}"


def as_dict(results: Iterable[Result]) -> dict[str, Any]:
    """Document that ``--json`` prints."""
    return {"schema": SCHEMA, "bundles": [_as_dict(each) for each in results]}


def _as_dict(result: Result) -> dict[str, Any]:
    error, found = result.error, figures_of(result)
    return {
        "bundle": result.label,
        "state": result.state,
        "path": None if result.path is None else str(result.path),
        "key": result.key or None,
        "digest": found.digest,
        "archive_bytes": found.archive_bytes,
        "mean_cosine": found.mean_cosine,
        "said_by": None if found.said_by is None else asdict(found.said_by),
        "seconds": round(result.seconds, 3),
        "warnings": list(result.warnings),
        "error": None if error is None else {"message": error.message, "hint": error.hint},
    }


def require_form(file: Path) -> None:
    """Raise ``UsageError`` for a report in a form that there is not, or in the place of another file."""
    if file.suffix not in FORMS:
        raise UsageError(
            f"--report {file} is neither a page nor JSON", hint="name a file that ends with .html or .json"
        )
    require_kind(file, FORMS[file.suffix])


def write_report(file: Path, results: Sequence[Result], *, seconds: float) -> None:
    """One file: a page where its name ends with ``.html``, else what ``--json`` prints."""
    page = file.suffix == ".html"
    text = render_page(results, seconds=seconds) if page else json.dumps(as_dict(results), indent=1) + "\n"
    with written_beside(file) as temporary:
        temporary.write_text(text, encoding="utf-8")


def render_page(results: Sequence[Result], *, seconds: float) -> str:
    """A complete HTML document that asks nobody for anything: cards, failures with what to do, then all bundles and their sizes."""
    failures = [
        (each.label, each.error.message, each.error.hint or "") for each in results if each.error is not None
    ]
    warnings = [(each.label, warning) for each in results for warning in each.warnings]
    bundles = [(each, figures_of(each)) for each in results if each.error is None]
    sections = [
        ("failed", "Failed", _words(("bundle", "what is wrong", "what to do"), failures), len(failures)),
        ("warnings", "Warnings", _words(("bundle", "warning"), warnings), len(warnings)),
        ("bundles", "Bundles", _table(bundles), len(bundles)),
        ("sizes", "Sizes", _bars(bundles), 0),
    ]
    inside = Template((files("edgepack.project") / "page.html").read_text(encoding="utf-8")).substitute(
        summary=escape(summary(results, seconds=seconds)),
        status="failed" if failures else "passed",
        verdict=f"{len(failures)} failed" if failures else "none failed",
        contents="".join(
            f'<a href="#{name}">{title}</a>\n' for name, title, content, _ in sections if content
        ),
        cards=render_cards(_cards(results, [found for _, found in bundles])),
        sections="".join(
            section(name, f"{title} ({count})" if count else title, content)
            for name, title, content, count in sections
        ),
    )
    return document("edgepack build", inside)


def _cards(results: Sequence[Result], bundles: Sequence[Figures]) -> list[Card]:
    """Figures of all bundles together: of those whose word counts here."""
    counted = [each for each in bundles if each.said_by is not None and each.said_by.counts]
    passed = sum(each.status == "passed" for each in counted)
    states = Counter(each.state for each in results)
    said = ", ".join(f"{states[state]} {state}" for state in sorted(states))
    cards = [
        Card(what="Bundles", value=str(len(results)), limit=said),
        Card(
            what="Verified",
            value=str(passed),
            unit=f"of {len(results)}",
            met=passed == len(results),
            limit="passed here, or by a known key",
        ),
    ]
    sizes = [each.archive_bytes for each in counted if each.archive_bytes is not None]
    if sizes:
        span = f"{megabytes(min(sizes))} to {megabytes(max(sizes))} each"
        cards.append(Card(what="Archives", value=megabytes(sum(sizes)), unit="MB", limit=span))
    means = [each.mean_cosine for each in counted if each.mean_cosine is not None]
    if means:
        lowest = min(each.min_cosine for each in counted if each.min_cosine is not None)
        cards.append(
            Card(
                what="Mean cosine",
                value=f"{min(means):.4f}",
                limit="at least, by bundle",
                beside=f"of any text {lowest:.4f}",
            )
        )
    return cards


def _table(bundles: Sequence[tuple[Result, Figures]]) -> str:
    if not bundles:
        return ""
    rows = [
        (
            each.label,
            each.state,
            "" if found.archive_bytes is None else megabytes(found.archive_bytes),
            _cosine(found),
            f"{found.min_cosine:.4f}" if found.min_cosine is not None and found.said_by == HERE else "",
            ""
            if found.said_by is None
            else "✓"
            if found.status == "passed" and found.said_by.counts
            else "✗",
            f"{each.seconds:.1f}",
        )
        for each, found in bundles
    ]
    return table(MADE, rows, kind="figures", caption="Bundles")


def _bars(bundles: Sequence[tuple[Result, Figures]]) -> str:
    """Archives to one scale, the smallest first; nothing for one of them alone."""
    sized = [(found.archive_bytes, each.label) for each, found in bundles if found.archive_bytes]
    if len(sized) < 2:
        return ""
    bars = [(label, size / 1e6, megabytes(size)) for size, label in sorted(sized)]
    return drawn_bars("Archive, MB", bars, said="what a device downloads, as .tar.zst", own=len(bars))


def _words(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return table(head, rows, kind="words", caption=head[1]) if rows else ""
