"""A unit test reaches no network, and starts no program that it does not name."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.doors import Doors, pytest_runtest_setup

ELSEWHERE = "192.0.2.1"
"""An address for documentation: nobody's."""


def test_a_program_fails_a_test_that_names_none() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"mark it with tools\('true'\)"):
        subprocess.run(["true"], check=False)
    with pytest.raises(pytest.fail.Exception):
        os.system("true")


@pytest.mark.tools("python", may=("true",))
def test_what_the_mark_names_is_started(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", ""], check=True)
    subprocess.run(["true"], check=True)
    own = tmp_path / "own"
    own.symlink_to("/bin/true")
    subprocess.run([own], check=True)
    with pytest.raises(pytest.fail.Exception, match="its mark names only python, true"):
        subprocess.run(["false"], check=False)


def test_any_compiler_is_a_compiler() -> None:
    Doors(test="", tools=frozenset({"c++"})).check_program("/usr/bin/g++")


def test_without_a_program_that_is_needed_a_test_is_skipped(request: pytest.FixtureRequest) -> None:
    request.applymarker(pytest.mark.tools("no-such-program"))
    with pytest.raises(pytest.skip.Exception, match="needs no-such-program"):
        pytest_runtest_setup(request.node)


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_UNIX], ids=["tcp", "unix"])
def test_a_server_of_its_own_is_reached(family: socket.AddressFamily, tmp_path: Path) -> None:
    with socket.socket(family) as server, socket.socket(family) as client:
        server.bind(("127.0.0.1", 0) if family == socket.AF_INET else str(tmp_path / "socket"))
        server.listen()
        client.connect(server.getsockname())


def test_other_machines_are_not_reached() -> None:
    with socket.socket() as client, pytest.raises(pytest.fail.Exception, match="reaches for the network"):
        client.connect((ELSEWHERE, 9))
    with pytest.raises(pytest.fail.Exception):
        socket.getaddrinfo("models.example.com", 443)
