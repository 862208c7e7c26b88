"""How long each test file takes: tests/durations.txt orders the work, and the ten dearest files are named at the end.

``pytest --record-durations`` writes what it ran into the table; files that it did not run keep their line. The seconds are
of one process, without the compilers and programs that it waits for at the same time as others do, and of whatever machine
recorded them: they order, and no test looks at them.
"""

from collections import defaultdict
from pathlib import Path

import pytest

TABLE = Path(__file__).parents[1] / "durations.txt"
ROOT = TABLE.parents[1]
DEAREST = 10
LEAST = 0.1
"""Seconds below which a file has no line of its own."""


def recorded() -> dict[str, float]:
    """File, as pytest names it → seconds."""
    lines = TABLE.read_text(encoding="utf-8").splitlines() if TABLE.exists() else []
    return {name: float(seconds) for seconds, name in (line.split() for line in lines)}


class Durations:
    """Adds up what each file's tests take, with what is set up for them."""

    def __init__(self, *, write: bool) -> None:
        self.write = write
        self.seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid.partition("::")[0]] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if len(self.seconds) > DEAREST:
            terminalreporter.section("dearest files")
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
    if not hasattr(config, "workerinput"):
        write = bool(config.getoption("--record-durations"))
        config.pluginmanager.register(Durations(write=write), "durations")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Files go to processes in this order: a long one at the end would keep one busy alone.
    seconds = recorded()
    items.sort(key=lambda item: -seconds.get(item.nodeid.partition("::")[0], 0.0))
