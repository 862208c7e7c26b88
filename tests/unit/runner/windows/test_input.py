"""The tests of ``test_input.py`` on the program for Windows, under wine."""

import json
import os
import pty
import signal
import subprocess
from pathlib import Path

from tests.support.sample_program import Run, complaint
from tests.support.windows_sample import ON_WINDOWS
from tests.support.wine import at_terminal, under_wine, wait_for_console
from tests.unit.runner.test_input import *  # noqa: F403

pytestmark = ON_WINDOWS  # type: ignore[assignment]  # in place of what * brings


def test_lines_that_are_not_utf8_are_refused_when_strict(run: Run) -> None:
    done = run("--strict", input=b"a cat\na \xff cat\n")
    assert done.returncode == 3
    assert "line 2 is not UTF-8" in complaint(done)[0]
    assert len(done.stdout.splitlines()) == 1


def test_lines_are_typed_at_a_console_until_ctrl_c(sample: Path) -> None:
    """Ctrl-Z, which ends the input on Windows, wine's console keeps to itself."""
    ours, theirs = pty.openpty()
    command = [*under_wine(sample / "embed.exe", console=True), "--input", "CON", "--out=jsonl"]
    with subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, preexec_fn=at_terminal) as program:
        assert program.stdout is not None
        wait_for_console(theirs)
        for text in ("a cat", "Katze \u00fc \u65e5\u672c \U0001f408"):
            os.write(ours, f"{text}\r".encode())
            assert json.loads(program.stdout.readline())["text"] == text
        os.write(ours, b"\x03")
        assert program.stdout.read() == b""
        assert program.wait() == 128 + signal.SIGINT
    os.close(ours)
    os.close(theirs)
