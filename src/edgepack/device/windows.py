"""What the host says to Windows: cmd.exe behind OpenSSH's server, with the tar.exe and certutil.exe that Windows has."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgepack.device.shell import NO_PLACE, NO_VARIABLES
from edgepack.errors import DeviceError

DESCRIBE = " & ".join(
    (
        "echo system=Windows",
        "echo machine=%PROCESSOR_ARCHITECTURE%",
        "echo processor=%PROCESSOR_IDENTIFIER%",
        "echo cores=%NUMBER_OF_PROCESSORS%",
        "for /f \"delims=\" %v in ('ver') do @echo kernel=%v",
    )
)
AT_ONCE = 4000
"""Letters of a command: cmd takes 8,191 with all that is around it."""
SAFE = re.compile(r"[A-Za-z0-9_.,:/\\=@+~ -]*")
"""What cmd leaves alone between quotation marks."""


@dataclass(frozen=True, kw_only=True)
class Windows:
    """``cmd.exe``, also where PowerShell is what OpenSSH starts. It has been run against a stand-in only."""

    windows: bool = True
    powershell: bool = False
    """Whether PowerShell is what takes the line."""

    def line(self, command: str, token: str) -> str:
        # /v:on: !errorlevel! is looked up after the command has run. --%: PowerShell leaves the rest of the line alone.
        verbatim = "--% " * self.powershell
        return f'cmd {verbatim}/d /v:on /s /c "({command}) & echo {token}:!errorlevel! 1>&2"'

    def describe(self) -> str:
        return DESCRIBE

    def place(self, name: str, size: int) -> str:
        return f'mkdir "%TEMP%\\{name}" && (for %f in ("%TEMP%\\{name}") do @echo %~ff) || cmd /c exit {NO_PLACE}'

    def unpack(self, folder: str) -> str:
        return f"cd /d {_quoted(folder)} && tar -xf -"

    def digests(self, folder: str, names: Sequence[str]) -> Sequence[str]:
        commands, current = [], f"cd /d {_quoted(folder)}"
        for name in names:
            each = f" && certutil -hashfile {_quoted(name.replace('/', chr(92)))} SHA256"
            if len(current) + len(each) > AT_ONCE:
                commands.append(current)
                current = f"cd /d {_quoted(folder)}"
            current += each
        return [*commands, current]

    def read_digests(self, said: Sequence[str], names: Sequence[str]) -> Mapping[str, str]:
        # Its words are in the language of the system; digests come in the order that was asked for.
        lines = [line.replace(" ", "").lower() for each in said for line in each.splitlines()]
        digests = [line for line in lines if re.fullmatch(r"[0-9a-f]{64}", line)]
        return dict(zip(names, digests, strict=True)) if len(digests) == len(names) else {}

    def read_back(self, folder: str) -> str:
        return f"cd /d {_quoted(folder)} && tar -cf - ."

    def program(
        self, folder: str, words: Sequence[str], seconds: float, environment: Mapping[str, str] = NO_VARIABLES
    ) -> str:
        if environment:
            raise ValueError("no variables are set there")
        program = f"{folder}\\{words[0]}".replace("/", "\\")
        return f"cd /d {_quoted(folder)} && {' '.join(map(_quoted, (program, *words[1:])))}"

    def metered(self, command: str, energy: str) -> str:
        return command

    def remove(self, folder: str) -> str:
        _quoted(folder)
        stop = f"Get-Process | Where-Object {{ $_.Path -like '{folder}\\*' }} | Stop-Process -Force"
        return f'powershell -NoProfile -NonInteractive -Command "{stop}" >nul 2>nul & rmdir /s /q {_quoted(folder)}'


def _quoted(word: str) -> str:
    """A word for cmd. Raises ``DeviceError`` for what it would not leave as it is."""
    if not SAFE.fullmatch(word) or word.endswith("\\"):
        raise DeviceError(
            f"{word!r} is no word for cmd.exe", hint="set TEMP there to a folder with a plain name"
        )
    return f'"{word}"'
