"""A folder that appears at its place when it is whole, or not at all."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from edgepack.bundles.manifest import MANIFEST
from edgepack.errors import OutputError
from edgepack.files.store import disk_errors, nearest

UNFINISHED = ".unfinished"
REPLACED = ".replaced"
HELD = ".lock"


@dataclass(frozen=True, kw_only=True)
class FolderKind:
    """What may be replaced: nothing but a folder of the same kind."""

    name: str
    is_one: Callable[[Path], bool] = field(repr=False)


BUNDLE = FolderKind(name="a bundle", is_one=lambda folder: (folder / MANIFEST).is_file())


@contextmanager
def placed_folder(destination: Path, *, force: bool, kind: FolderKind = BUNDLE) -> Iterator[Path]:
    """An empty folder beside ``destination``, renamed to it when the block ends well and removed when it does not.

    What builds that were killed left beside ``destination`` is removed first; that of a build that still runs is not.
    With ``force``, what of its kind is at ``destination`` already stays there until the new one is whole.
    Raises ``OutputError`` when the destination exists or cannot be written, ``DiskFullError`` on a full disk.
    """
    require_free(destination, force=force, kind=kind)
    with disk_errors(destination):
        _make_folder(destination.parent)
        remove_leftovers(destination)
        work = Path(
            tempfile.mkdtemp(prefix=f".{destination.name}-", suffix=UNFINISHED, dir=destination.parent)
        )
        held = _lock(work)
        try:
            yield work
            work.chmod(0o755)
            _move_into_place(work, destination, force=force, kind=kind)
        finally:
            shutil.rmtree(work, ignore_errors=True)
            if held is not None:
                os.close(held)


@contextmanager
def held_place(destination: Path, *, waiting: Callable[[], None]) -> Iterator[None]:
    """Only one build at a time puts things at ``destination`` and beside it; ``waiting`` is called where another one does.

    The kernel lets go of the lock when a process ends, however it ends. Raises ``OutputError`` for a place that cannot be written.
    """
    path = destination.with_name(f".{destination.name}{HELD}")
    # Wherever an interrupt comes, what was opened until then is in this list or holds nothing.
    opened: list[int] = []
    try:
        with disk_errors(path):
            _make_folder(path.parent)
            _hold(path, waiting, opened)
        yield
    finally:
        for descriptor in opened:
            os.close(descriptor)
        _remove_unheld(path)


def _hold(path: Path, waiting: Callable[[], None], opened: list[int]) -> None:
    """Lock the file at ``path``, whose descriptor is then the last of ``opened``: who held it before has removed theirs."""
    while True:
        opened.append(os.open(path, os.O_RDWR | os.O_CREAT, 0o644))
        try:
            fcntl.flock(opened[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(opened[-1], fcntl.LOCK_EX)
        if path.exists() and os.path.samestat(os.fstat(opened[-1]), path.stat()):
            return
        os.close(opened.pop())


def _remove_unheld(path: Path) -> None:
    """Remove a lock's file, unless somebody has taken the lock meanwhile: they remove it when they are done."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            path.unlink()
    except OSError:
        pass
    finally:
        os.close(descriptor)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise OutputError(
            f"cannot write to {folder}: it is a file, not a folder", hint="choose another folder"
        ) from error


def require_free(destination: Path, *, force: bool, kind: FolderKind = BUNDLE) -> None:
    """Raise ``OutputError`` when something is at ``destination`` that may not be replaced.

    Even ``force`` replaces only what is of that kind, or an empty folder: whoever mistypes a path keeps what is there.
    """
    if not os.path.lexists(destination):
        return
    if not force:
        raise OutputError(
            f"{destination} already exists", hint="--force replaces it; --output chooses another folder"
        )
    if not destination.is_dir() or destination.is_symlink():
        raise OutputError(
            f"{destination} exists and is not a folder", hint="remove it, or name another folder"
        )
    if any(destination.iterdir()) and not kind.is_one(destination):
        raise OutputError(
            f"{destination} exists and is not {kind.name}, so it is not replaced",
            hint="remove it yourself, or name another folder",
        )


def require_writable(folder: Path) -> None:
    """Raise ``OutputError`` when nothing can be written into a folder that is there, or that would be made."""
    there = nearest(folder)
    if not there.is_dir():
        raise OutputError(f"cannot write to {folder}: {there} is a file", hint="choose another folder")
    try:
        with disk_errors(folder), tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        # What /proc says of itself, and the like.
        raise OutputError(
            f"cannot write to {folder}: {error.strerror}", hint="choose another folder"
        ) from error


def remove_leftovers(destination: Path) -> None:
    """Remove what killed builds of ``destination`` left, and bring back a bundle that one was about to replace."""
    for old in destination.parent.glob(f".{destination.name}-*{REPLACED}"):
        if destination.exists():
            shutil.rmtree(old, ignore_errors=True)
        else:
            old.rename(destination)
    for work in destination.parent.glob(f".{destination.name}-*{UNFINISHED}"):
        held = _lock(work)
        if held is not None:
            shutil.rmtree(work, ignore_errors=True)
            os.close(held)


def _lock(folder: Path) -> int | None:
    """Hold a folder as one that is being worked on: an open descriptor, or None when another process holds it.

    The kernel lets go of the lock when the process ends, however it ends.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _move_into_place(work: Path, destination: Path, *, force: bool, kind: FolderKind) -> None:
    require_free(destination, force=force, kind=kind)
    if not destination.exists():
        work.rename(destination)
        return
    old = work.with_name(work.name.removesuffix(UNFINISHED) + REPLACED)
    destination.rename(old)
    try:
        work.rename(destination)
    except OSError:
        old.rename(destination)
        raise
    shutil.rmtree(old, ignore_errors=True)
