"""The report in the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from edgepack.records.report import DownloadCost, PartSize, Report, Verification
from edgepack.records.runtime import LevelProof

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

SCHEMA = 1


def render(report: Report) -> Group:
    """Sizes by part, the archive, what downloads cost, and how near the vectors are."""
    from rich.console import Group
    from rich.text import Text

    lines: list[Text | Table] = [_size_table(report), Text(archive_line(report))]
    lines += [_visit_table(report)] if report.visits else []
    lines.append(_cost_table(report))
    lines.append(Text(verification_line(report.verification), style=_STYLES[report.verification.status]))
    if report.proofs:
        lines.append(Text(proof_line(report.proofs)))
    lines += [Text(note, style="dim") for note in report.notes]
    return Group(*lines)


def as_json(report: Report) -> dict[str, Any]:
    """The report as plain data (schema 1): bytes are whole numbers, money is in the currency named."""
    total = total_of(report)
    return {
        "schema": SCHEMA,
        "bundle": report.bundle,
        "target": report.target,
        "digest": report.digest,
        "parts": [asdict(part) for part in report.parts],
        "total": {key: value for key, value in asdict(total).items() if key != "name"},
        "archive_bytes": report.archive_bytes,
        "costs": [{**asdict(cost), "amount": round(cost.amount, 2)} for cost in report.costs],
        "verification": asdict(report.verification),
        "proofs": [asdict(proof) for proof in report.proofs],
        "notes": list(report.notes),
        **({"visits": [asdict(visit) for visit in report.visits]} if report.visits else {}),
    }


def total_of(report: Report) -> PartSize:
    """All parts together."""
    return PartSize(
        name="total",
        files=sum(part.files for part in report.parts),
        raw=report.raw_bytes,
        gzip=sum(part.gzip for part in report.parts),
        brotli=sum(part.brotli for part in report.parts),
        zstd=sum(part.zstd for part in report.parts),
    )


def verification_line(verification: Verification) -> str:
    """How near the bundle's vectors are to the full-precision model's, in a line."""
    from edgepack.verify.gate import describe

    if verification.status == "not verified":
        measured = f" ({describe(verification)})" if verification.texts else ""
        return f"not verified: {verification.reason}{measured}"
    mark = "✓" if verification.status == "passed" else f"✗ {verification.reason}"
    return f"{describe(verification)}  {mark}"


def proof_line(proofs: Sequence[LevelProof]) -> str:
    """With which processors' kernels the model ran right on the library, and with which that could not be tried."""
    by: dict[str, list[str]] = {}
    for proof in proofs:
        by.setdefault(proof.by if proof.proved else f"not proved ({proof.reason})", []).append(proof.level)
    return "kernels: " + "; ".join(f"{', '.join(levels)}: {who}" for who, levels in by.items())


def proof_table(proofs: Sequence[LevelProof]) -> Table:
    """The same as a table."""
    table = titled_table("vectors against the stock library's", "kernels")
    table.add_column("proved on")
    table.add_column("least cosine", justify="right", no_wrap=True)
    for proof in proofs:
        cosine = f"{proof.min_cosine:.6f}" if proof.proved else ""
        table.add_row(proof.level, proof.by if proof.proved else f"not proved: {proof.reason}", cosine)
    return table


def archive_line(report: Report) -> str:
    """The archive's size, which is what a device downloads."""
    if report.archive_bytes is None:
        return "no archive"
    return f"archive (.tar.zst): {megabytes(report.archive_bytes)} MB ({report.archive_bytes:,} bytes)"


def megabytes(size: int) -> str:
    """10^6 bytes, with as many digits as say something."""
    return f"{size / 1e6:,.2f}" if size >= 100_000 else f"{size / 1e6:,.4f}"


def share(part: PartSize, report: Report) -> str:
    """Of the raw bytes."""
    return f"{part.raw / report.raw_bytes:.1%}" if report.raw_bytes else ""


def costs_by_provider(costs: Iterable[DownloadCost]) -> dict[tuple[str, str, str], dict[int, float]]:
    """(provider, date, currency) → number of devices → amount, in the order of the table."""
    rows: dict[tuple[str, str, str], dict[int, float]] = {}
    for cost in costs:
        rows.setdefault((cost.provider, cost.dated, cost.currency), {})[cost.devices] = cost.amount
    return rows


def _size_table(report: Report) -> Table:
    table = titled_table(f"{report.bundle}: size in MB", "part")
    for column in ("files", "raw", "gzip", "brotli", "zstd", "share"):
        table.add_column(column, justify="right", no_wrap=True)
    for part in report.parts:
        table.add_row(*_size_row(part), share(part, report))
    table.add_section()
    table.add_row(*_size_row(total_of(report)), "", style="bold")
    return table


def _size_row(part: PartSize) -> tuple[str, ...]:
    encodings = (part.raw, part.gzip, part.brotli, part.zstd)
    return (part.name, str(part.files), *(megabytes(size) for size in encodings))


def visit_rows(report: Report) -> list[tuple[str, ...]]:
    """A row a visit: its name, files and megabytes by encoding."""
    return [
        (visit.name, str(visit.files), *(megabytes(size) for size in (visit.raw, visit.gzip, visit.brotli)))
        for visit in report.visits
    ]


def _visit_table(report: Report) -> Table:
    table = titled_table("what a visit downloads, in MB", "visit")
    for column in ("files", "plain", "gzip", "brotli"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in visit_rows(report):
        table.add_row(*row)
    return table


def _cost_table(report: Report) -> Table:
    what = "cost of first visits" if report.visits else "cost of one download a device"
    table = titled_table(what, "list price")
    table.add_column("of")
    counts = sorted({cost.devices for cost in report.costs})
    for count in counts:
        table.add_column(
            f"{count:,} {'visits' if report.visits else 'devices'}", justify="right", no_wrap=True
        )
    for (provider, dated, currency), amounts in costs_by_provider(report.costs).items():
        table.add_row(provider, dated, *(f"{amounts[count]:,.2f} {currency}" for count in counts))
    return table


def titled_table(title: str, first: str) -> Table:
    """A table with a first column, as all of edgepack's look."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=SIMPLE_HEAD, title=Text(title), title_justify="left", title_style="bold", pad_edge=False
    )
    table.add_column(first)
    return table


_STYLES = {"passed": "green", "failed": "red", "not verified": "yellow"}
