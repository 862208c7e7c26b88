"""What a worker is asked for, and what it answers. Light: every process that is started for bundles reads it first."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from edgepack.errors import EdgepackError
from edgepack.project.matrix import Cell
from edgepack.records.report import Report

State = Literal[
    "made", "from the store", "up to date", "said to be up to date", "to be made", "in the store", "failed"
]
"""*Said to be up to date* is what was made elsewhere: whoever wrote it may have written of what."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """Outcome for one bundle of a project."""

    label: str
    state: State
    seconds: float
    path: Path | None = None
    report: Report | None = None
    """Of a bundle that was made now."""
    error: EdgepackError | None = None
    warnings: tuple[str, ...] = ()
    key: str = ""
    """Digest of all that decides what the bundle is."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """Job of a worker: all that it needs to know to make a cell."""

    cell: Cell
    number: int
    """Its place among the cells of the build."""
    edition: str
    """Of edgepack, which asks: its version, and a digest of its code."""
    claims: str | None
    """A folder with the places that are taken; ``None``: the worker's disk is another one, and the shared store brings the bundle back."""
    store: str | None = None
    offline: bool = False
    force: bool = False
    signed: bool = False
    """Whether the bundle is to be signed: one that somebody else laid there is made again then."""
    dry_run: bool = False


def failed(order: Job, error: EdgepackError) -> Result:
    return Result(label=order.cell.label, state="failed", seconds=0.0, error=error)
