"""A bundle beside the usual way of running its model: what was measured of both, drawn to one scale."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files

from edgepack.records.report import Report
from edgepack.tables import megabytes
from edgepack.toml_schema import load_toml, read_table

SOURCE = "docs/benchmarks.md"
OWN = "this bundle"


@dataclass(frozen=True, kw_only=True)
class Library:
    """The library that pip brings; bytes."""

    name: str
    raw: int
    zstd: int


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One figure of bundles of a model and of others' ways."""

    key: str
    title: str
    unit: str
    model: str
    own: Mapping[str, float]
    """By target."""
    others: Mapping[str, float]
    said: str
    """How it was measured."""
    more: bool = False
    """Whether more is better."""


@dataclass(frozen=True, kw_only=True)
class Stock:
    """All that is known of the usual way."""

    library: Library
    measured: tuple[Measured, ...]


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A few bars, the bundle's first."""

    title: str
    unit: str
    bars: tuple[tuple[str, float, str], ...]
    """Label, length, and the figure in words. The first is this bundle, or such a one where both were measured."""
    said: str
    better: str
    """What a bundle is that has the better figure."""
    more: bool = False
    """Whether the longer bar is the better."""

    @property
    def ratio(self) -> float:
        """How many times as good as the best of the others."""
        (_, own, _), *others = self.bars
        lengths = [length for _, length, _ in others]
        return own / max(lengths) if self.more else min(lengths) / own


@cache
def stock() -> Stock:
    """The figures that edgepack brings."""
    return read_table(Stock, load_toml(files("edgepack.reports.page") / "stock.toml"))


def measured_of(key: str, model: str, report: Report) -> Measured | None:
    """Figures measured of this model on this target, as its file has it: with another recipe or runtime it is another bundle."""
    if report.made is None or report.made.settings:
        return None
    found = (each for each in stock().measured if (each.key, each.model) == (key, model))
    return next((each for each in found if report.target in each.own), None)


def panels(report: Report, model: str) -> Iterator[Panel]:
    """Panels that there are figures for: sizes always, where the model's own are known; the rest of models that were measured."""
    if report.source_bytes and not report.visits:
        library = stock().library
        weights = f"the model's files, {megabytes(report.source_bytes)} MB, and {library.name}, without Python and packages"
        for title, own, others in (
            ("Download", report.download_bytes, report.source_bytes + library.zstd),
            ("On the device", report.raw_bytes, report.source_bytes + library.raw),
        ):
            if own:
                bars = (
                    (OWN, own / 1e6, megabytes(own)),
                    ("fp32, onnxruntime from pip", others / 1e6, megabytes(others)),
                )
                yield Panel(title=title, unit="MB", bars=bars, said=weights, better="smaller")
    for key in ("memory", "speed"):
        if found := measured_of(key, model, report):
            rows = [(report.target, found.own[report.target]), *found.others.items()]
            yield Panel(
                title=found.title,
                unit=found.unit,
                bars=tuple((label, value, f"{value:,g}") for label, value in rows),
                said=f"{found.said} ({SOURCE})",
                better="faster" if found.more else "less",
                more=found.more,
            )


def render_panels(found: Iterator[Panel]) -> str:
    """Nothing where there are none."""
    drawn = "".join(map(_panel, found))
    return f'<div class="panels">{drawn}</div>\n' if drawn else ""


def _panel(panel: Panel) -> str:
    better = f"<b>{panel.ratio:.1f}&times;</b> <span>{panel.better}</span>" if panel.ratio >= 1.1 else ""
    return drawn_bars(f"{panel.title}, {panel.unit}", panel.bars, said=panel.said, better=better, own=1)


def drawn_bars(
    title: str, bars: Sequence[tuple[str, float, str]], *, said: str, better: str = "", own: int
) -> str:
    """Bars to one scale, with label, length and the figure in words; the first ``own`` of them stand out."""
    longest = max(length for _, length, _ in bars)
    rows = "".join(
        f'<tr{" class=own" if place < own else ""}><th scope="row">{escape(label)}</th>'
        f'<td><i style="width:{length / longest:.2%}"></i></td><td>{value}</td></tr>'
        for place, (label, length, value) in enumerate(bars)
    )
    return (
        f'<figure class="panel"><figcaption><span>{title}</span>{better}</figcaption>'
        f"<table><tbody>{rows}</tbody></table><small>{escape(said)}</small></figure>\n"
    )
