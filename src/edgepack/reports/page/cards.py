"""The figures that matter first, each with its limit and with what the usual way takes."""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from edgepack.records.report import Report, Verification
from edgepack.reports.page.beside import measured_of, stock
from edgepack.reports.page.facts import Facts
from edgepack.tables import megabytes

ON_DEVICE = "measured on the device"


@dataclass(frozen=True, kw_only=True)
class Card:
    """One figure."""

    what: str
    value: str
    unit: str = ""
    limit: str = ""
    met: bool | None = None
    beside: str = ""


def cards(report: Report, facts: Facts) -> list[Card]:
    """What there are figures for."""
    return [*_sizes(report), *_device(report, facts), *_vectors(report.verification)]


def render_cards(found: list[Card]) -> str:
    return f'<ul class="cards">{"".join(map(_card, found))}</ul>\n'


def _sizes(report: Report) -> Iterator[Card]:
    weights = report.source_bytes
    if (size := report.download_bytes) is not None:
        budget = report.made.budget if report.made else None
        usual = weights + stock().library.zstd
        yield Card(
            what="First visit" if report.visits else "Download",
            value=megabytes(size),
            unit="MB",
            limit=f"limit {budget / 1e6:g} MB" if budget else "",
            # Of what is not verified nothing is ticked off.
            met=size <= budget if budget and report.verification.status == "passed" else None,
            beside=f"usually {megabytes(usual)}" if weights and not report.visits else "",
        )
    usual = weights + stock().library.raw
    beside = f"usually {megabytes(usual)}" if weights and not report.visits else ""
    yield Card(
        what="On the device",
        value=megabytes(report.raw_bytes),
        unit="MB",
        limit=f"{len(report.parts)} parts",
        beside=beside,
    )


def _device(report: Report, facts: Facts) -> Iterator[Card]:
    memory, speed = (measured_of(key, facts.model, report) for key in ("memory", "speed"))
    if device := facts.device:
        on = f"{device.threads} threads, {device.tokens} tokens"
        yield Card(
            what="Memory", value=f"{device.peak_mb:g}", unit="MB", limit="at its highest", beside=ON_DEVICE
        )
        yield Card(
            what="Speed", value=f"{device.texts_per_second:,.0f}", unit="texts/s", limit=on, beside=ON_DEVICE
        )
        return
    for found in (memory, speed):
        if found:
            unit, _, how = found.unit.partition(" ")
            least, most = min(found.others.values()), max(found.others.values())
            yield Card(
                what=found.title,
                value=f"{found.own[report.target]:,g}",
                unit=unit,
                limit=how,
                beside=f"usually {least:,g} to {most:,g}",
            )


def _vectors(found: Verification) -> Iterator[Card]:
    if not found.texts:
        return
    limits = found.limits
    least = limits.get("min_cosine")
    yield Card(
        what="Mean cosine",
        value=f"{found.mean_cosine:.4f}",
        limit="" if least is None else f"limit ≥ {least:g}",
        met=None if least is None else found.mean_cosine >= least,
        beside=f"lowest {found.min_cosine:.4f}",
    )
    if task := found.retrieval:
        loss = limits.get("max_retrieval_loss")
        yield Card(
            what="Recall@10",
            value=f"{task.recall:.4f}",
            limit="" if loss is None else f"limit: {loss:g} below fp32",
            met=None if loss is None else task.recall_fp32 - task.recall <= loss,
            beside=f"fp32: {task.recall_fp32:.4f}",
        )
    else:
        kept = limits.get("min_agreement")
        yield Card(
            what="Same neighbour",
            value=f"{found.neighbour_agreement:.1%}",
            limit="" if kept is None else f"limit ≥ {kept:.0%}",
            met=None if kept is None else found.neighbour_agreement >= kept,
            beside=f"of ten: {found.top10_agreement:.1%}",
        )


def _card(card: Card) -> str:
    mark = (
        "" if card.met is None else '<span class="yes">✓</span>' if card.met else '<span class="no">✗</span>'
    )
    unit = f" <small>{escape(card.unit)}</small>" if card.unit else ""
    lines = "".join(
        f"<p>{escape(line)}{f' {mark}' if line is card.limit and mark else ''}</p>"
        for line in (card.limit, card.beside)
        if line
    )
    return f"<li><h3>{escape(card.what)}</h3><strong>{escape(card.value)}{unit}</strong>{lines}</li>\n"
