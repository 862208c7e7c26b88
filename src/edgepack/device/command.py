"""Devices by a command of this machine that takes another command: ``docker exec -i NAME``, ``kubectl exec -i POD --``, ``chroot ROOT``.

``qemu-aarch64 -L ROOT`` runs a program and no shell, unless one is named behind it: this machine's shell then runs the bundle's program under it.
"""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgepack import tools
from edgepack.context import BuildContext
from edgepack.errors import UsageError

QEMU = re.compile(r"qemu-([a-z0-9_]+?)(?:-static)?")
MACHINES = {"arm": "armv7l", "i386": "i686"}
"""What qemu calls processors, and ``uname -m`` does otherwise."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command, and the shell behind it."""

    command: tuple[str | Path, ...]

    def words(self, line: str) -> Sequence[str | Path]:
        return (*self.command, "sh", "-c", line)

    def close(self) -> None:
        """Nothing is held open."""

    @property
    def emulates(self) -> str:
        """The processor whose programs it runs; empty: it is no emulator."""
        named = QEMU.fullmatch(Path(self.command[0]).name) if self.command else None
        return MACHINES.get(named[1], named[1]) if named else ""


def open_command(address: str, *, context: BuildContext) -> Command:
    """The way of ``exec:COMMAND``, whose words are split as a shell does; raises ``UsageError`` and ``MissingToolError``."""
    said = address.partition(":")[2]
    try:
        words = shlex.split(said)
    except ValueError as error:
        raise UsageError(f"{said!r} is no command: {error}", hint="e.g. exec:docker exec -i NAME") from error
    if not words:
        raise UsageError("exec: names no command", hint="e.g. exec:docker exec -i NAME")
    return Command(command=(tools.find(words[0]), *words[1:]))
