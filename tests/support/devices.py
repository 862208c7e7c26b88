"""Devices of tests: this machine's shell, bent in one way each; their folder shows what was left there."""

import os
import shutil
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from edgepack.device.posix import Posix
from edgepack.device.session import Address, Session

COUNTING = """#!/bin/sh
# WHAT AT, then what is to be run: from the AT-th call on something else happens.
what=$1 at=$2; shift 2
n=$(($(cat "$0.count" 2>/dev/null || echo 0) + 1)); echo $n > "$0.count"
[ "$n" -ge "$at" ] || exec "$@"
case $what in
  die) head -c 1000 > /dev/null; echo "Connection to board closed." >&2; exit 255 ;;
  die-once) [ "$n" = "$at" ] || exec "$@"; exit 255 ;;
  hang) exec sleep 1000 ;;
  hang-once) [ "$n" = "$at" ] || exec "$@"; exec sleep 1000 ;;
  flood) [ "$n" = "$at" ] || exec "$@"; exec yes flood ;;
esac
"""
NEEDED = (
    *(
        "cat",
        "chmod",
        "date",
        "df",
        "getconf",
        "grep",
        "head",
        "ldd",
        "ls",
        "mkdir",
        "readlink",
        "rm",
        "rmdir",
    ),
    *("sed", "sh", "sleep", "tail", "tar", "timeout", "tr", "true", "uname"),
)
"""Programs that a device has at least, beside what compares files."""


def executable(file: Path, text: str) -> Path:
    """A script."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return file


@dataclass(frozen=True)
class Board:
    """A device: a folder for temporary files, and one with programs that go before this machine's."""

    folder: Path

    @property
    def temporary(self) -> Path:
        return self.folder / "tmp"

    @property
    def left(self) -> list[Path]:
        """What lies there."""
        return sorted(self.temporary.iterdir())

    def with_program(self, name: str, text: str) -> "Board":
        """The same with another program of a name."""
        executable(self.folder / "bin" / name, f"#!/bin/sh\n{text}\n")
        return self

    def address(self, *command: str | Path, path: str | None = None) -> str:
        """``exec:…``: a shell there, behind a command."""
        search = path or f"{self.folder / 'bin'}:{os.environ['PATH']}"
        words = ["env", f"PATH={search}", f"TMPDIR={self.temporary}", "HOME=/nonexistent", *map(str, command)]
        return f"board=exec:{' '.join(words)}"

    def failing(self, what: str, at: int) -> str:
        """The address of a device that fails at a call, counted from 1."""
        script = executable(self.folder / f"failing-{what}-{at}", COUNTING)
        return self.address(script, what, str(at))

    def poor(self) -> str:
        """The address of a device without anything that compares files."""
        tools = self.folder / "tools"
        tools.mkdir()
        for name in NEEDED:
            if (found := shutil.which(name)) is not None:
                (tools / name).symlink_to(found)
        return self.address(path=str(tools))


def board_in(folder: Path) -> Board:
    board = Board(folder)
    (folder / "bin").mkdir(parents=True)
    board.temporary.mkdir()
    return board


@dataclass
class Line:
    """A transport whose answers are a function's of the line."""

    answer: Callable[[str], Sequence[str | Path]]
    closed: list[bool] = field(default_factory=list)

    def words(self, line: str) -> Sequence[str | Path]:
        return self.answer(line)

    def close(self) -> None:
        self.closed.append(True)


def session_of(words: Callable[[str], Sequence[str | Path]]) -> Session:
    """A session with a POSIX shell behind a transport."""
    return Session(
        at=Address(id="board", scheme="exec", address="exec:x"), transport=Line(words), shell=Posix()
    )


def plain_session() -> Session:
    """One with this machine's shell."""
    return session_of(lambda line: ("sh", "-c", line))
