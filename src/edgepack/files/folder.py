"""A folder that somebody else made, gone through without being led out of it."""

import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from edgepack.errors import UsageError

LONGEST, LONGEST_NAME = 1_000, 200
"""Bytes of a path and of a name: archives and other systems have less room than the build machine, and names get endings."""


class BadFolder(ValueError):  # noqa: N818 - what is wrong with data; callers say whose it is
    """Something in a folder that cannot be copied elsewhere as it is, in words."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """A file, or a link that means the same wherever the folder goes."""

    path: str
    """POSIX, relative to the folder."""
    link: str = ""
    """What a link says, which is relative and stays below the folder; empty: a file, or a link that names one by an absolute path."""


def files_below(folder: Path) -> Iterator[Found]:
    """Every file and link below a folder, sorted by path, none of them outside of it.

    Raises ``BadFolder`` for a link that leads out, to nothing, or by an absolute path to a folder; for what is no file, such as a
    pipe or a device; for a name that is no UTF-8, has control characters or is very long; and for what cannot be read.
    """
    inside = folder.resolve()

    def unreadable(error: OSError) -> None:
        raise BadFolder(f"{_relative(error.filename, folder)} cannot be read: {error.strerror}")

    found = []
    for parent, folders, files in os.walk(folder, onerror=unreadable):
        paths = [Path(parent, name) for name in files]
        paths += [path for path in (Path(parent, name) for name in folders) if path.is_symlink()]
        found += [_checked(path, folder, inside) for path in paths]
    yield from sorted(found, key=lambda each: each.path.split("/"))


def expanded(named: str) -> Path:
    """The path that a user names, ``~`` and all. Raises ``UsageError`` for the home folder of nobody."""
    try:
        return Path(named).expanduser()
    except RuntimeError as error:
        raise UsageError(
            f"{named} begins with the home folder of nobody", hint="write the path out"
        ) from error


def named_path(path: Path) -> Path:
    """The same path, but with the name of what it leads to, beside which other files lie: ``.`` and ``..`` have none, a link another."""
    return path.resolve() if path.name in ("", "..") or (path.is_symlink() and path.is_dir()) else path


def require_outside(output: Path | None, read: Path) -> None:
    """Raise ``UsageError`` where a file that is to be written is the archive that is read, or lies in the folder that is, which it would damage."""
    if output is not None and read.resolve() in (
        place := output.parent.resolve() / output.name,
        *place.parents,
    ):
        raise UsageError(
            f"{output} would be written over what is in {read}", hint="name another place for it"
        )


PAGE = re.compile(rb"\s*<!doctype html", re.IGNORECASE)
ARRAY = re.compile(rb"\x93NUMPY")
ORT_MODEL = re.compile(rb".{4}ORTM", re.DOTALL)
OPERATOR_LIST = re.compile(rb"!globally_allowed_types;|[\w.-]+;\d+;\w")
NOTHING = re.compile(rb"(?!)")
"""Beginnings of a web page, of vectors, a model in ORT format and a list of operators; and of no file that is not empty."""


def require_kind(output: Path | None, kind: re.Pattern[bytes] | Callable[[Path], bool]) -> None:
    """Raise ``UsageError`` where a file that is to be written would replace one of another kind: whoever mistypes a path keeps what is there.

    A pattern matches within the first kilobyte; an empty file may be replaced.
    """
    if output is None or not output.is_file():
        return
    with output.open("rb") as file:
        head = file.read(1024)
    if head and not (kind.match(head) if isinstance(kind, re.Pattern) else kind(output)):
        raise UsageError(
            f"{output} exists and is something else, so it is not replaced",
            hint="remove it yourself, or name another file",
        )


def is_below(path: str) -> bool:
    """Whether a POSIX path is relative, and names something below the folder that it is relative to."""
    parts = path.split("/")
    return bool(path) and not path.startswith("/") and "\0" not in path and not {"", ".", ".."} & set(parts)


def _checked(path: Path, folder: Path, inside: Path) -> Found:
    relative = path.relative_to(folder).as_posix()
    if (
        not relative.isprintable()
        or len(relative.encode()) > LONGEST
        or len(path.name.encode()) > LONGEST_NAME
    ):
        raise BadFolder(f"{relative[:200]!r} is a name that not every device can hold")
    try:
        if path.is_symlink():
            return _link(path, relative, inside)
        if not stat.S_ISREG(path.stat().st_mode):
            raise BadFolder(f"{relative} is neither a file nor a folder")
    except OSError as error:
        raise BadFolder(f"{relative} cannot be read: {error.strerror}") from error
    if not os.access(path, os.R_OK):
        raise BadFolder(f"{relative} cannot be read")
    return Found(path=relative)


def _link(path: Path, relative: str, inside: Path) -> Found:
    said = str(path.readlink())
    try:
        named = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:  # a loop is a RuntimeError before Python 3.13
        raise BadFolder(f"{relative} is a link to {said}, which is not there") from error
    by_name = os.path.normpath(Path(relative).parent / said)
    # By its name, too: ../NAME/file comes back only while the folder is called NAME.
    if not named.is_relative_to(inside) or by_name.split("/")[0] == "..":
        raise BadFolder(f"{relative} is a link to {said}, which leads out of the folder")
    if not path.readlink().is_absolute():
        return Found(path=relative, link=said)
    if not named.is_file():
        raise BadFolder(f"{relative} is a link to {said}, a folder by its absolute path")
    return Found(path=relative)


def _relative(path: str | bytes, folder: Path) -> str:
    return os.path.relpath(os.fsdecode(path), folder)
