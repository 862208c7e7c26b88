"""The tests of ``test_output.py`` on the program for Windows, under wine."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
from functools import partial
from pathlib import Path

from tests.support.sample_program import command_of, complaint
from tests.support.windows_sample import ON_WINDOWS
from tests.support.wine import at_terminal, left_in, under_wine, wait_for_console
from tests.unit.runner.test_output import *  # noqa: F403

pytestmark = ON_WINDOWS  # type: ignore[assignment]  # in place of what * brings

LINES = b"a cat\nthe kitten sat\nmat\n"


def test_npy_onto_an_appended_output_is_an_error(sample: Path, tmp_path: Path) -> None:
    """What is appended to goes on as one, and its header cannot be put before the vectors."""
    with (tmp_path / "out.npy").open("ab") as stream:
        done = subprocess.run(
            [*command_of(sample), "--out=npy"],
            input=LINES,
            stdout=stream,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 7
    assert complaint(done)[0] == "error: cannot write the output: Invalid seek"


def test_a_reader_that_goes_away_ends_it_with_a_code_and_no_word(sample: Path) -> None:
    with subprocess.Popen(
        command_of(sample), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as program:
        assert program.stdin and program.stdout and program.stderr
        program.stdin.write(b"a cat\n")
        program.stdin.flush()
        program.stdout.readline()
        program.stdout.close()
        program.stdin.write(b"a cat\n")
        program.stdin.close()
        assert program.wait() == 128 + signal.SIGPIPE
        assert program.stderr.read() == b""


def test_ctrl_c_ends_it_quietly_and_leaves_no_half_file(sample: Path, tmp_path: Path) -> None:
    command = [*command_of(sample), "--output", str(tmp_path / "out.jsonl")]
    # What runs the tests in the background may have had them ignore an interrupt.
    heeding = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=heeding
    ) as program:
        assert program.stdin and program.stderr
        program.stdin.write(b"a cat\n")
        program.stdin.flush()
        while not any(entry.stat().st_size for entry in tmp_path.iterdir()):
            assert program.poll() is None
        program.send_signal(signal.SIGINT)
        assert program.wait(60) == 128 + signal.SIGINT
        assert program.stderr.read() == b""
    assert left_in(tmp_path) == []


def test_ctrl_c_ends_it_while_it_waits_for_a_line(sample: Path) -> None:
    heeding = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(
        command_of(sample),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=heeding,
    ) as program:
        assert program.stdin and program.stdout and program.stderr
        program.stdin.write(b"a cat\n")
        program.stdin.flush()
        program.stdout.readline()
        program.send_signal(signal.SIGINT)
        assert program.wait(60) == 128 + signal.SIGINT
        assert program.stderr.read() == b""


def test_a_table_is_as_wide_as_the_console(sample: Path) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    command = under_wine(sample / "embed.exe", console=True)
    subprocess.run([*command, "a cat", "\u65e5\u672c\u8a9e" * 30, "\x1b[31mred\n"], stdout=theirs, check=True)
    os.close(theirs)
    # wine hides the cursor before what it shows, and shows it again.
    shown = re.sub(r"\x1b\[\?25[lh]|\r", "", all_of(ours)).splitlines()
    assert len(shown) == 3
    assert shown[0].startswith("a cat  ")
    assert shown[0].rstrip().endswith("\u2026")
    assert "\u65e5\u672c" in shown[1]
    assert "\x1b" not in shown[2]
    assert "\u00b7[31mred\u00b7" in shown[2]
    assert max(len(line) for line in shown) <= 60


def all_of(terminal: int) -> str:
    shown = b""
    try:
        while chunk := os.read(terminal, 4096):
            shown += chunk
    except OSError:  # the other end is closed
        pass
    os.close(terminal)
    return shown.decode()


def test_ctrl_c_at_a_console_ends_it_and_leaves_no_half_file(sample: Path, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    files = ["--input", "CON", "--output", str(tmp_path / "out.jsonl")]
    command = [*under_wine(sample / "embed.exe", console=True), *files]
    with subprocess.Popen(command, stdin=theirs, stderr=subprocess.PIPE, preexec_fn=at_terminal) as program:
        assert program.stderr
        wait_for_console(theirs)
        os.write(ours, b"a cat\r")
        while not any(entry.stat().st_size for entry in tmp_path.iterdir()):
            assert program.poll() is None
        os.write(ours, b"\x03")
        assert program.wait(60) == 128 + signal.SIGINT
        assert program.stderr.read() == b""
    assert left_in(tmp_path) == []
    os.close(ours)
    os.close(theirs)
