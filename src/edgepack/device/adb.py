"""Android devices by the system's adb."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgepack import tools
from edgepack.context import BuildContext
from edgepack.errors import UsageError

SERIAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")


@dataclass(frozen=True, kw_only=True)
class Adb:
    """A device, by the serial number that ``adb devices`` shows."""

    serial: str

    def words(self, line: str) -> Sequence[str | Path]:
        return (tools.find("adb"), "-s", self.serial, "shell", "-T", line)

    def close(self) -> None:
        """The server of adb's own is left as it was."""


def open_adb(address: str, *, context: BuildContext) -> Adb:
    """The way of ``adb:SERIAL``; raises ``UsageError`` and ``MissingToolError``."""
    serial = address.partition(":")[2]
    if not SERIAL.fullmatch(serial):
        raise UsageError(f"{address!r} names no device", hint="`adb devices` lists their serial numbers")
    tools.find("adb")
    return Adb(serial=serial)
