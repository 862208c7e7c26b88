"""A plugin shares its process with the host: what it does to the process hurts nobody, and is said to be its doing."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

METADATA = "Metadata-Version: 2.1\nName: edgepack-bad\nVersion: 0.1\n"
SPEC = """
from edgepack import api
@api.hookimpl
def edgepack_specs():
    return [api.Spec(axis="package", name="bad", summary="bad", make=lambda target: None)]
"""
SLOWLY = "import edgepack.plugins.process as p\np.SLOW = p.GRACE = {seconds}\nimport sys\nsys.argv[0] = 'edgepack'\nimport edgepack.cli\nedgepack.cli.main()\n"

pytestmark = pytest.mark.tools("python")

Run = Callable[..., "subprocess.CompletedProcess[str]"]
Start = Callable[..., "AbstractContextManager[subprocess.Popen[str]]"]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Starts edgepack with a plugin that does something when it is imported."""

    @contextmanager
    def begin(
        code: str, words: Sequence[str] = ("plugins",), *, seconds: float = 0.1, **more: Any
    ) -> Iterator[Any]:
        (tmp_path / "edgepack_bad.py").write_text(code + SPEC)
        info = tmp_path / "edgepack_bad-0.1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(METADATA)
        (info / "entry_points.txt").write_text(
            "[edgepack]\nbad = edgepack_bad\n[edgepack.commands]\nbad = edgepack_bad:command\n"
        )
        with subprocess.Popen(
            [sys.executable, "-c", SLOWLY.format(seconds=seconds), *words],
            env={**os.environ, "PYTHONPATH": str(tmp_path), "COLUMNS": "300"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **more,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    return begin


@pytest.fixture
def run(start: Start) -> Run:
    """The same, to its end."""

    def go(*arguments: Any, **more: Any) -> subprocess.CompletedProcess[str]:
        with start(*arguments, **more) as process:
            said = process.communicate()
        return subprocess.CompletedProcess((), process.returncode, *said)

    return go


HANGS = "import time\nfor _ in range(6000):\n    time.sleep(0.1)\n"
STILL = "still importing plugin bad (edgepack-bad 0.1); --no-plugins leaves it out\n"


def test_an_import_that_hangs_is_named_and_an_interrupt_says_where_it_came(start: Start) -> None:
    with start(HANGS) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == STILL
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert said == (
        "interrupted while importing plugin bad (edgepack-bad 0.1); no partial output was left behind\n"
    )
    assert process.returncode == 130


def test_a_command_whose_import_hangs_is_named(start: Start) -> None:
    with start(HANGS, ("bad",)) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == STILL.replace("plugin bad", "plugin edgepack_bad")
        process.terminate()
        _, said = process.communicate()
    assert said.startswith("interrupted while importing plugin edgepack_bad (edgepack-bad 0.1)")


def test_a_plugin_that_catches_interrupts_is_ended_by_the_third(start: Start) -> None:
    deaf = (
        "import sys, time\n"
        "while True:\n"
        "    try:\n"
        "        sys.stderr.write('waits\\n')\n        sys.stderr.flush()\n        time.sleep(600)\n"
        "    except BaseException:\n        pass\n"
    )
    with start(deaf, seconds=600) as process:
        assert process.stderr is not None
        for _ in range(3):
            assert process.stderr.readline() == "waits\n"
            process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert said == "interrupted three times; temporary files may be left behind\n"
    assert process.returncode == 130


@pytest.mark.slow
def test_a_plugin_that_is_left_out_does_not_hang(run: Run) -> None:
    done = run(HANGS, ("--no-plugins", "plugins"))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "left"),
    [
        ("import threading, time\nthreading.Thread(target=time.sleep, args=(600,), name='uploads').start()\n", "thread uploads of plugin bad"),
        ("import atexit, time\natexit.register(time.sleep, 600)\n", "what a plugin left running"),
    ],
)  # fmt: skip
def test_a_command_ends_whatever_a_plugin_left_running(run: Run, code: str, left: str) -> None:
    done = run(code)
    assert done.returncode == 0
    assert "package bad" in done.stdout
    assert done.stderr == f"warning: ended without waiting for {left}\n"


@pytest.mark.slow
@pytest.mark.parametrize("code", ["import os\nos._exit(3)\n", "from os import _exit\n_exit(3)\n"])
def test_an_import_that_ends_the_process_is_a_broken_plugin(run: Run, code: str) -> None:
    done = run(code)
    assert done.returncode == 4
    assert "broken: it ended the program (SystemExit: 3), when it was imported" in done.stdout


@pytest.mark.sample(1)
@pytest.mark.parametrize("code", ["import os\nos.abort()\n", "import ctypes\nctypes.string_at(0)\n"])
def test_a_crash_of_native_code_names_the_line_of_the_plugin(run: Run, code: str) -> None:
    done = run(code, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)))
    assert done.returncode < 0
    assert 'edgepack_bad.py", line 2 in <module>' in done.stderr


@pytest.mark.slow
def test_a_child_that_a_plugin_forks_ends_as_it_says(run: Run) -> None:
    fork = "import os\nif not (child := os.fork()):\n    os._exit(7)\nassert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7\n"
    done = run(fork)
    assert done.returncode == 0, done.stdout


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "code",
    [
        "import os, tempfile; d = tempfile.mkdtemp(); os.chdir(d); os.rmdir(d); os.environ.clear(); os.umask(0o777)",
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); signal.signal(signal.SIGTERM, lambda *_: None)",
        "import sys; sys.stdout.close(); sys.stderr.close()",
        "import sys; sys.stdout = sys.stderr = sys.excepthook = None",
        "import sys; sys.stdout = sys.stderr = open('/dev/null', 'w')",
        "import os; os.close(1); os.close(2)",
        "import os; os.dup2(os.open('/dev/null', 1), 1); os.dup2(1, 2); print('x' * 1_000_000)",
        "import locale; locale.setlocale(locale.LC_ALL, 'C.UTF-8')",
        "import sys, warnings; warnings.simplefilter('error'); sys.setrecursionlimit(90)",
        "import logging; logging.basicConfig(level=0); [logging.info('x' * 80) for _ in range(1000)]",
        "import socket; socket.setdefaulttimeout(0.0001)",
    ],
)
def test_what_an_import_does_to_the_process_is_put_back(run: Run, tmp_path: Path, code: str) -> None:
    done = run(code + "\n", ("plugins", "--json"), cwd=tmp_path)
    assert done.returncode == 0, done
    assert '"brings": "package bad"' in done.stdout
    assert "Traceback" not in done.stderr
