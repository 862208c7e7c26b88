"""The report as one web page that asks nobody for anything: no script, no font, no image from elsewhere."""

from collections.abc import Iterable, Sequence
from html import escape

from edgepack.records.report import Report, Verification
from edgepack.report.figures import figures, heading
from edgepack.report.text import (
    SIZE_HEAD,
    VISIT_HEAD,
    archive_line,
    costs_by_provider,
    package_lines,
    size_rows,
    status_line,
    visit_rows,
)
from edgepack.tables import megabytes


def render_html(report: Report) -> str:
    """A complete HTML document, light or dark as the reader's system is."""
    return _PAGE.format(
        title=escape(report.bundle),
        style=_STYLE,
        target=escape(report.target),
        digest=escape(report.digest),
        status=escape(report.verification.status.replace(" ", "-")),
        verification=escape(status_line(report.verification)),
        figures=_figures(report.verification),
        warnings="".join(f'<p class="warning">warning: {escape(each)}</p>' for each in report.warnings),
        archive=escape("; ".join([archive_line(report), *package_lines(report)])),
        bars=_bars(report),
        sizes=_sizes(report),
        visits=_visits(report),
        costs=_costs(report),
        sections=_sections(report),
        notes="".join(f"<p>{escape(note)}</p>" for note in report.notes),
    )


def _bars(report: Report) -> str:
    """One row a part, as long as its share of the raw bytes."""
    largest = max((part.raw for part in report.parts), default=1) or 1
    return "".join(
        f'<div class="bar"><span>{escape(part.name)}</span>'
        f'<i style="width:{60 * part.raw / largest:.2f}%"></i><b>{megabytes(part.raw)} MB</b></div>'
        for part in report.parts
    )


def _figures(found: Verification) -> str:
    if not found.texts:
        return ""
    head = ("", "this bundle", "limit", "")
    rows = [(each.what, each.value, each.limit, each.mark) for each in figures(found)]
    return f'<h2>{escape(heading(found).capitalize())}</h2><div class="wide">{_table(head, rows)}</div>\n'


def _sizes(report: Report) -> str:
    *parts, total = size_rows(report)
    return _table(SIZE_HEAD, parts, last=total)


def _visits(report: Report) -> str:
    if not report.visits:
        return ""
    rows = _table(VISIT_HEAD, visit_rows(report))
    return f'<h2>What a visit downloads, in MB</h2><div class="wide">{rows}</div>\n'


def _sections(report: Report) -> str:
    return "".join(
        f'<h2>{escape(each.title)}</h2><div class="wide">{_table((), each.rows)}</div>\n'
        for each in report.sections
    )


def _costs(report: Report) -> str:
    counts = sorted({cost.devices for cost in report.costs})
    head = ("list price", "as of", *(f"{count:,} devices" for count in counts))
    rows = [
        (provider, dated, *(f"{amounts[count]:,.2f} {currency}" for count in counts))
        for (provider, dated, currency), amounts in costs_by_provider(report.costs).items()
    ]
    return _table(head, rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *, last: Sequence[str] = ()) -> str:
    body = "".join(_row("td", row) for row in rows)
    foot = f"<tfoot>{_row('td', last)}</tfoot>" if last else ""
    return f"<table><thead>{_row('th', head)}</thead><tbody>{body}</tbody>{foot}</table>"


def _row(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
<h1>{title}</h1>
<p>target {target}, sha256 <code>{digest}</code></p>
<p class="{status}">{verification}</p>
{warnings}{figures}<h2>Size</h2>
<p><strong>{archive}</strong></p>
<div class="bars">{bars}</div>
<div class="wide">{sizes}</div>
{visits}<h2>Cost of one download per device</h2>
<div class="wide">{costs}</div>
{sections}<footer>{notes}</footer>
</main>
</body>
</html>
"""

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --dim: #59636e; --line: #d1d9e0; --bar: #3b7ddd;
  --good: #1a7f37; --bad: #cf222e; --unsure: #9a6700; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --paper: #0d1117; --dim: #9198a1; --line: #30363d;
  --bar: #4c8eed; --good: #3fb950; --bad: #f85149; --unsure: #d29922; } }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 2rem 1rem; }
h1 { font-size: 1.6rem; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; }
code { font-size: .85em; overflow-wrap: anywhere; color: var(--dim); }
.passed { color: var(--good); } .failed { color: var(--bad); } .not-verified, .warning { color: var(--unsure); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100%; }
th, td { padding: .3rem .7rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; white-space: normal; }
tfoot td { font-weight: 600; border-bottom: 0; }
.bar { display: flex; gap: .6rem; align-items: center; margin: .2rem 0; white-space: nowrap; }
.bar span { flex: 0 0 6rem; }
.bar i { height: 1rem; min-width: 1px; background: var(--bar); border-radius: 2px; }
.bar b { font-weight: 400; color: var(--dim); font-size: .85rem; }
footer { margin-top: 2rem; color: var(--dim); font-size: .85rem; }
"""
