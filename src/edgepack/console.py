"""The story of a build, told on stderr: steps, progress and notes. Results go to stdout, elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from edgepack.terminal_text import ascii_only, indented, shown

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.progress import Progress, TaskID
    from rich.segment import Segment

    from edgepack.context import Progress as Amount

NAME_WIDTH = 9
SECONDS_BETWEEN_LINES = 15.0


@dataclass(kw_only=True)
class Step:
    """A part of a build that is running, and what has been said of it."""

    name: str
    notes: list[str] = field(default_factory=list)


class Story:
    """Tells what happens: a line for each finished step.

    On a terminal the running step is shown with its time, and a bar while it knows how far it is; elsewhere it is named when
    it begins, and long work says a line now and then.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self.warnings: list[str] = []
        """What was warned of, quiet or not, for whoever tells it again."""
        self._steps: list[Step] = []
        self._console: Console | None = None
        self._live: Progress | None = None
        self._planned, self._begun = 0, 0

    @property
    def console(self) -> Console:
        """rich's console on stderr; honours NO_COLOR and knows whether it is a terminal."""
        if self._console is None:
            self._console = harmless_console(stderr=True, highlight=False, soft_wrap=True, quiet=self._quiet)
        return self._console

    def plan(self, steps: int) -> None:
        """So many steps come: the running one is shown as ``3/8``."""
        self._planned, self._begun = steps, 0

    @contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Everything noted inside is shown on this step's line, with the time that it took."""
        step = Step(name=name)
        self._begun += 1
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
            self._steps[-1].notes.append(indented(message))
        else:
            self.tell(message)

    def tell(self, message: str) -> None:
        """Say something on a line of its own, whatever is running."""
        self.console.print(indented(message), markup=False)

    def warn(self, message: str) -> None:
        """Say at once what may be wrong, on a line of its own."""
        self.warnings.append(message)
        self.console.print(f"warning: {indented(message)}", style="yellow", markup=False)

    @contextmanager
    def progress(self, label: str, total: int | None, unit: str, before: str = "") -> Iterator[Amount]:
        """Show how far long work is, after what is to be said of it beforehand."""
        if before:
            self.console.print(f"  {label}: {before}", style="dim", markup=False)
        if not self.console.is_terminal:
            yield _Lines(console=self.console, label=label, total=total, unit=unit)
            return
        with self._shown() as live:
            task = live.add_task(label, total=total, unit=unit)
            try:
                yield _Bar(live=live, task=task)
            finally:
                live.remove_task(task)

    @contextmanager
    def _waiting(self, name: str) -> Iterator[None]:
        if not self.console.is_terminal:
            if not self._quiet:
                self.console.print(f"{name:<{NAME_WIDTH}} …", style="dim", markup=False)
            yield
            return
        with self._shown() as live:
            place = f"{self._begun}/{self._planned} " if self._planned else ""
            task = live.add_task(f"{place}{name}", total=None, unit="")
            try:
                yield
            finally:
                live.remove_task(task)

    @contextmanager
    def _shown(self) -> Iterator[Progress]:
        """One display for all that runs at a time: a step, and the work in it."""
        if self._live is not None:
            yield self._live
            return
        with _display(self.console) as live:
            self._live = live
            try:
                yield live
            finally:
                self._live = None

    def _line(self, step: Step, seconds: float) -> None:
        from rich.table import Table
        from rich.text import Text

        said, took = shown(" … ".join(step.notes) or "done"), f"{seconds:.1f} s"
        if not self.console.is_terminal:
            self.console.print(f"{step.name:<{NAME_WIDTH}} {said}  {took}", markup=False)
            return
        # A long line goes on below its own beginning, broken between words.
        line = Table.grid(padding=(0, 1), pad_edge=False)
        line.add_column(width=NAME_WIDTH, no_wrap=True)
        line.add_column(overflow="fold")
        line.add_row(Text(step.name, style="bold"), Text.assemble(said, "  ", (took, "dim")))
        self.console.print(line, soft_wrap=False)


def harmless_console(**options: Any) -> Console:
    """rich's console, which styles what it prints and lets no word of it steer the terminal (``words.shown``)."""
    from rich.console import Console
    from rich.segment import Segment

    class Harmless(Console):
        @property
        def encoding(self) -> str:
            return "ascii" if ascii_only() else super().encoding

        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                text = segment.text if segment.control else shown(segment.text)
                yield segment if text == segment.text else Segment(text, segment.style)

    return Harmless(**options)


def _display(console: Console) -> Progress:
    from rich.progress import BarColumn, Progress, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
    from rich.text import Text

    class _Amount(TextColumn):
        """``3/12 files, about 9 min left``."""

        def render(self, task: Task) -> Text:
            if task.total is None and not task.completed:
                return Text()
            total = None if task.total is None else int(task.total)
            done = int(task.completed)
            return Text(_amount(done, total, task.fields["unit"]) + _left(task.elapsed or 0.0, done, total))

    class _OptionalBar(BarColumn):
        """Nothing where it is not known how far the work is."""

        def render(self, task: Task) -> Any:
            return Text() if task.total is None else super().render(task)

    columns = (
        SpinnerColumn("line" if ascii_only() else "dots"),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
        _OptionalBar(bar_width=24),
        _Amount(""),
    )
    return Progress(*columns, console=console, transient=True)


@dataclass(frozen=True, kw_only=True)
class _Bar:
    """Progress on a terminal."""

    live: Progress
    task: TaskID

    def advance(self, amount: int = 1) -> None:
        self.live.advance(self.task, amount)


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
                f"  {self.label} {_amount(self.done, self.total, self.unit)}{_left(now - self.started, self.done, self.total)}",
                style="dim",
                markup=False,
            )


def _left(elapsed: float, done: int, total: int | None) -> str:
    """How long the rest takes when it goes on as it did; nothing before a twentieth, which tells little."""
    if not total or not total / 20 <= done < total:
        return ""
    seconds = elapsed * (total - done) / done
    return f", about {seconds / 60:.0f} min left" if seconds >= 90 else f", about {seconds:.0f} s left"


def _amount(done: int, total: int | None, unit: str) -> str:
    """``3/12 files`` or ``1.5/2.0 MB``."""
    if unit == "B":
        return "/".join(f"{number / 1e6:.1f}" for number in (done, total) if number is not None) + " MB"
    return f"{done}/{total} {unit}".rstrip() if total else f"{done} {unit}".rstrip()
