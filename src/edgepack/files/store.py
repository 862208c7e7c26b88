"""The content-addressed cache: what is slow to make is made once, by one process, and checked before it is used."""

import errno
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from edgepack.errors import DiskFullError, OutputError
from edgepack.files.folder import expanded
from edgepack.files.shared import SharedStore
from edgepack.records.model import FileDigest

ENTRY_FILE = ".edgepack-entry.json"
"""In an entry: path → size and SHA-256 of each file, or where a link leads; under this file's own name, whose entry it is."""
LOCKS = "locks"
_OWN = Path(__file__).parents[1]
_PYTHONS_OWN = "__pycache__"
"""What Python writes beside modules that it imports; it holds that against them itself."""
_REFUSALS = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO, errno.EFBIG, errno.EXDEV, errno.EBUSY}
    | {errno.ENOTDIR, errno.EEXIST, errno.EISDIR, errno.ENOTEMPTY, errno.ELOOP, errno.ENAMETOOLONG}
)
"""What the system says of places that cannot be written, or hold something else than they should."""
DEVICES = Path("/dev")
WORK = "edgepack-"
"""What the names of work folders begin with, where temporary files go."""


def default_root() -> Path:
    """``$EDGEPACK_CACHE``, or the user's cache folder."""
    if named := os.environ.get("EDGEPACK_CACHE"):
        return expanded(named).absolute()
    import platformdirs

    return platformdirs.user_cache_path("edgepack")


@dataclass(frozen=True, kw_only=True)
class Store:
    """A folder of entries ``KIND/KEY/``, where KEY is the digest of everything that the entry was made from."""

    root: Path
    shared: SharedStore | None = field(default=None, compare=False, repr=False)
    """Asked before something is made, and given what was."""

    def cached(
        self,
        kind: str,
        inputs: Mapping[str, str],
        make: Callable[[Path], None],
        *,
        files: Mapping[str, Path] | None = None,
        unchanged: Mapping[Path, str] | None = None,
        grows: bool = False,
        is_right: Callable[[Path], bool] = lambda folder: True,
    ) -> Path:
        """The folder that ``make(folder)`` filled for these inputs, and these files, by whatever names: their content is an input. Where one of
        them, or of ``unchanged``, whose digests are in the inputs, is another when ``make`` has ended, nothing is kept and ``OutputError`` raised.

        What a shared store gives in its place is a stranger's: ``is_right`` says whether it is what was asked for, of what nobody else
        looks at before it is shipped.

        Made at most once, also when several processes ask at the same time; an entry that is another's, or whose files are
        not those that were written, and no others, is made again. ``grows``: its own programs may write others beside them.
        What a failed or killed ``make`` leaves behind is never seen as an entry.
        """
        digests = {name: sha256_of(path) for name, path in (files or {}).items()}
        read = {path: digests[name] for name, path in (files or {}).items()} | dict(unchanged or {})

        def make_unchanged(folder: Path) -> None:
            make(folder)
            require_unchanged(read)

        entry = self.root / kind / key_of({**inputs, **digests})
        with self.lock(entry):
            _require_own(entry.parent)
            if not _is_sound(entry, grows=grows):
                self._make(entry, partial(self._fetch_or_make, entry, make_unchanged, is_right))
        return entry

    def _fetch_or_make(
        self, entry: Path, make: Callable[[Path], None], is_right: Callable[[Path], bool], folder: Path
    ) -> None:
        kind, key = entry.parent.name, entry.name
        if self.shared is not None and self.shared.fetch(kind, key, folder):
            if is_right(folder):
                return
            self.shared.tell_of_lie(kind, key)
            for path in folder.iterdir():
                remove(path)
        make(folder)
        if self.shared is not None:
            self.shared.offer(kind, key, folder)

    def folder(self, kind: str, inputs: Mapping[str, str]) -> Path:
        """A folder that grows over time, for content whose owner checks it itself; hold ``lock`` while writing."""
        folder = self.root / kind / key_of(inputs)
        with disk_errors(folder, cache=self.root):
            folder.mkdir(parents=True, exist_ok=True)
        for each in (folder.parent, folder):
            _require_own(each)
        return folder

    def kinds(self) -> list[str]:
        """Kinds of entries that the store holds now."""
        return sorted(folder.name for folder in self.root.glob("*") if self.entries(folder.name))

    def entries(self, kind: str) -> list[Path]:
        """Entries of a kind, half-made ones too. Whatever else lies in the folder, or below a link, is somebody's own."""
        folder = self.root / kind
        if folder.is_symlink() or not folder.is_dir():
            return []
        return [path for path in folder.iterdir() if _ENTRY.fullmatch(path.name)]

    @contextmanager
    def lock(self, entry: Path) -> Iterator[None]:
        """Only one process at a time is inside, for one entry.

        In a cache that this process may only read there is no lock, and nothing to lock: an entry is whole where it is seen,
        and who wants to write is told that it cannot.
        """
        from filelock import FileLock

        path = self.root / LOCKS / f"{entry.parent.name}-{entry.name}.lock"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Whoever may write into the cache may hold its locks, whatever the umask of who made them.
            mode = lock_mode(path.parent)
            with suppress(FileNotFoundError, PermissionError):  # there is none; another's
                _narrow(path, mode)
            held = FileLock(path, mode=mode).acquire()
        except FileNotFoundError as error:  # e.g. below /proc, where nobody makes a folder
            hint = "set EDGEPACK_CACHE to a folder that can be made"
            raise OutputError(f"cannot write to {self.root}: {error.strerror}", hint=hint) from error
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                with disk_errors(path, cache=self.root):
                    raise
            yield
            return
        with held:
            yield

    def _make(self, entry: Path, make: Callable[[Path], None]) -> None:
        with disk_errors(entry, cache=self.root):
            remove(entry)
            entry.parent.mkdir(parents=True, exist_ok=True)
            for left_by_a_killed_process in entry.parent.glob(f".{entry.name}-*"):
                shutil.rmtree(left_by_a_killed_process, ignore_errors=True)
            work = Path(tempfile.mkdtemp(prefix=f".{entry.name}-", dir=entry.parent))
            try:
                make(work)
                remove(work / ENTRY_FILE)  # which is not for its maker, nor for a store that many share
                listing = _listing_of(work, name=_name_of(entry))
                (work / ENTRY_FILE).write_text(json.dumps(listing, indent=0))
                work.chmod(0o755)
                work.rename(entry)
            finally:
                shutil.rmtree(work, ignore_errors=True)


def key_of(inputs: Mapping[str, str]) -> str:
    """A digest of inputs that does not depend on their order (160 bits, hexadecimal)."""
    return hashlib.sha256(json.dumps(dict(sorted(inputs.items()))).encode()).hexdigest()[:40]


@cache
def digest_of_code(*packages: str) -> str:
    """SHA-256 of the files of packages, data among them, with all that lies below them: of edgepack, named as folders in it (``models/read``), and of its
    plugins, as they are imported.

    In the inputs of an entry it keeps what another edition of the same version has made from being taken.
    """
    digest = hashlib.sha256()
    for package in filter(None, packages):
        folder = _OWN / package
        if not folder.is_dir():
            spec = find_spec(package)
            folder = Path(spec.origin).parent if spec is not None and spec.origin else folder
        for path in sorted(folder.rglob("*")):
            if path.suffix == ".pyc" or not path.is_file():
                continue
            digest.update(f"{package}/{path.relative_to(folder).as_posix()}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def lock_mode(folder: Path) -> int:
    """The mode of locks in a folder: who may not write there may not read them either, for then they could hold them."""
    writers = folder.stat().st_mode & 0o022
    return 0o600 | writers | writers << 1


def _require_own(folder: Path) -> None:
    """Raise ``OutputError`` for a link that another user of the cache has laid there: what is written would lie where it leads."""
    with suppress(FileNotFoundError):
        found = folder.lstat()
        if stat.S_ISLNK(found.st_mode) and found.st_uid not in (0, os.geteuid()):
            raise OutputError(
                f"{folder} is a link that another user has made",
                hint="remove it, or set EDGEPACK_CACHE to a folder of your own",
            )


def _narrow(file: Path, mode: int) -> None:
    """Take rights that a file's mode has beyond this one. What another user has laid a link to is nobody's lock: ``OSError``."""
    opened = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if stat.S_IMODE(os.fstat(opened).st_mode) & ~mode:
            os.fchmod(opened, mode)
    finally:
        os.close(opened)


_ENTRY = re.compile(r"[0-9a-f]{40,64}|\.[0-9a-f]{40,64}-\w+")


def _name_of(entry: Path) -> str:
    return f"{entry.parent.name}/{entry.name}"


def _is_sound(entry: Path, *, grows: bool) -> bool:
    """Whether an entry is what was made under its name."""
    try:
        if not stat.S_ISREG((entry / ENTRY_FILE).lstat().st_mode):
            return False
        listing = json.loads((entry / ENTRY_FILE).read_text())
        found = _listing_of(entry, name=_name_of(entry))
    except (OSError, ValueError, RecursionError):
        return False
    if not isinstance(listing, dict) or not listing:
        return False
    if ENTRY_FILE not in listing:
        # One of an earlier edgepack does not say whose it is.
        del found[ENTRY_FILE]
    if grows:
        found = {path: found[path] for path in found.keys() & listing.keys()}
    return bool(listing == found)


def _listing_of(folder: Path, *, name: str) -> dict[str, Any]:
    """Listing of a folder, which is written into ``ENTRY_FILE``."""
    found: dict[str, Any] = {}
    programs = []
    for path in sorted(folder.rglob("*")):
        place, mode = path.relative_to(folder), path.lstat().st_mode
        if stat.S_ISDIR(mode) or path.name == ENTRY_FILE or _PYTHONS_OWN in place.parts:
            continue
        if stat.S_ISREG(mode):
            found[str(place)] = [path.stat().st_size, sha256_of(path)]
            if mode & stat.S_IXUSR:
                programs.append(str(place))
        else:
            found[str(place)] = ["link", str(path.readlink())] if stat.S_ISLNK(mode) else ["odd", ""]
    return {ENTRY_FILE: {"entry": name, "programs": programs}, **found}


def listed(entry: Path) -> dict[str, str]:
    """Path → SHA-256 of the files that an entry lists; of one whose listing is damaged nothing."""
    try:
        listing = json.loads((entry / ENTRY_FILE).read_text())
        return {path: sha256 for path, (_, sha256) in listing.items() if path != ENTRY_FILE}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def remove(path: Path) -> None:
    """Remove what is at a path, whatever it is; a link, not what it leads to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, hexadecimal; a pipe in a file's place is not waited for."""
    with open(path, "rb", opener=_without_waiting) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def copy_at_most(source: Path, destination: Path, most: int) -> None:
    """Copy a file that others may write, which may grow meanwhile. Raises ``OSError`` for more than ``most`` bytes.

    What was compared before may be another file by then: compare the copy.
    """
    with open(source, "rb", opener=_without_waiting) as stream, destination.open("wb") as copy:
        while chunk := stream.read(1 << 20):
            most -= len(chunk)
            if most < 0:
                raise OSError(errno.EFBIG, "it has more bytes than it had before", str(source))
            copy.write(chunk)


def require_unchanged(files: Mapping[Path, str]) -> None:
    """Raise ``OutputError`` where a file's SHA-256 is another than it was: what is read more than once may be saved meanwhile."""
    for path, digest in files.items():
        if not path.is_file() or sha256_of(path) != digest:
            raise OutputError(
                f"{path} was changed while it was read",
                hint="wait until whatever writes it is done, or name a copy",
            )


LARGE, WRITTEN = 1 << 30, 8
"""Bytes of a file that is looked at for holes; at least one in so many of its bytes is written."""


AGAIN = 4 << 30
"""Bytes of files that are read once more, since other names lead to them."""


def _is_mostly_holes(path: Path) -> bool:
    """Whether nearly nothing of a large file was ever written: a few kilobytes stand for terabytes of zeros, which would be read for days."""
    size = path.stat().st_size
    if size <= LARGE:
        return False
    with path.open("rb") as stream:
        least, hole = size // WRITTEN, 0
        while least > 0:
            try:
                data = os.lseek(stream.fileno(), hole, os.SEEK_DATA)
            except OSError:  # nothing more, or a file system that does not tell
                return True
            hole = os.lseek(stream.fileno(), data, os.SEEK_HOLE)
            least -= hole - data
    return False


def inflated(paths: Iterable[Path]) -> tuple[Path, str] | None:
    """The first of the files for which a disk has little and of which days would be read, and why it is one: holes, or many names of one file."""
    seen, again = set[tuple[int, int]](), 0
    for path in paths:
        if _is_mostly_holes(path):
            return path, "nearly all of it was never written"
        status = path.stat()
        if (one := (status.st_dev, status.st_ino)) in seen:
            again += status.st_size
            if again > AGAIN:
                return path, "many names are of that file"
        seen.add(one)
    return None


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def digest_file(path: Path, *, relative_to: Path) -> FileDigest:
    """A file's record, named relative to a folder."""
    return FileDigest(
        path=path.relative_to(relative_to).as_posix(), size=path.stat().st_size, sha256=sha256_of(path)
    )


def digest_tree(folder: Path) -> list[FileDigest]:
    """The records of all regular files below a folder, sorted by path."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ENTRY_FILE)
    return sorted((digest_file(path, relative_to=folder) for path in files), key=lambda file: file.path)


@contextmanager
def disk_errors(path: Path, *, cache: Path | None = None) -> Iterator[None]:
    """Turn the system's refusals to write into errors for people; ``cache``: the root of a cache that is not the user's."""
    try:
        yield
    except OSError as raised:
        error = _first_refusal(raised)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise disk_full(path, cache=cache or default_root()) from error
        if error.errno in _REFUSALS:
            raise OutputError(
                f"cannot write to {path}: {error.strerror}",
                hint="choose another folder or change its permissions",
            ) from error
        raise


def _first_refusal(error: OSError) -> OSError:
    """Refusal of the system behind the ``shutil.Error`` of a copied tree, which has the words of many refusals and no number."""
    if not isinstance(error, shutil.Error):
        return error
    said = str(error)
    numbers = (errno.ENOSPC, errno.EDQUOT, *_REFUSALS)
    found = next((number for number in numbers if f"[Errno {number}]" in said), None)
    return error if found is None else OSError(found, os.strerror(found))


def disk_full(path: Path, *, cache: Path) -> DiskFullError:
    """Error about a full disk, where ``path`` was to be written: or was it the cache's, or that of temporary files?"""
    device = nearest(path).stat().st_dev
    others = [each for each in (cache, Path(tempfile.gettempdir())) if nearest(each).stat().st_dev != device]
    place = min((path, *others), key=free_bytes)
    return DiskFullError(f"no space left on the disk that holds {place}", hint=room_hint(place, cache=cache))


def room_hint(path: Path, *, cache: Path) -> str:
    """How there can be room for what is written to a path."""
    if path.is_relative_to(cache):
        return "free some space (edgepack cache clean), or set EDGEPACK_CACHE to a folder on a larger disk"
    temporary = Path(tempfile.gettempdir())
    if path == temporary or any(each.match(f"{temporary}/{WORK}*") for each in (path, *path.parents)):
        return "free some space, or set TMPDIR to a folder on a larger disk"
    return "free some space there, or name a folder on another disk (--output)"


def free_bytes(path: Path) -> int:
    """Free bytes on the disk that holds a path, or will when it is made."""
    return shutil.disk_usage(nearest(path)).free


def nearest(path: Path) -> Path:
    """A path, or the nearest folder above that is there."""
    return next(each for each in (path.absolute(), *path.absolute().parents) if each.exists())


def require_space(path: Path, size: int) -> None:
    """Raise ``DiskFullError`` when so many bytes cannot be written beside ``path``, for tools that do not say so."""
    with disk_errors(path), tempfile.TemporaryFile(dir=path.parent) as stream:
        for _ in range(0, size, 1 << 20):
            stream.write(bytes(1 << 20))


def by_umask(mode: int) -> int:
    """A mode less what this process's umask keeps from others."""
    mask = os.umask(0o077)  # the strictest, for what other threads make meanwhile
    os.umask(mask)
    return mode & ~mask


@contextmanager
def written_beside(path: Path) -> Iterator[Path]:
    """A temporary sibling of ``path``, renamed into place when the block ends well and removed when it does not.

    Raises ``OutputError`` where a device, a pipe or a folder would be replaced, or a link of /dev, which leads to one or to a file.
    """
    with disk_errors(path):
        if path.exists() and (not path.is_file() or path.parent.resolve() == DEVICES):
            raise OutputError(f"{path} is not a file, and would be replaced by one", hint="name a file")
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            temporary.chmod(by_umask(0o755 if temporary.stat().st_mode & 0o100 else 0o644))
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
