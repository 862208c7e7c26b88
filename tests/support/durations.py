"""What each test file costs: tests/durations.txt orders the work, and the ten dearest files are named at the end.

``pytest --record-durations`` writes what it ran into the table; files that it did not run keep their line. The seconds are
of processor time, of the tests and of the compilers and programs that they wait for: what else the machine does hardly changes
them. They order the work, and no test looks at them.
"""

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import command

TABLE = Path(__file__).parents[1] / "durations.txt"
ROOT = TABLE.parents[1]
DEAREST = 10
LEAST = 0.1
"""Seconds below which a file has no line of its own."""
TAKEN = "processor_seconds"


def recorded() -> dict[str, float]:
    """File, as pytest names it → seconds."""
    lines = TABLE.read_text(encoding="utf-8").splitlines() if TABLE.exists() else []
    return {name: float(seconds) for seconds, name in (line.split() for line in lines)}


def processor_seconds() -> float:
    """Of this process so far, and of those that it started and that have ended."""
    return sum(os.times()[:4]) + command.elsewhere


class Clock:
    """Says in each report of a test's phase what passed since the last one. With pytest-xdist, reports go to another process."""

    def __init__(self) -> None:
        self.last = 0.0

    def pytest_runtest_logstart(self) -> None:
        self.last = processor_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Iterator[None]:
        report = yield
        now = processor_seconds()
        setattr(report, TAKEN, now - self.last)
        self.last = now
        return report


class Durations:
    """Adds up what each file's tests take, with what is set up for them."""

    def __init__(self, *, write: bool) -> None:
        self.write = write
        self.seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid.partition("::")[0]] += getattr(report, TAKEN)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if len(self.seconds) > DEAREST:
            terminalreporter.section(
                f"dearest files, of {sum(self.seconds.values()):.0f} s of processor time"
            )
            for name, seconds in _dearest_first(self.seconds)[:DEAREST]:
                terminalreporter.line(f"{seconds:8.1f} s  {name}")
        if self.write:
            write_table(recorded() | self.seconds)
            terminalreporter.line(f"wrote {TABLE.relative_to(ROOT)}")


def write_table(seconds: dict[str, float]) -> None:
    """The dearest file first; what is no longer there or takes no time is left out."""
    lines = [
        f"{taken:7.1f} {name}\n"
        for name, taken in _dearest_first(seconds)
        if taken >= LEAST and (ROOT / name).exists()
    ]
    TABLE.write_text("".join(lines), encoding="utf-8")


def _dearest_first(seconds: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(seconds.items(), key=lambda each: (-each[1], each[0]))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--record-durations", action="store_true", help="write what each file took into its table"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Clock(), "clock")
    if not hasattr(config, "workerinput"):
        write = bool(config.getoption("--record-durations"))
        config.pluginmanager.register(Durations(write=write), "durations")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Files go to processes in this order: a long one at the end would keep one busy alone.
    seconds = recorded()
    items.sort(key=lambda item: -seconds.get(item.nodeid.partition("::")[0], 0.0))
