"""The report as one web page that asks nobody for anything: no font, image or script from elsewhere.

Its script, which draws the map of bytes and reckons costs for other numbers of devices, is allowed by its digest; without it the
page lacks these alone.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from edgepack.records.figures import figures_of, heading
from edgepack.records.report import Report, Verification
from edgepack.reports.page.beside import OWN, drawn_bars, panels, render_panels
from edgepack.reports.page.cards import cards, render_cards
from edgepack.reports.page.contents import Node
from edgepack.reports.page.facts import PageFacts
from edgepack.reports.page.histogram import histogram
from edgepack.reports.page.markup import document, section, table
from edgepack.reports.page.memory import memory_section
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
    visit_title,
)
from edgepack.tables import megabytes
from edgepack.terminal_text import foreign_words

SCRIPTS = ("calculator.js", "treemap.js", "copy.js")
LEVELS = 3
"""Of the tree of bytes, in its table."""


def render_html(report: Report, facts: PageFacts | None = None) -> str:
    """A complete HTML document, light or dark as the reader's system is; ``facts`` are what is read of the bundle besides."""
    page = files("edgepack.reports.page")
    # Of a command that is copied to a terminal, nothing is changed: there is none of what a stranger made.
    command = facts.command if facts and report.said_by.counts else ""
    report, facts = foreign_words(report), replace(foreign_words(facts or PageFacts()), command=command)
    script = "".join((page / name).read_text(encoding="utf-8") for name in SCRIPTS)
    sections = list(_sections(report, facts))
    inside = Template((page / "page.html").read_text(encoding="utf-8")).substitute(
        title=escape(report.bundle),
        about=escape(f"{facts.model or 'a model'} for {report.target}"),
        made=escape(f", made {report.made.at[:10]}" if report.made else ""),
        status=escape(report.verification.status.replace(" ", "-")),
        verification=escape(status_line(report.verification, report.said_by)),
        warnings="".join(f'<p class="warning">warning: {escape(each)}</p>\n' for each in report.warnings),
        contents="".join(
            f'<a href="#{name}">{escape(title)}</a>\n' for name, title, inside in sections if inside
        ),
        cards=render_cards(cards(report, facts)),
        sections="".join(inside for _, _, inside in sections),
        notes="".join(f"<p>{escape(note)}</p>\n" for note in report.notes),
    )
    return document(report.bundle, inside, script=script, data=_data(report, facts))


def _sections(report: Report, facts: PageFacts) -> Iterator[tuple[str, str, str]]:
    """Name, title and the whole of it; empty where there is nothing to say."""
    found = report.verification
    for name, title, long, content in (
        (
            "beside",
            "Compared",
            "Compared with the usual stack",
            (render_panels(panels(report, facts.model)), _recipes_beside(report, facts)),
        ),
        ("vectors", "Vectors", heading(found).capitalize(), (_figures(found),)),
        ("size", "Size", "What is inside", (_treemap(facts.contents), _sizes(report), _visits(report))),
        ("recipe", "Recipe", "How the model was made small", (_recipe(facts),)),
        ("processors", "Processors", "The same vectors at each CPU level", (_proofs(report),)),
        ("memory", "Memory", "What it takes of memory", (memory_section(report.memory),)),
        ("cost", "Cost", _costs_title(report), (_costs(report), _calculator(report))),
    ):
        yield name, title, section(name, long, *content)
    for each in report.sections:
        yield f"of-{each.name}", each.title, section(f"of-{each.name}", each.title, _words(each.rows))
    rows = [*report.about, *facts.provenance]
    provenance = "Provenance" if report.said_by.counts else "Provenance, as its maker says"
    yield "licences", "Licences", section("licences", "Whose work is inside", _licences(facts))
    yield (
        "provenance",
        "Provenance",
        section("provenance", provenance, _words(rows) if rows else "", _copied(report, facts)),
    )


def _recipes_beside(report: Report, facts: PageFacts) -> str:
    """Bytes and nearness of this bundle among those that the target's other recipes make of the same model."""
    if len(facts.recipes) < 2 or not (size := report.download_bytes):
        return ""
    points = [(OWN, size, report.verification.mean_cosine), *sorted(facts.recipes, key=lambda each: each[1])]
    bars = [
        (name, float(size), f"{megabytes(size)}, cosine {cosine:.4f}" if cosine else megabytes(size))
        for name, size, cosine in points
    ]
    return drawn_bars("Recipes for this target, MB", bars, said=f"measured before, of {facts.model}", own=1)


def _figures(found: Verification) -> str:
    if not found.texts:
        return ""
    head = ("", "this bundle", "limit", "")
    rows = [(each.name, each.text, each.limit_text, each.mark) for each in figures_of(found)]
    drawn = histogram(found.cosines, limit=found.limits.get("min_worst_cosine"))
    return f'<div class="pair"><div>{table(head, rows, caption="What was measured, and its limits")}</div>{drawn}</div>\n'


def _treemap(contents: Node | None) -> str:
    if contents is None:
        return ""
    rows = list(_tree_rows(contents, contents.bytes, 0))
    return (
        '<div id="treemap" hidden><nav aria-label="place in the bundle"></nav><div class="map" role="group" aria-label="bytes on the device, '
        'as areas"></div><p role="status">Bytes on the device. Point at a part; its name opens it.</p></div>\n'
        f"<details><summary>The same as a table</summary>{_tree_table(rows)}</details>\n"
    )


def _tree_table(rows: Iterable[tuple[int, str, str, str]]) -> str:
    body = "".join(
        f'<tr><th scope="row" class="l{depth}">{escape(name)}</th><td>{size}</td><td>{share}</td></tr>'
        for depth, name, size, share in rows
    )
    return (
        '<table><thead><tr><th scope="col">part</th><th scope="col">bytes</th><th scope="col">share</th></tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )


def _tree_rows(node: Node, total: int, depth: int) -> Iterator[tuple[int, str, str, str]]:
    yield depth, node.name, f"{node.bytes:,}", f"{node.bytes / total:.1%}"
    for part in node.parts if depth < LEVELS else ():
        yield from _tree_rows(part, total, depth + 1)


def _sizes(report: Report) -> str:
    *parts, total = size_rows(report)
    said = "; ".join([archive_line(report), *package_lines(report)])
    return (
        f"<h3>Compressed, in MB</h3><p>{escape(said)}</p>{table(SIZE_HEAD, parts, last=total, kind='many')}"
    )


def _visits(report: Report) -> str:
    if not report.visits:
        return ""
    title = visit_title(report)
    return f"<h3>{title[0].upper()}{title[1:]}</h3>{table(VISIT_HEAD, visit_rows(report), kind='many')}"


def _recipe(facts: PageFacts) -> str:
    steps = "".join(
        f"<li><b>{escape(name)}</b>{f' <code>{escape(parameters)}</code>' if parameters else ''}<p>{escape(said)}</p></li>\n"
        for name, parameters, said in facts.passes
    )
    return f'<ol class="steps">{steps}</ol>\n' if steps else ""


def _proofs(report: Report) -> str:
    rows = [
        (
            each.level,
            "✓" if each.proved else "",
            f"on {each.by}" if each.proved else f"not proved: {each.reason}",
            f"{each.min_cosine:.6f}" if each.proved else "",
        )
        for each in report.proofs
    ]
    head = ("CPU level", "", "how", "lowest cosine")
    return table(head, rows, kind="loose") if rows else ""


def _words(rows: Iterable[Sequence[str]]) -> str:
    return table((), rows, kind="words")


def _licences(facts: PageFacts) -> str:
    if not facts.components:
        return ""
    return table(("component", "version", "licence"), facts.components, kind="loose")


def _costs_title(report: Report) -> str:
    title = cost_title(report)
    return title[0].upper() + title[1:]


def _costs(report: Report) -> str:
    if not report.costs:
        return ""
    head = cost_head(report)
    blank = ("",) * (len(head) - 1)
    rows = [
        row
        for sent, rows in cost_rows(report)
        for row in ([(sent, *blank), *rows] if report.packages else rows)
    ]
    return table(head, rows, kind="many")


def _calculator(report: Report) -> str:
    if not (report.prices and report.costs):
        return ""
    whom = "visits" if report.visits else "devices"
    return (
        '<form id="calculator" hidden><fieldset><legend>Your numbers</legend>\n'
        f'<label>{whom} <output name="devices-said"></output>'
        '<input type="range" name="devices" min="2" max="8" step="0.25" value="5"></label>\n'
        '<label>updates per year <output name="updates-said"></output>'
        '<input type="range" name="updates" min="1" max="52" value="1"></label>\n'
        '<label>provider<select name="provider"></select></label>\n'
        '<label>what is sent<select name="encoding"></select></label>\n'
        '<p class="due"><output name="due" aria-live="polite"></output><small>per year, <output name="sent"></output></small></p>\n'
        "</fieldset></form>\n"
    )


def _copied(report: Report, facts: PageFacts) -> str:
    rows = (("the command that makes it", facts.command), ("sha256 of the bundle", report.digest))
    return "".join(
        f'<div class="copy"><span>{what}</span><code>{escape(value)}</code><button type="button" hidden>copy</button></div>\n'
        for what, value in rows
        if value
    )


def _data(report: Report, facts: PageFacts) -> str:
    """Data that the script draws and reckons with."""
    found: dict[str, Any] = {}
    if report.prices and report.costs:
        found["calculator-data"] = {"prices": _price_lists(report), "sizes": _sent(report)}
    if facts.contents:
        found["treemap-data"] = _as_list(facts.contents)
    # "</script>" in a name would end the block.
    return "".join(
        f'<script type="application/json" id="{name}">{json.dumps(data, separators=(",", ":")).replace("<", chr(92) + "u003c")}</script>\n'
        for name, data in found.items()
    )


def _price_lists(report: Report) -> list[dict[str, Any]]:
    return [
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


def _sent(report: Report) -> list[tuple[str, int]]:
    """Forms in which the bundle may be sent, and the bytes of each."""
    if report.visits:
        first = report.visits[0]
        return [("brotli", first.brotli), ("gzip", first.gzip), ("not compressed", first.raw)]
    return [
        *([("archive (.tar.zst)", report.archive_bytes)] if report.archive_bytes else []),
        *((each.file, each.size) for each in report.packages),
        ("files under zstd", sum(part.zstd for part in report.parts)),
        ("files with brotli", sum(part.brotli for part in report.parts)),
        ("files under gzip", sum(part.gzip for part in report.parts)),
        ("files as they are", report.raw_bytes),
    ]


def _as_list(node: Node) -> list[Any]:
    """Name, bytes, words, parts: short, for there are hundreds."""
    return [node.name, node.bytes, node.what, [_as_list(part) for part in node.parts]]
