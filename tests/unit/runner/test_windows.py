"""What the program for Windows does otherwise than that for Linux, under wine and not on Windows: consoles, Ctrl-C, sockets."""

import json
import os
import pty
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from tests.support.embed_serve import read_answer, request, running
from tests.support.sample_program import Run, command_of, complaint
from tests.support.windows_sample import NOT_UNDER_WINE, UNDER_WINE
from tests.support.wine import at_terminal, left_in, under_wine, wait_for_console
from tests.unit.runner.test_serve import values

pytestmark = UNDER_WINE
HERE = Path(__file__).parent


@pytest.fixture
def windows(sample: Path, request: pytest.FixtureRequest) -> Path:
    if request.node.callspec.params["sample"] != "windows":
        pytest.skip("of the program for Windows")
    return sample


def test_what_is_left_out_is_there_to_be_left_out(windows: Path) -> None:
    known = "".join(path.read_text() for path in HERE.glob("test_*.py"))
    assert [name for name in NOT_UNDER_WINE if f"def {name.partition('[')[0]}(" not in known] == []


def test_lines_are_typed_at_a_console_until_ctrl_c(windows: Path) -> None:
    """Ctrl-Z, which ends the input on Windows, wine's console keeps to itself."""
    ours, theirs = pty.openpty()
    command = [*under_wine(windows / "embed.exe", console=True), "--input", "CON", "--out=jsonl"]
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


def test_ctrl_c_at_a_console_ends_it_and_leaves_no_half_file(windows: Path, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    files = ["--input", "CON", "--output", str(tmp_path / "out.jsonl")]
    command = [*under_wine(windows / "embed.exe", console=True), *files]
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


def test_npy_onto_an_appended_output_is_an_error(windows: Path, tmp_path: Path) -> None:
    """What is appended to goes on as one, and its header cannot be put before the vectors."""
    command = [*command_of(windows), "--out=npy"]
    with (tmp_path / "out.npy").open("ab") as stream:
        done = subprocess.run(command, input=b"a cat\n", stdout=stream, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 7
    assert complaint(done)[0] == "error: cannot write the output: Invalid seek"


def test_there_are_no_unix_sockets(windows: Path, run: Run, tmp_path: Path) -> None:
    done = run("serve", "--unix", str(tmp_path / "s"))
    assert done.returncode == 8 and list(tmp_path.iterdir()) == []
    assert complaint(done)[0].endswith("s: Address family not supported by protocol")


def test_told_twice_by_ctrl_c_it_ends_at_once(windows: Path) -> None:
    with running(windows) as server, server.connect() as half:
        half.sendall(request("/v1/embeddings", {"input": "a"})[:-2])
        while values(server)["embed_connections"] != "2":
            pass
        server.process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            server.process.wait(1)
        while server.process.poll() is None:
            server.process.send_signal(signal.SIGINT)
            time.sleep(0.05)
        # Else it would wait for the rest of the request. The code, 0xC000013A on Windows, is 0 under wine.
        with pytest.raises(ConnectionError):
            read_answer(half)


def test_a_half_closed_client_is_worked_for_quietly(windows: Path) -> None:
    """Windows says at every look that it has hung up."""
    many = request("/v1/embeddings", {"input": ["a cat sat on the mat " * 20] * 2000})
    with running(windows, "--wait", "1000") as server, server.connect() as client, server.connect() as other:
        client.sendall(many)
        client.shutdown(socket.SHUT_WR)
        other.sendall(request("/health"))
        assert read_answer(other).status == 200
        assert len(read_answer(client).json["data"]) == 2000
