"""The figures that matter first, each with its limit and with what the usual way takes."""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from edgepack.records.figures import Figure, figures_of
from edgepack.records.report import Report, Verification
from edgepack.reports.page.beside import stock
from edgepack.reports.page.facts import PageFacts
from edgepack.tables import megabytes

ON_DEVICE, AT_BUILD = "measured on the device", "measured where it was built"


@dataclass(frozen=True, kw_only=True)
class Card:
    what: str
    value: str
    unit: str = ""
    limit: str = ""
    met: bool | None = None
    beside: str = ""


def cards(report: Report, facts: PageFacts) -> list[Card]:
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
            beside=f"usual stack {megabytes(usual)}" if weights and not report.visits else "",
        )
    usual = weights + stock().library.raw
    beside = f"usual stack {megabytes(usual)}" if weights and not report.visits else ""
    yield Card(
        what="On the device",
        value=megabytes(report.raw_bytes),
        unit="MB",
        limit=f"{len(report.parts)} parts",
        beside=beside,
    )


def _device(report: Report, facts: PageFacts) -> Iterator[Card]:
    """Figures of a device for this very bundle, else of the machine that built it; else nothing."""
    if (found := facts.device or report.speed) is None:
        return
    where = ON_DEVICE if facts.device else AT_BUILD
    if found.peak_mb is not None:
        yield Card(what="Memory", value=f"{found.peak_mb:g}", unit="MB", limit="at its highest", beside=where)
    threads = "1 thread" if found.threads == 1 else f"{found.threads} threads"
    yield Card(
        what="Speed",
        value=f"{found.texts_per_second:,.0f}",
        unit="texts/s",
        limit=f"{threads}, {found.tokens} tokens",
        beside=where,
    )


def _vectors(found: Verification) -> Iterator[Card]:
    by = {each.key: each for each in figures_of(found)}
    if not by:
        return
    yield _figure("Mean cosine", by["mean_cosine"], f"lowest {by['min_cosine'].text}")
    if (recall := by.get("retrieval.recall")) and recall.value is not None:
        yield _figure("Recall@10", recall)
    else:
        yield _figure(
            "Same neighbour", by["neighbour_agreement"], f"ten nearest {by['top10_agreement'].text}"
        )


def _figure(what: str, figure: Figure, beside: str = "") -> Card:
    limit = f"limit {figure.limit_text}" if figure.limit_text else ""
    return Card(what=what, value=figure.text, limit=limit, met=figure.met, beside=beside)


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
