"""A real OpenSSH server on the loopback, with keys made for the test, and a client that knows nothing else."""

import getpass
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.device_tools import program
from tests.support.devices import executable

CONFIG = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile {folder}/pid
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
PermitUserEnvironment no
AcceptEnv nothing
{more}
"""
CLIENT = """
Host board
  HostName 127.0.0.1
  Port {port}
  User {user}
  IdentityFile {folder}/user
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking accept-new
"""


@contextmanager
def ssh_server(folder: Path, monkeypatch: pytest.MonkeyPatch, more: str = "") -> Iterator[str]:
    """A server; its address, ``ssh://board``, as the client on PATH knows it. ``more`` is configuration of the server."""
    folder.mkdir(mode=0o700)
    for name in ("host", "user"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name],
            check=True,
            stdin=subprocess.DEVNULL,
        )
    port = _free_port()
    (folder / "sshd_config").write_text(CONFIG.format(folder=folder, port=port, more=more))
    (folder / "config").write_text(CLIENT.format(folder=folder, port=port, user=getpass.getuser()))
    executable(folder / "bin" / "ssh", f'#!/bin/sh\nexec /usr/bin/ssh -F {folder}/config "$@"\n')
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    sshd = str(program("sshd"))
    # Not in the background: it is ended by its number.
    server = subprocess.Popen([sshd, "-D", "-f", folder / "sshd_config", "-E", folder / "log"])
    try:
        _wait_for(port, server)
        yield "ssh://board"
    finally:
        server.terminate()
        server.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int, server: "subprocess.Popen[bytes]") -> None:
    for _ in range(200):
        if server.poll() is not None:
            break
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail("the server of OpenSSH does not start")
