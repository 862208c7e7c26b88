"""The report as one web page that asks nobody for anything: no font, image or script from elsewhere.

Its one script, which reckons costs for other numbers of devices, is allowed by its digest; without it the page lacks that alone.
"""

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from string import Template

from edgepack.records.report import Report, Verification
from edgepack.reports.figures import figures, heading
from edgepack.reports.histogram import histogram
from edgepack.reports.text import (
    SIZE_HEAD,
    VISIT_HEAD,
    archive_line,
    cost_head,
    cost_rows,
    cost_title,
    package_lines,
    size_rows,
    status_line,
    visit_rows,
)
from edgepack.tables import megabytes

COLOURS = 6


def render_html(report: Report) -> str:
    """A complete HTML document, light or dark as the reader's system is."""
    page = files("edgepack.reports") / "page"
    script = (page / "calculator.js").read_text(encoding="utf-8")
    return Template((page / "page.html").read_text(encoding="utf-8")).substitute(
        title=escape(report.bundle),
        style=(page / "style.css").read_text(encoding="utf-8"),
        script_sha256=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        target=escape(report.target),
        digest=escape(report.digest),
        status=escape(report.verification.status.replace(" ", "-")),
        verification=escape(status_line(report.verification)),
        warnings="".join(f'<p class="warning">warning: {escape(each)}</p>\n' for each in report.warnings),
        cards=_cards(report),
        figures=_figures(report.verification),
        archive=escape("; ".join([archive_line(report), *package_lines(report)])),
        stack=_stack(report),
        sizes=_sizes(report),
        visits=_visits(report),
        proofs=_proofs(report),
        cost_title=escape(cost_title(report).capitalize().replace("usd", "USD")),
        costs=_costs(report),
        calculator=_CALCULATOR if report.prices and report.costs else "",
        sections=_sections(report),
        about=_about(report),
        notes="".join(f"<p>{escape(note)}</p>" for note in report.notes),
        script=_script(report, script) if report.prices and report.costs else "",
    )


def _cards(report: Report) -> str:
    """The figures that matter first."""
    found = report.verification
    cards = []
    if (size := report.download_bytes) is not None:
        of_source = f"{size / report.source_bytes:.0%} of the model's {megabytes(report.source_bytes)} MB"
        cards.append(("Download", f"{megabytes(size)} MB", of_source if report.source_bytes else ""))
    cards.append(("On the device", f"{megabytes(report.raw_bytes)} MB", f"{len(report.parts)} parts"))
    if found.texts:
        limit = found.limits.get("min_cosine")
        cards.append(
            (
                "Mean cosine",
                f"{found.mean_cosine:.4f}",
                f"limit {limit:g}" if limit is not None else "no limit",
            )
        )
        cards.append(("Nearest neighbour", f"{found.neighbour_agreement:.1%}", "unchanged"))
    if found.same_tokens:
        cards.append(("Tokenizer", "identical", f"on {found.same_tokens:,} texts"))
    return "".join(
        f'<div class="card"><span>{escape(what)}</span><b>{escape(value)}</b><small>{escape(said)}</small></div>\n'
        for what, value, said in cards
    )


def _figures(found: Verification) -> str:
    if not found.texts:
        return ""
    head = ("", "this bundle", "limit", "")
    rows = [(each.what, each.value, each.limit, each.mark) for each in figures(found)]
    table = f'<h2>{escape(heading(found).capitalize())}</h2><div class="wide">{_table(head, rows)}</div>\n'
    return table + histogram(found.cosines, limit=found.limits.get("min_worst_cosine"))


def _stack(report: Report) -> str:
    """What of the download each part is: compressed one by one, so that the shares are near and not exact."""
    total = sum(part.zstd for part in report.parts)
    if not total:
        return ""
    parts = sorted(report.parts, key=lambda part: -part.zstd)
    bars = "".join(
        f'<i class="c{min(at, COLOURS - 1)}" style="flex:{part.zstd / total:.4f}"></i>'
        for at, part in enumerate(parts)
    )
    legend = "".join(
        f'<span><i class="c{min(at, COLOURS - 1)}"></i>{escape(part.name)} {part.zstd / total:.1%}</span>'
        for at, part in enumerate(parts)
    )
    return f'<div class="stack">{bars}</div><div class="legend">{legend}</div>\n'


def _sizes(report: Report) -> str:
    *parts, total = size_rows(report)
    return _table(SIZE_HEAD, parts, last=total)


def _visits(report: Report) -> str:
    if not report.visits:
        return ""
    rows = _table(VISIT_HEAD, visit_rows(report))
    return f'<h2>What a visit downloads, in MB</h2><div class="wide">{rows}</div>\n'


def _proofs(report: Report) -> str:
    if not report.proofs:
        return ""
    rows = [
        (
            each.level,
            each.by if each.proved else f"not proved: {each.reason}",
            f"{each.min_cosine:.6f}" if each.proved else "",
        )
        for each in report.proofs
    ]
    table = _table(("CPU level", "proved on", "lowest cosine"), rows)
    return f'<h2>The same on other CPUs</h2><div class="wide loose">{table}</div>\n'


def _sections(report: Report) -> str:
    return "".join(_words(each.title, each.rows) for each in report.sections)


def _about(report: Report) -> str:
    return _words("What it is made of", report.about) if report.about else ""


def _words(title: str, rows: Iterable[Sequence[str]]) -> str:
    return f'<h2>{escape(title)}</h2><div class="wide words">{_table((), rows)}</div>\n'


def _costs(report: Report) -> str:
    head = cost_head(report)
    blank = ("",) * (len(head) - 1)
    rows = [
        row
        for sent, rows in cost_rows(report)
        for row in ([(sent, *blank), *rows] if report.packages else rows)
    ]
    return _table(head, rows)


def _script(report: Report, script: str) -> str:
    """The numbers that it reckons with, and the script itself."""
    prices = [
        {
            "name": each.name,
            "currency": each.currency,
            "gigabyte": each.gigabyte,
            "tiers": [
                (None if tier.up_to == float("inf") else tier.up_to, tier.price) for tier in each.tiers
            ],
        }
        for each in report.prices
    ]
    sizes = [
        *([("a first visit", report.download_bytes)] if report.visits else []),
        *([("archive (.tar.zst)", report.archive_bytes)] if report.archive_bytes else []),
        *((each.file, each.size) for each in report.packages),
        ("files under gzip", sum(part.gzip for part in report.parts)),
        ("files under brotli", sum(part.brotli for part in report.parts)),
        ("files as they are", report.raw_bytes),
    ]
    # "</script>" in a name would end the block.
    data = json.dumps({"prices": prices, "sizes": sizes}).replace("<", "\\u003c")
    return f'<script type="application/json" id="prices">{data}</script>\n<script>{script}</script>\n'


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *, last: Sequence[str] = ()) -> str:
    body = "".join(_row("td", row) for row in rows)
    foot = f"<tfoot>{_row('td', last)}</tfoot>" if last else ""
    heads = f"<thead>{_row('th', head)}</thead>" if head else ""
    return f"<table>{heads}<tbody>{body}</tbody>{foot}</table>"


def _row(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{_marked(cell)}</{tag}>' for cell in cells)}</tr>"


def _marked(cell: str) -> str:
    kind = {"✓": "yes", "✗": "no"}.get(cell)
    return f'<span class="{kind}">{cell}</span>' if kind else escape(cell)


_CALCULATOR = """<form id="calculator" hidden>
<label>devices: <span id="devices-said"></span><input type="range" name="devices" min="1" max="8" step="0.25" value="5"></label>
<label>updates per year: <span id="updates-said"></span><input type="range" name="updates" min="1" max="52" value="1"></label>
<label>price list<select name="provider"></select></label>
<label>what is sent<select name="encoding"></select></label>
<div><output id="due"></output><label>per year, <span id="sent"></span></label></div>
</form>
"""
