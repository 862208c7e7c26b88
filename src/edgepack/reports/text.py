"""The report in the terminal and as JSON."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from edgepack.records.figures import figures_of, heading
from edgepack.records.report import (
    DownloadCost,
    Memory,
    PackageSize,
    PartSize,
    Report,
    Section,
    Speed,
    Verification,
)
from edgepack.records.runtime import LevelProof
from edgepack.records.word import HERE, Word
from edgepack.tables import Number, State, add_row, blocks, column_megabytes, megabytes, table
from edgepack.terminal_text import foreign, foreign_words

SCHEMA = 1
SIZE_HEAD = ("part", "files", "raw", "gzip", "brotli", "zstd", "share")
VISIT_HEAD = ("visit", "files", "plain", "gzip", "brotli")


def render(report: Report) -> Group:
    """Sizes by part, the archive, what downloads cost, and how near the vectors are."""
    report = foreign_words(report)
    lines: list[RenderableType] = [_size_table(report), _archive(report)]
    lines += [Text(line) for line in package_lines(report)]
    lines += [Text(memory_line(report.memory))] if report.memory else []
    lines += [Text(speed_line(report.speed))] if report.speed else []
    lines += [_visit_table(report)] if report.visits else []
    lines.append(render_verification(report.verification, report.said_by))
    if report.proofs:
        lines.append(Text(proof_line(report.proofs)))
    lines += [_cost_table(report)] if report.costs else []
    lines += [_section_table(section) for section in report.sections]
    lines += [Text(f"warning: {warning}", style="yellow") for warning in report.warnings]
    lines += [Text(note, style="dim") for note in report.notes]
    return blocks(*lines)


def as_json(report: Report) -> dict[str, Any]:
    """The report as plain data (schema 1), and whose word it is: bytes are whole numbers, money is in the currency named."""
    return {**as_record(report), "said_by": asdict(report.said_by)}


def as_record(report: Report) -> dict[str, Any]:
    """The record for the file beside a bundle, which cannot say whose word it is: whoever writes one could."""
    total = total_of(report)
    return {
        "schema": SCHEMA,
        "bundle": report.bundle,
        "target": report.target,
        "digest": report.digest,
        "parts": [asdict(part) for part in report.parts],
        "total": {key: value for key, value in asdict(total).items() if key != "name"},
        "archive_bytes": report.archive_bytes,
        **({"packages": [_package_json(each) for each in report.packages]} if report.packages else {}),
        "costs": _costs_json(report.costs),
        "verification": asdict(report.verification),
        "proofs": [asdict(proof) for proof in report.proofs],
        "checks": list(report.checks),
        **({"sections": [_section_json(each) for each in report.sections]} if report.sections else {}),
        **({"made": asdict(report.made)} if report.made else {}),
        **({"memory": asdict(report.memory)} if report.memory else {}),
        **({"speed": asdict(report.speed)} if report.speed else {}),
        "notes": list(report.notes),
        "warnings": list(report.warnings),
        **({"visits": [asdict(visit) for visit in report.visits]} if report.visits else {}),
    }


def total_of(report: Report) -> PartSize:
    return PartSize(
        name="total",
        files=sum(part.files for part in report.parts),
        raw=report.raw_bytes,
        gzip=sum(part.gzip for part in report.parts),
        brotli=sum(part.brotli for part in report.parts),
        zstd=sum(part.zstd for part in report.parts),
    )


def render_verification(found: Verification, said_by: Word = HERE) -> Group:
    """How near the bundle's vectors are to the full-precision model's: each figure beside its limit, and the outcome."""
    status = Text(status_line(found, said_by), style=_STYLES[found.status])
    if not found.texts:
        return Group(status)
    made = table("", Number("this bundle"), "limit", State(""), title=heading(found))
    for each in figures_of(found):
        add_row(made, each.name, each.text, each.limit_text, each.mark)
    said = [Text(f"said by its maker, compared with nothing: {'; '.join(map(foreign, found.said))}")]
    return blocks(made, *said * bool(found.said), status)


def status_line(found: Verification, said_by: Word = HERE) -> str:
    """``verified ✓``, and whose word that is where it was not seen here; or why not."""
    if found.status == "passed" and found.on:
        # Only by a record of devices that counts, whoever the report is by.
        return f"verified on {found.on} ✓"
    if found.status == "passed" and said_by.counts:
        return "verified ✓" if said_by == HERE else f"verified ✓ ({said_by})"
    return f"{found.status}: {found.reason}" if said_by.counts else f"not verified: {found.reason}"


def proof_line(proofs: Sequence[LevelProof]) -> str:
    """With which processors' kernels the model ran right on the library, and with which that could not be tried."""
    by: dict[str, list[str]] = {}
    for proof in proofs:
        by.setdefault(f"on {proof.by}" if proof.proved else f"not proved: {proof.reason}", []).append(
            proof.level
        )
    return "CPU levels proved: " + "; ".join(f"{', '.join(levels)} ({who})" for who, levels in by.items())


def proof_table(proofs: Sequence[LevelProof]) -> Table:
    made = table(
        "kernels", "proved on", Number("lowest cosine"), title="vectors compared with the stock runtime's"
    )
    for proof in proofs:
        cosine = f"{proof.min_cosine:.6f}" if proof.proved else ""
        add_row(made, proof.level, proof.by if proof.proved else f"not proved: {proof.reason}", cosine)
    return made


NEWLINE = "\n"


def archive_line(report: Report) -> str:
    """The archive's size, which is what a device downloads."""
    if report.archive_bytes is None:
        return "no archive"
    return f"archive (.tar.zst): {megabytes(report.archive_bytes)} MB ({report.archive_bytes:,} bytes)"


def _archive(report: Report) -> Text:
    budget = report.made.budget if report.made else None
    if budget is None or report.download_bytes is None:
        return Text(archive_line(report))
    # A build that is over its budget ends before it has a report.
    held = report.download_bytes == report.archive_bytes
    visit = "" if held else f"a first visit: {megabytes(report.download_bytes)} MB, "
    return Text.assemble(
        f"{archive_line(report)}{', ' if held else NEWLINE}{visit}",
        (f"within the budget of {megabytes(budget)} MB", "green"),
    )


def memory_line(found: Memory) -> str:
    """Line on the memory that the program takes, and the budget that its worst case ran within."""
    if found.reason:
        return f"memory: not measured ({found.reason})"
    return (
        f"memory: {megabytes(found.one_text)} MB for one text, {megabytes(found.batch)} MB for a batch of 32, "
        f"{megabytes(found.worst)} MB at worst ({worst_case(found)}); "
        f"ran within {megabytes(found.budget)} MB, enforced by {found.enforced_by}"
    )


def speed_line(found: Speed) -> str:
    """The speed that the machine which built the bundle has with it."""
    threads = "1 thread" if found.threads == 1 else f"{found.threads} threads"
    memory = f", {found.peak_mb:g} MB of memory at its highest" if found.peak_mb is not None else ""
    return f"speed here: {found.texts_per_second:,.0f} texts/s of {found.tokens} tokens on {threads}{memory}"


def worst_case(found: Memory) -> str:
    """Description of the worst case, in a few words."""
    threads = "1 thread" if found.threads == 1 else f"{found.threads} threads"
    return f"{threads}, texts of {found.tokens:,} tokens, all scripts"


def package_lines(report: Report) -> list[str]:
    """The other forms of the bundle, a line each."""
    return [
        f"{each.form}: {megabytes(each.size)} MB ({each.size:,} bytes), {each.file}"
        for each in report.packages
    ]


def _share(part: PartSize, report: Report) -> str:
    return f"{part.raw / report.raw_bytes:.1%}" if report.raw_bytes else ""


def _package_json(package: PackageSize) -> dict[str, Any]:
    return {**asdict(package), "costs": _costs_json(package.costs)}


def _costs_json(costs: Iterable[DownloadCost]) -> list[dict[str, Any]]:
    return [{**asdict(cost), "amount": round(cost.amount, 2)} for cost in costs]


def cost_rows(report: Report) -> list[tuple[str, list[tuple[str, ...]]]]:
    """Rows of costs for each thing that is sent, one a provider: its name, the date, an amount for each number of devices.

    The first is the archive or a first visit, and each package follows. The currency is ``cost_title``'s to say, where it is one.
    """
    first = "a first visit" if report.visits else "archive (.tar.zst)"
    groups = [(first, report.costs), *((each.form, each.costs) for each in report.packages)]
    several = len(_currencies(report)) > 1
    return [
        (
            sent,
            [
                (
                    provider,
                    dated,
                    *(
                        f"{due:,.2f} {currency if several else ''}".rstrip()
                        for _, due in sorted(amounts.items())
                    ),
                )
                for (provider, dated, currency), amounts in costs_by_provider(costs).items()
            ],
        )
        for sent, costs in groups
    ]


def cost_title(report: Report) -> str:
    """Title of the table of costs: what is counted, and by how many of whom."""
    what = "cost per first visit" if report.visits else "cost of one download per device"
    whom = "visits" if report.visits else "devices"
    currencies = _currencies(report)
    return f"{what}, {f'in {currencies[0]}, ' if len(currencies) == 1 else ''}by number of {whom}"


def cost_head(report: Report) -> tuple[str, ...]:
    counts = sorted({cost.devices for cost in report.costs})
    return ("list price", "as of", *(f"{count:,}" for count in counts))


def _currencies(report: Report) -> list[str]:
    every = (*report.costs, *(cost for each in report.packages for cost in each.costs))
    return sorted({cost.currency for cost in every})


def costs_by_provider(costs: Iterable[DownloadCost]) -> dict[tuple[str, str, str], dict[int, float]]:
    """(provider, date, currency) → number of devices → amount, in the order of the table."""
    rows: dict[tuple[str, str, str], dict[int, float]] = {}
    for cost in costs:
        rows.setdefault((cost.provider, cost.dated, cost.currency), {})[cost.devices] = cost.amount
    return rows


def _size_table(report: Report) -> Table:
    first, *numbers = SIZE_HEAD
    made = table(first, *map(Number, numbers), title=f"{report.bundle}: size in MB")
    *parts, total = size_rows(report)
    for row in parts:
        add_row(made, *row)
    made.add_section()
    add_row(made, *total, style="bold")
    return made


def size_rows(report: Report) -> list[tuple[str, ...]]:
    """A row a part, and one for all of them: name, files, megabytes by encoding, share of the raw bytes."""
    total = total_of(report)
    return [(*_size_row(part), _share(part, report)) for part in report.parts] + [(*_size_row(total), "")]


def _size_row(part: PartSize) -> tuple[str, ...]:
    encodings = (part.raw, part.gzip, part.brotli, part.zstd)
    return (part.name, str(part.files), *(column_megabytes(size) for size in encodings))


def visit_rows(report: Report) -> list[tuple[str, ...]]:
    """A row a visit: its name, files and megabytes by encoding."""
    return [
        (visit.name, str(visit.files), *map(column_megabytes, (visit.raw, visit.gzip, visit.brotli)))
        for visit in report.visits
    ]


def _section_table(section: Section) -> Table:
    made = table("", "", title=section.title)
    for row in section.rows:
        add_row(made, *row)
    return made


def _section_json(section: Section) -> dict[str, Any]:
    rows = [{"label": label, "value": value} for label, value in section.rows]
    return {"name": section.name, "title": section.title, "rows": rows}


def visit_title(report: Report) -> str:
    """Title of the table of visits: which files those are, the manifest says."""
    whose = "" if report.said_by.counts else ", as its maker says"
    return f"what a visit downloads, in MB{whose}"


def _visit_table(report: Report) -> Table:
    first, *numbers = VISIT_HEAD
    made = table(first, *map(Number, numbers), title=visit_title(report))
    for row in visit_rows(report):
        add_row(made, *row)
    return made


def _cost_table(report: Report) -> Table:
    provider, dated, *counts = cost_head(report)
    made = table(provider, dated, *map(Number, counts), title=cost_title(report))
    for sent, rows in cost_rows(report):
        if report.packages:
            add_row(made, sent, style="bold")
        for row in rows:
            add_row(made, *row)
        made.add_section()
    return made


_STYLES = {"passed": "green", "failed": "red", "not verified": "yellow"}
