"""Compiling for a first bundle while its model is prepared: when that is done, and that it ends."""

import pickle
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgepack.files.store import Store
from edgepack.foundry.units import ProgramSources
from edgepack.plugins.context import HostContext
from edgepack.records.target import Platform
from edgepack.runner.native import ahead

PLATFORM = Platform(os="linux", arch="x86_64", glibc="2.28")
SOURCES = (ProgramSources(files={"main.cc": "int main() {}"}, output="embed"),)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Commands that would have been run."""
    commands: list[list[str]] = []

    @contextmanager
    def beside(command: list[Any]) -> Any:
        commands.append([str(word) for word in command])
        yield

    monkeypatch.setattr(ahead, "beside", beside)
    monkeypatch.setenv("EDGEPACK_JOBS", "2")
    return commands


def compiled(context: HostContext) -> None:
    with ahead.compiling_ahead(SOURCES, platform=PLATFORM, kind="minimal", glibc=None, context=context):
        pass


def with_store(context: HostContext, root: Path) -> HostContext:
    return replace(context, store=Store(root=root))


def test_a_first_bundle_is_compiled_for_while_its_model_is_prepared(
    context: HostContext, started: list[list[str]], tmp_path: Path
) -> None:
    compiled(with_store(context, tmp_path))
    assert [command[1:4] for command in started] == [["-P", "-m", "edgepack.runner.native.ahead"]]


def test_nothing_is_compiled_ahead_where_there_is_something_or_no_second_processor(
    context: HostContext, started: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "full" / ahead.ARCHIVES / "0").mkdir(parents=True)
    compiled(with_store(context, tmp_path / "full"))
    monkeypatch.setenv("EDGEPACK_JOBS", "1")
    compiled(with_store(context, tmp_path / "empty"))
    assert started == []


WAITING = """
import sys, time
from pathlib import Path
from edgepack.foundry.units import ProgramSources
from edgepack.records.target import Platform
from edgepack.runner.native import ahead
ahead.open_build = lambda *_, **__: None
def build_program(*_, **__):
    Path(sys.argv[2]).write_text("begun")
    try:
        time.sleep(600)
    finally:
        Path(sys.argv[2]).write_text("left in order")
ahead.build_program = build_program
ahead.main(sys.argv[1])
"""


@pytest.mark.tools("python")
def test_the_process_ends_when_its_standard_input_does(context: HostContext, tmp_path: Path) -> None:
    """Also when whoever started it is killed, and begun with signals of the keyboard ignored, as in the background of a shell."""
    order = ahead.Ahead(
        sources=SOURCES,
        platform=PLATFORM,
        kind="minimal",
        glibc=None,
        root=tmp_path,
        work_dir=tmp_path,
        offline=True,
    )
    (tmp_path / "order").write_bytes(pickle.dumps(order))
    mark = tmp_path / "mark"
    command = [sys.executable, "-c", WAITING, str(tmp_path / "order"), str(mark)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, preexec_fn=ignore_interrupts)
    assert process.stdin
    while process.poll() is None and not mark.is_file():
        time.sleep(0.02)
    process.stdin.close()
    assert process.wait(timeout=600) == 0
    assert mark.read_text() == "left in order"


def ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
