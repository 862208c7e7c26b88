"""A folder that appears at its place when it is whole, or not at all."""

import fcntl
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Set
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from edgepack.bundles.manifest import MANIFEST, MOST, SIGNATURE
from edgepack.errors import OutputError
from edgepack.files.exchange import exchange
from edgepack.files.store import by_umask, disk_errors, lock_mode, nearest, written_beside
from edgepack.toml_schema import parse_foreign, read_foreign

UNFINISHED = ".unfinished"
"""Half made, or to be removed."""
REPLACED = ".replaced"
"""Whole, and perhaps the only copy: where folders cannot be exchanged, the old one is called that for a moment."""
HELD = ".lock"
LEFT = re.compile(r"(^|/)(__pycache__/[^/]+\.pyc|\.DS_Store|Thumbs\.db|desktop\.ini)$")
"""Files that Python and desktops leave wherever they have been, which are nobody's work."""
_MADE_UP = "-[a-z0-9_]{8}"
"""A pattern of what ``tempfile`` puts behind a name."""


@dataclass(frozen=True, kw_only=True)
class FolderKind:
    """Kind of output folder; only a folder of the same kind is replaced, and only where it holds nothing else."""

    name: str
    files: Callable[[Path], Set[str] | None] = field(repr=False)
    """Paths that may lie in a folder of the kind, damaged or not; ``None``: it is of another kind."""


def _files_of_bundle(folder: Path) -> Set[str] | None:
    """Files that its manifest lists, and the manifest: extensions of browsers and apps of the web have a manifest.json, too."""
    try:
        said = parse_foreign(read_foreign(folder / MANIFEST, most=MOST))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or not {"schema", "target"} <= said.keys():
        return None
    listed = said.get("files")
    if not isinstance(listed, list) or not all(isinstance(file, dict) for file in listed):
        return None
    return {MANIFEST, SIGNATURE, *(str(file.get("path")) for file in listed)}


BUNDLE = FolderKind(name="a bundle", files=_files_of_bundle)


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
        # What a killed build was about to replace may be there again.
        require_free(destination, force=force, kind=kind)
        # Wherever an interrupt comes, what was made until then is in these lists.
        made: list[Path] = []
        held: list[int] = []
        try:
            work = _work_folder(destination, made, held)
            yield work
            work.chmod(by_umask(0o755))
            _move_into_place(work, destination, force=force, kind=kind)
        finally:
            try:
                _remove(made)
            except (KeyboardInterrupt, OSError) as cut_short:
                # An interrupt that comes meanwhile. While it closes a folder, rmtree of Python 3.11 makes an OSError of one.
                _remove(made)
                raise KeyboardInterrupt from cut_short
            finally:
                for descriptor in held:
                    os.close(descriptor)


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


def held_as_it_is(folder: Path, *, waiting: Callable[[str], None]) -> AbstractContextManager[None]:
    """While a bundle is signed or sent no other run puts one in its place; who may not write beside it does so all the same."""
    if not folder.is_dir() or not os.access(folder.parent, os.W_OK):
        return nullcontext()
    said = f"another run is putting {folder} in its place: waiting until it is done"
    return held_place(folder, waiting=partial(waiting, said))


def _hold(path: Path, waiting: Callable[[], None], opened: list[int]) -> None:
    """Lock the file at ``path``, whose descriptor is then the last of ``opened``: who held it before has removed theirs."""
    while True:
        opened.append(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, lock_mode(path.parent)))
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

    Even ``force`` replaces only what is of that kind, or an empty folder: whoever mistypes a path keeps what is there, and so does who
    has put a file of their own into a bundle's folder.
    """
    require_new(destination, force=force)
    if not os.path.lexists(destination):
        return
    if not destination.is_dir() or destination.is_symlink():
        raise OutputError(
            f"{destination} exists and is not a folder", hint="remove it, or name another folder"
        )
    if not any(destination.iterdir()):
        return
    own = kind.files(destination)
    if own is None:
        raise OutputError(
            f"{destination} exists and is not {kind.name}, so it is not replaced",
            hint="remove it yourself, or name another folder",
        )
    for path in sorted(destination.rglob("*")):
        name = path.relative_to(destination).as_posix()
        if name not in own and not LEFT.search(name) and (path.is_symlink() or not path.is_dir()):
            raise OutputError(
                f"{destination} is {kind.name} and holds {name}, which it was not made with, so it is not replaced",
                hint="move that file elsewhere, or name another folder",
            )


def require_new(file: Path, *, force: bool) -> None:
    """Raise ``OutputError`` when something is at the place of a file that may not be replaced."""
    if not force and os.path.lexists(file):
        raise OutputError(
            f"{file} already exists", hint="--force replaces it; --output chooses another folder"
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


@contextmanager
def placed_beside(file: Path) -> Iterator[Path]:
    """``written_beside`` for a file that lies beside a bundle whose place is held: what killed builds left of it is removed first."""
    # What is packed there is itself written beside its place.
    packed = file.with_name(f".{file.name}")
    with disk_errors(file):
        for left in (*left_beside(file, _MADE_UP), *left_beside(packed, _MADE_UP * 2)):
            left.unlink(missing_ok=True)
    with written_beside(file) as temporary:
        yield temporary


def left_beside(destination: Path, ending: str) -> list[Path]:
    """Files and folders beside ``destination`` that are called by its name with a dot before it and an ending, a pattern, behind it.

    What belongs to a place whose name only begins alike is not among it.
    """
    name = re.compile(re.escape(f".{destination.name}") + ending)
    return sorted(path for path in destination.parent.iterdir() if name.fullmatch(path.name))


def remove_leftovers(destination: Path) -> None:
    """Remove what killed builds of ``destination`` left, and bring back a bundle that one was about to replace."""
    for work in left_beside(destination, _MADE_UP + re.escape(UNFINISHED)):
        with _locked(work) as held:
            if held:
                shutil.rmtree(work, ignore_errors=True)
    for old in left_beside(destination, _MADE_UP + re.escape(REPLACED)):
        with _locked(old) as held:
            if held and not os.path.lexists(destination):
                old.rename(destination)
            elif held:
                # Half removed, it must never be brought back.
                gone = old.rename(old.with_suffix(UNFINISHED))
                shutil.rmtree(gone, ignore_errors=True)


def _remove(folders: list[Path]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _work_folder(destination: Path, made: list[Path], held: list[int]) -> Path:
    """An empty folder beside ``destination``, the last of ``made`` before it is there; its lock, which says that somebody works on it, is
    the last of ``held``."""
    while True:
        work = destination.with_name(f".{destination.name}-{secrets.token_hex(4)}{UNFINISHED}")
        made.append(work)
        try:
            work.mkdir(0o700)
        except FileExistsError:
            made.pop()
            continue
        try:
            held.append(_lock(work))
        except (BlockingIOError, FileNotFoundError):
            # Before it was locked another process took it for a leftover.
            continue
        except OSError:
            # A file system without locks.
            pass
        return work


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Whether the folder is this process's to remove or to move, and its user's own, for as long as the block lasts."""
    try:
        held = _lock(folder)
    except OSError:
        yield False
        return
    try:
        yield os.fstat(held).st_uid == os.geteuid()
    finally:
        os.close(held)


def _lock(folder: Path) -> int:
    """Hold a folder as one that is being worked on: an open descriptor.

    The kernel lets go of the lock when the process ends, however it ends. Raises ``BlockingIOError`` where another process holds it,
    ``FileNotFoundError`` where it is not there, or not any more.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), folder.stat()):
            return descriptor
        raise FileNotFoundError(folder)
    except BaseException:
        os.close(descriptor)
        raise


def _move_into_place(work: Path, destination: Path, *, force: bool, kind: FolderKind) -> None:
    """Rename a finished folder; what it replaces is at ``work`` then."""
    require_free(destination, force=force, kind=kind)
    if not destination.exists():
        work.rename(destination)
    elif not exchange(work, destination):
        with _locked(destination):
            _replace(work, destination)


def _replace(work: Path, destination: Path) -> None:
    """Exchange, as ``exchange`` does, in three steps: after a kill between them the next build puts things right."""
    old = work.with_suffix(REPLACED)
    try:
        destination.rename(old)
        work.rename(destination)
    except BaseException:
        if old.exists() and not destination.exists():
            old.rename(destination)
        raise
    old.rename(work)
