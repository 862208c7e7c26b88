"""Pages, sections and tables in HTML."""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from string import Template


def document(title: str, inside: str, *, style: str = "", script: str = "", data: str = "") -> str:
    """A whole page that asks nobody for anything; ``style`` is beside that of all pages, a ``script`` is allowed by its digest."""
    page = files("edgepack.reports.page")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return Template((page / "frame.html").read_text(encoding="utf-8")).substitute(
        title=escape(title),
        style=(page / "style.css").read_text(encoding="utf-8") + style,
        scripts=f"; script-src 'sha256-{digest}'" if script else "",
        inside=inside,
        after=f"{data}<script>{script}</script>\n" if script else "",
    )


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    last: Sequence[str] = (),
    kind: str = "",
    caption: str = "",
) -> str:
    """Rows of text; the first cell of each names it. ``kind`` is for the styles, ``caption`` for who hears the page."""
    body = "".join(_row(row) for row in rows)
    foot = f"<tfoot>{_row(last)}</tfoot>" if last else ""
    heads = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    heads = f"<thead><tr>{heads}</tr></thead>" if head else ""
    named = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table{f' class={chr(34)}{kind}{chr(34)}' if kind else ''}>{named}{heads}<tbody>{body}</tbody>{foot}</table>\n"


def section(name: str, title: str, *content: str) -> str:
    """A part of the page; nothing where it has no content."""
    inside = "".join(content)
    if not inside:
        return ""
    return f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">{escape(title)}</h2>\n{inside}</section>\n'


def _row(cells: Sequence[str]) -> str:
    first, *others = cells
    named = f'<th scope="row">{escape(first)}</th>'
    return f"<tr>{named}{''.join(f'<td>{_marked(cell)}</td>' for cell in others)}</tr>"


def _marked(cell: str) -> str:
    kind, said = {"✓": ("yes", "met"), "✗": ("no", "not met")}.get(cell, ("", ""))
    return f'<span class="{kind}" role="img" aria-label="{said}">{cell}</span>' if kind else escape(cell)
