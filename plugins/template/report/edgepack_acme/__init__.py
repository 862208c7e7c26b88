"""A section of every report, registered: in text, in JSON (`sections`) and on the page."""

from collections.abc import Iterable, Sequence

from edgepack import api
from edgepack.api.axes import ReportRows

STICK = 16_000_000_000
"""Bytes."""


def rows(bundle: api.Bundle, report: api.Report) -> Sequence[tuple[str, str]]:
    """Labels and values; of ``report`` all figures that are known when it is written."""
    return [("bundles on one stick", f"{STICK // report.raw_bytes:,}")]


def make() -> ReportRows:
    """Function that makes the rows."""
    return rows


@api.hookimpl
def edgepack_specs() -> Iterable[api.Spec]:
    return [api.Spec(axis="report", name="acme", summary="On a stick", make=make)]
