"""Devices by OpenSSH's client: its configuration, keys, agents and jump hosts; never a password."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgepack import tools
from edgepack.context import BuildContext
from edgepack.errors import UsageError

ADDRESS = re.compile(
    r"ssh://(?:(?P<user>[A-Za-z0-9_][A-Za-z0-9_.@-]*)@)?"
    r"(?P<host>[A-Za-z0-9_][A-Za-z0-9_.-]*|\[[0-9A-Fa-f:.%]+\])(?::(?P<port>[0-9]{1,5}))?/?"
)
"""No part may begin with a dash: it would be an option of ssh's."""
OPTIONS = (
    *("BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=15", "ServerAliveCountMax=4"),
    *("ForwardAgent=no", "ForwardX11=no", "RequestTTY=no", "LogLevel=ERROR"),
)
LONGEST_SOCKET = 80
"""Letters of the path of a socket, to which ssh adds some; the system takes 107."""


@dataclass(frozen=True, kw_only=True)
class Ssh:
    """A machine, and the options of ssh that lead to it."""

    host: str
    options: tuple[str, ...]
    socket: Path | None
    """Of the one connection that all commands share; ``None``: each makes its own."""

    def words(self, line: str) -> Sequence[str | Path]:
        return (tools.find("ssh"), "-T", *self.options, "--", self.host, line)

    def close(self) -> None:
        if self.socket is not None and self.socket.exists():
            stop: tuple[str | Path, ...] = (tools.find("ssh"), *self.options, "-O", "exit", "--", self.host)
            tools.exchange(stop, seconds=10, most=1 << 16)


def open_ssh(address: str, *, context: BuildContext) -> Ssh:
    """The way to ``ssh://[USER@]HOST[:PORT]``; raises ``UsageError`` and ``MissingToolError``."""
    found = ADDRESS.fullmatch(address)
    if found is None:
        raise UsageError(
            f"{address!r} is not the address of a machine",
            hint="ssh://[USER@]HOST[:PORT]; HOST may be a name of ~/.ssh/config, which takes all other options of ssh",
        )
    tools.find("ssh")
    said = [*OPTIONS]
    if found["port"]:
        said.append(f"Port={found['port']}")
    if found["user"]:
        said.append(f"User={found['user']}")
    socket: Path | None = context.work_dir / f"ssh-{abs(hash(address)) % 10**8}"
    if socket is not None and len(str(socket)) <= LONGEST_SOCKET:
        said += ["ControlMaster=auto", f"ControlPath={_escaped(socket)}", "ControlPersist=60"]
    else:
        socket = None
    options = tuple(word for option in said for word in ("-o", option))
    return Ssh(host=found["host"].strip("[]"), options=options, socket=socket)


def _escaped(path: Path) -> str:
    """A path as ssh takes it, where ``%`` stands for something."""
    return str(path).replace("%", "%%")
