"""The tests of ``test_serve.py`` on the program for Windows, under wine and not on Windows; how it is told to stop."""

import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest
from tests.support.embed_serve import read_answer, request, running
from tests.support.sample_program import Run, complaint
from tests.support.windows_sample import ON_WINDOWS
from tests.unit.runner.test_serve import *  # noqa: F403
from tests.unit.runner.test_serve import values

pytestmark = ON_WINDOWS  # type: ignore[assignment]  # in place of what * brings


def test_it_checks_itself_on_a_port(run: Run, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret")
    for options in ((), ("--token-file", str(tmp_path / "token")), ("--host", "::1")):
        done = run("serve", "--check", "--port=0", *options)
        assert done.returncode == 0 and done.stderr.startswith(b"listening on "), done.stderr
        # Of who may read or write the file nothing is known, and nothing said.
        assert done.stderr.count(b"\n") == 1


def test_there_are_no_unix_sockets(run: Run, tmp_path: Path) -> None:
    done = run("serve", "--unix", str(tmp_path / "s"))
    assert done.returncode == 8 and list(tmp_path.iterdir()) == []
    assert complaint(done)[0].endswith("s: Address family not supported by protocol")


def test_told_twice_by_ctrl_c_it_ends_at_once(sample: Path) -> None:
    with running(sample) as server, server.connect() as half:
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


def test_a_half_closed_client_is_worked_for_quietly(sample: Path) -> None:
    """Windows says at every look that it has hung up."""
    many = request("/v1/embeddings", {"input": ["a cat sat on the mat " * 20] * 2000})
    with running(sample, "--wait", "1000") as server, server.connect() as client, server.connect() as other:
        client.sendall(many)
        client.shutdown(socket.SHUT_WR)
        other.sendall(request("/health"))
        assert read_answer(other).status == 200
        assert len(read_answer(client).json["data"]) == 2000
