"""The story of a build, told on stderr: steps, progress and notes. Results go to stdout, elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgepack.context import Progress

if TYPE_CHECKING:
    from rich.console import Console

NAME_WIDTH = 9
SECONDS_BETWEEN_LINES = 15.0


@dataclass(kw_only=True)
class Step:
    """A part of a build that is running, and what has been said of it."""

    name: str
    notes: list[str] = field(default_factory=list)


class Story:
    """Tells what happens: one line a finished step, a bar while long work runs (plain lines when not on a terminal)."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._steps: list[Step] = []
        self._console: Console | None = None

    @property
    def console(self) -> Console:
        """rich's console on stderr; honours NO_COLOR and knows whether it is a terminal."""
        if self._console is None:
            from rich.console import Console

            self._console = Console(stderr=True, highlight=False, soft_wrap=True, quiet=self._quiet)
        return self._console

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Everything noted inside is shown on this step's line, with the time that it took."""
        step = Step(name=name)
        self._steps.append(step)
        started = time.monotonic()
        try:
            with self._waiting(name):
                yield step
        finally:
            self._steps.pop()
        self._line(step, time.monotonic() - started)

    def note(self, message: str) -> None:
        """Say something about the running step, or aloud when there is none."""
        if self._steps:
            self._steps[-1].notes.append(message)
        else:
            self.console.print(message, markup=False)

    def warn(self, message: str) -> None:
        """Say at once what may be wrong, on a line of its own."""
        self.console.print(f"warning: {message}", style="yellow", markup=False)

    @contextmanager
    def progress(self, label: str, total: int | None, unit: str) -> Iterator[Progress]:
        """Show how far long work is."""
        if self.console.is_terminal:
            with _bar(self.console, label, total, unit) as bar:
                yield bar
        else:
            yield _Lines(console=self.console, label=label, total=total, unit=unit)

    @contextmanager
    def _waiting(self, name: str) -> Iterator[None]:
        if not self.console.is_terminal and not self._quiet:
            self.console.print(f"{name:<{NAME_WIDTH}} …", style="dim", markup=False)
        yield

    def _line(self, step: Step, seconds: float) -> None:
        from rich.text import Text

        line = Text.assemble((f"{step.name:<{NAME_WIDTH}} ", "bold"), " … ".join(step.notes) or "done")
        line.append(f"  {seconds:.1f} s", style="dim")
        self.console.print(line)


@contextmanager
def _bar(console: Console, label: str, total: int | None, unit: str) -> Iterator[Progress]:
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    amount: ProgressColumn = DownloadColumn() if unit == "B" else MofNCompleteColumn()
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        amount,
        TextColumn("" if unit == "B" else unit),
        TimeElapsedColumn(),
        TimeRemainingColumn(elapsed_when_finished=False),
        TextColumn("left"),
    )
    # Files take between a second and a minute to compile: an estimate from the last few would jump about.
    with Progress(*columns, console=console, transient=True, speed_estimate_period=300.0) as bars:
        task = bars.add_task(label, total=total)

        class _Bar:
            def advance(self, amount: int = 1) -> None:
                bars.advance(task, amount)

        yield _Bar()


@dataclass(kw_only=True)
class _Lines:
    """Progress for logs: a line now and then."""

    console: Console
    label: str
    total: int | None
    unit: str
    done: int = 0
    started: float = field(default_factory=lambda: time.monotonic())
    last: float = field(default_factory=lambda: time.monotonic())

    def advance(self, amount: int = 1) -> None:
        self.done += amount
        now = time.monotonic()
        if now - self.last >= SECONDS_BETWEEN_LINES:
            self.last = now
            self.console.print(
                f"  {self.label} {_amount(self.done, self.total, self.unit)}{self._left(now)}",
                style="dim",
                markup=False,
            )

    def _left(self, now: float) -> str:
        """How long the rest takes when it goes on as it did."""
        if not self.total or not 0 < self.done < self.total:
            return ""
        seconds = (now - self.started) * (self.total - self.done) / self.done
        return f", about {seconds / 60:.0f} min left" if seconds >= 90 else f", about {seconds:.0f} s left"


def _amount(done: int, total: int | None, unit: str) -> str:
    """``3/12 files`` or ``1.5/2.0 MB``."""
    if unit == "B":
        return "/".join(f"{number / 1e6:.1f}" for number in (done, total) if number is not None) + " MB"
    return f"{done}/{total} {unit}".rstrip() if total else f"{done} {unit}".rstrip()
