"""A store that many machines share: entries by what they were made from, their files by what is in them.

``entries/KIND/KEY.json`` lists an entry's files; ``sha256/AB/ABCD…`` is a file. Files come first and the list last, so an entry is whole
where it is listed, however many write and whenever one of them is killed. What comes back is held against its digest. A store that is
damaged, lies or cannot be reached costs time, never a wrong bundle: it is warned of once and gone round.
"""

import hashlib
import hmac
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Protocol, TypeVar, runtime_checkable

from edgepack.errors import EdgepackError

T = TypeVar("T")
SCHEMA = 1
SECRET = "EDGEPACK_STORE_SECRET"
"""The environment variable with a secret that all who share a store know: with it, what others listed is not taken."""
ENOUGH = 3
_LARGEST_LIST = 1 << 24
_LARGEST_ENTRY = 16 << 30
"""Bytes of all its files: as much as any archive may unpack to."""
_MOST_FILES = 10_000
_LONGEST, _PACE, _HALF_A_DAY = 300.0, 32 << 10, 43_200
"""Seconds for an entry, and bytes a second of it that give it more, up to so many."""
_DEEPEST = 32
"""Folders that a file may lie within: what removes them, and makes them, goes a call deeper for each."""
_TROUBLE = {
    "read": (
        "cannot be read",
        "what it may have is made here; check its address and this machine's credentials",
    ),
    "write": (
        "takes nothing",
        "what is made here stays here; for others to have it, this machine must be able to write there",
    ),
}
"""What is said of a store that fails, and what to do."""


class BlobStore(Protocol):
    """Files by name, somewhere that many machines reach. Anything that a method raises means that it cannot be reached."""

    def get(self, name: str, destination: Path) -> bool:
        """Write a file's content to ``destination``; whether there is such a file."""

    def put(self, name: str, source: Path) -> None:
        """Keep a file's content under a name, in the place of what is there. No reader sees half of it."""

    def has(self, name: str) -> bool:
        """Whether there is a file of that name."""


@runtime_checkable
class MeasuredStore(Protocol):
    """A ``BlobStore`` that tells sizes: nothing larger than what is listed is written to this machine's disk then."""

    def size(self, name: str) -> int | None:
        """Bytes of a file; ``None`` where there is none, or it is not known."""


class _Absent(Exception):  # noqa: N818 - said to nobody
    """No entry is listed under a key."""


class _Lie(Exception):  # noqa: N818 - said to nobody
    """Answer of a shared store that is not what was put there."""


@dataclass(kw_only=True)
class SharedStore:
    """Entries in a ``BlobStore``, checked."""

    blobs: BlobStore
    url: str
    warn: Callable[[str], None]
    kinds: Collection[str] | None = None
    """The kinds of entries that it is asked for; ``None``: any."""
    secret: bytes = field(default_factory=lambda: os.environ.get(SECRET, "").encode(), repr=False)
    _told: set[str] = field(default_factory=set)
    """What was warned of."""
    _failed: dict[str, int] = field(default_factory=dict)
    """How often in a row the store could not be read, or written: ``ENOUGH`` times, and this process leaves it alone."""

    def fetch(self, kind: str, key: str, folder: Path) -> bool:
        """Write an entry's files into an empty folder; ``False``, and nothing in it, where the store has no sound one."""
        if not self._asks("read", kind):
            return False
        work = Path(tempfile.mkdtemp(prefix=".fetched-", dir=folder))
        try:
            for file in _in_time(self._listed(kind, key, work), lambda file: int(file["size"])):
                self._fetch_file(file, work)
            self._failed.pop("read", None)
            for path in sorted(work.iterdir()):
                path.replace(folder / path.name)
        except _Absent:
            return False
        except _Lie as lie:
            self._tell(
                f"lie {kind} {key}", f"the store {self.url} has a damaged entry, which is made again: {lie}"
            )
            return False
        except Exception as error:
            self._give_up("read", error)
            return False
        else:
            return True
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def tell_of_lie(self, kind: str, key: str) -> None:
        """Warn of an entry that is whole and is not what it is listed as; it is offered anew then."""
        self._tell(
            f"lie {kind} {key}",
            f"the store {self.url} has a wrong entry, which is made again: {kind} {key[:12]} is of something else",
        )

    def has(self, kind: str, key: str) -> bool:
        """Whether an entry is listed; whether it is sound only fetching says."""
        if not self._asks("read", kind):
            return False
        try:
            return self.blobs.has(_list_name(kind, key))
        except Exception as error:
            self._give_up("read", error)
            return False

    def offer(self, kind: str, key: str, folder: Path) -> bool:
        """Keep a folder's files as an entry; whether it is there then. An entry with links, which no list holds, is not kept."""
        if not self._asks("write", kind):
            return False
        found = sorted(path for path in folder.rglob("*") if not path.is_dir())
        if any(path.is_symlink() for path in folder.rglob("*")):
            return False
        try:
            files = [
                self._offer_file(path, folder) for path in _in_time(found, lambda path: path.stat().st_size)
            ]
            said: dict[str, Any] = {"schema": SCHEMA, "kind": kind, "key": key, "files": files}
            with tempfile.TemporaryDirectory(prefix="edgepack-list-") as work:
                place = Path(work) / "list.json"
                place.write_text(json.dumps({**said, "mac": self._mac(said)}), encoding="utf-8")
                self.blobs.put(_list_name(kind, key), place)
            self._failed.pop("write", None)
        except Exception as error:
            self._give_up("write", error)
            return False
        return True

    def _asks(self, doing: str, kind: str) -> bool:
        return (self.kinds is None or kind in self.kinds) and self._failed.get(doing, 0) < ENOUGH

    def _listed(self, kind: str, key: str, work: Path) -> Sequence[Mapping[str, Any]]:
        """The files of an entry. Raises ``_Absent``, or ``_Lie`` for a list that is not what is listed there."""
        place = work / ".list"
        self._require_size(_list_name(kind, key), _LARGEST_LIST)
        if not self.blobs.get(_list_name(kind, key), place):
            raise _Absent(key)
        try:
            if place.stat().st_size > _LARGEST_LIST:
                raise ValueError("it is too long")
            said = json.loads(place.read_bytes())
            mac = said.pop("mac")
            if self.secret and not hmac.compare_digest(str(mac), self._mac(said)):
                raise _Lie(f"{kind} {key[:12]} was listed by somebody who does not know {SECRET}")
            if (said["schema"], said["kind"], said["key"]) != (SCHEMA, kind, key):
                raise ValueError("it is that of another entry")
            if len(said["files"]) > _MOST_FILES:
                raise ValueError("it has too many files")
            for file in said["files"]:
                _require_file(file)
            if sum(file["size"] for file in said["files"]) > _LARGEST_ENTRY:
                raise ValueError("its files are too large")
            return list(said["files"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _Lie(f"the list of {kind} {key[:12]} is invalid: {error}") from error
        finally:
            place.unlink(missing_ok=True)

    def _fetch_file(self, file: Mapping[str, Any], work: Path) -> None:
        place = work / file["path"]
        place.parent.mkdir(parents=True, exist_ok=True)
        self._require_size(_blob_name(file["sha256"]), min(file["size"], shutil.disk_usage(work).free))
        if not self.blobs.get(_blob_name(file["sha256"]), place):
            raise _Lie(f"{file['path']} is listed and not there")
        if place.stat().st_size != file["size"] or _sha256(place) != file["sha256"]:
            raise _Lie(f"{file['path']} is not what was put there")
        place.chmod(0o755 if file["executable"] else 0o644)

    def _require_size(self, name: str, most: int) -> None:
        """Raise ``_Lie`` for what is larger: a file of holes may stand for any number of bytes."""
        size = self.blobs.size(name) if isinstance(self.blobs, MeasuredStore) else None
        if size is not None and size > most:
            raise _Lie(f"{name} has {size:,} bytes")

    def _offer_file(self, path: Path, folder: Path) -> dict[str, Any]:
        sha256 = _sha256(path)
        # After a lie nothing that is there is believed: who reads it next finds it whole.
        if any(each.startswith("lie") for each in self._told) or not self.blobs.has(_blob_name(sha256)):
            self.blobs.put(_blob_name(sha256), path)
        stat = path.stat()
        name = path.relative_to(folder).as_posix()
        return {
            "path": name,
            "size": stat.st_size,
            "sha256": sha256,
            "executable": bool(stat.st_mode & 0o100),
        }

    def _mac(self, said: Mapping[str, Any]) -> str:
        text = json.dumps(said, sort_keys=True).encode()
        return hmac.new(self.secret, text, hashlib.sha256).hexdigest() if self.secret else ""

    def _give_up(self, doing: str, error: Exception) -> None:
        why = error.message if isinstance(error, EdgepackError) else f"{type(error).__name__}: {error}"
        self._failed[doing] = self._failed.get(doing, 0) + 1
        what, hint = _TROUBLE[doing]
        self._tell(
            doing,
            f"the store {self.url} {what} and is done without: {why.splitlines()[0][:200]}\nhint: {hint}",
        )

    def _tell(self, what: str, message: str) -> None:
        if what not in self._told:
            self._told.add(what)
            self.warn(message)


def _in_time(files: Sequence[T], size: Callable[[T], int]) -> Iterator[T]:
    """Files of an entry, one after the other. Raises ``TimeoutError`` when those before took too long for what they have."""
    began, done = time.monotonic(), 0
    for file in files:
        if time.monotonic() - began > _LONGEST + min(done / _PACE, _HALF_A_DAY):
            raise TimeoutError(f"{done:,} bytes took {time.monotonic() - began:.0f} s")
        yield file
        done += size(file)


def _require_file(file: Mapping[str, Any]) -> None:
    """Raise ``ValueError`` for what would be written elsewhere, or is no file."""
    parts = PurePosixPath(file["path"]).parts
    if not parts or parts[0] == "/" or ".." in parts or "\\" in file["path"] or "\0" in file["path"]:
        raise ValueError(f"{file['path']!r} would be written elsewhere")
    if len(parts) > _DEEPEST:
        raise ValueError(f"{file['path'][:200]!r} lies too deep")
    if not isinstance(file["size"], int) or file["size"] < 0 or not isinstance(file["executable"], bool):
        raise ValueError(f"{file['path']!r} has no size")
    if len(file["sha256"]) != 64 or set(file["sha256"]) - set("0123456789abcdef"):
        raise ValueError(f"{file['path']!r} has no digest")


def _list_name(kind: str, key: str) -> str:
    return f"entries/{kind}/{key}.json"


def _blob_name(sha256: str) -> str:
    return f"sha256/{sha256[:2]}/{sha256}"


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
