"""Doors that are closed in a unit test: to the network, and to programs that it does not name.

``@pytest.mark.tools("gcc", may=("strip",))`` names what it needs, without which it is skipped, and what it may start beside
that. A test with the mark may also start what lies in the temporary folder: what it, or a fixture, made there. Tests that
are marked ``e2e`` have open doors.
"""

import re
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import pytest

from edgepack.models.ort import watcher
from edgepack.tools import is_installed

KINDS = {"c++": ("g++", "clang++", "zig"), "python": (), "zig": (), "node": ()}
"""Names for any of several programs, and for what need not be on PATH."""
STARTS = {"subprocess.Popen": 0, "os.exec": 0, "os.posix_spawn": 0, "os.system": 0}
"""Audit events of a program's start, and which of their values names it."""
WATCHER = Path(watcher.__file__)
"""Is started by whichever test first runs a graph in this process."""
CONNECTS = {"socket.connect": 1, "socket.sendto": 1, "socket.getaddrinfo": 0, "socket.gethostbyname": 0}


@dataclass(frozen=True, kw_only=True)
class Doors:
    """What a test may reach."""

    test: str
    tools: frozenset[str] | None
    """None: no program at all, not even its own."""

    def check_program(self, program: str) -> None:
        name = name_of(program)
        if self.tools is None:
            pytest.fail(f"{self.test} starts {program}: mark it with tools({name!r})")
        allowed = self.tools.union(*(KINDS.get(tool, ()) for tool in self.tools))
        if name not in allowed and not Path(program).is_relative_to(tempfile.gettempdir()):
            pytest.fail(
                f"{self.test} starts {program}, and its mark names only {', '.join(sorted(self.tools))}"
            )

    def check_address(self, address: object) -> None:
        host = address[0] if isinstance(address, tuple) else address
        if not is_local(host):
            pytest.fail(f"{self.test} reaches for the network: {address!r}")


def name_of(program: str) -> str:
    """``python`` for this interpreter under any name, else the file's."""
    name = Path(program).name
    return "python" if program == sys.executable or re.fullmatch(r"python[\d.]*", name) else name


def is_local(host: object) -> bool:
    """Whether a host, or the path of a Unix socket, is on this machine."""
    if not isinstance(host, str) or host in ("", "localhost") or host.startswith(("/", "\0")):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


running: list[pytest.Item] = []
"""The test that runs now, if any."""


class Watch:
    """Python tells it of every program and connection. ``pytest.fail`` is no ``Exception``: no ``except`` swallows it."""

    def __init__(self) -> None:
        self.doors: Doors | None = None

    def __call__(self, event: str, values: tuple[object, ...]) -> None:
        if self.doors is None:
            return
        words = values[1] if len(values) > 1 and isinstance(values[1], list) else []
        if event in STARTS and str(WATCHER) not in map(str, words):
            program = values[STARTS[event]]
            self.doors.check_program(program.decode() if isinstance(program, bytes) else str(program))
        elif event in CONNECTS:
            self.doors.check_address(values[CONNECTS[event]])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.doors = doors_of(item)
        running.append(item)
        try:
            return (yield)
        finally:
            running.clear()
            self.doors = None


def doors_of(item: pytest.Item) -> Doors | None:
    """None: all are open."""
    marked = item.get_closest_marker("tools") is not None
    if item.get_closest_marker("e2e"):
        return None
    return Doors(test=item.nodeid, tools=frozenset((*needed_by(item), *allowed_to(item))) if marked else None)


def needed_by(item: pytest.Item) -> Iterator[str]:
    for mark in item.iter_markers("tools"):
        yield from mark.args


def allowed_to(item: pytest.Item) -> Iterator[str]:
    for mark in item.iter_markers("tools"):
        yield from mark.kwargs.get("may", ())


def pytest_configure(config: pytest.Config) -> None:
    # A shell lets what it starts in the background ignore it, and so would all programs that tests interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    watch = Watch()
    sys.addaudithook(watch)
    config.pluginmanager.register(watch, "doors")


def pytest_runtest_setup(item: pytest.Item) -> None:
    for tool in needed_by(item):
        if tool not in KINDS and not is_installed(tool):
            pytest.skip(f"needs {tool}")
