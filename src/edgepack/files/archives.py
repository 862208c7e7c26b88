"""Archives from strangers, unpacked without trusting them."""

from __future__ import annotations

import lzma
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from edgepack.errors import ModelError

MAX_RATIO = 100
"""An archive may grow to this many times its size (weights hardly shrink; a bomb grows a thousandfold) …"""
ALWAYS_ALLOWED = 256 << 20
"""… or to this many bytes, whichever is more."""
MAX_FILES = 20_000
CHUNK = 1 << 20

ZIP_SUFFIXES = (".zip", ".whl")
SUFFIXES = (*ZIP_SUFFIXES, ".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.xz")


@dataclass(kw_only=True)
class _Budget:
    """What may still be written."""

    name: str
    bytes_left: int
    files_left: int

    def take(self, count: int) -> None:
        self.bytes_left -= count
        if self.bytes_left < 0:
            raise ModelError(
                f"{self.name} unpacks to more than {MAX_RATIO} times its size",
                hint="it looks like a zip bomb",
            )

    def take_file(self) -> None:
        self.files_left -= 1
        if self.files_left < 0:
            raise ModelError(f"{self.name} holds more than {MAX_FILES:,} files", hint="it is no model")


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive (``SUFFIXES``) into a folder; a model in a zip inside it too, into a folder beside that zip.

    Only regular files are made, with ordinary permissions. Raises ``ModelError`` for an archive that is damaged, grows
    beyond measure, or holds a link or a path that leads out of the folder.
    """
    allowed = max(ALWAYS_ALLOWED, MAX_RATIO * archive.stat().st_size)
    budget = _Budget(name=archive.name, bytes_left=allowed, files_left=MAX_FILES)
    _unpack_one(archive, folder, budget)
    if next(folder.rglob("tokenizer.json"), None) is not None:
        return
    for inner in sorted(path for path in folder.rglob("*.zip") if path.is_file()):
        _unpack_one(inner, inner.with_name(f"{inner.stem}.unpacked"), budget)
        inner.unlink()


def _unpack_one(archive: Path, folder: Path, budget: _Budget) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with _damage(archive):
        if archive.name.lower().endswith(ZIP_SUFFIXES):
            _unpack_zip(archive, folder, budget)
        else:
            _unpack_tar(archive, folder, budget)


@contextmanager
def _damage(archive: Path) -> Iterator[None]:
    import zstandard

    try:
        yield
    except (
        zipfile.BadZipFile,
        tarfile.TarError,
        zlib.error,
        lzma.LZMAError,
        zstandard.ZstdError,
        EOFError,
        NotImplementedError,  # a compression method that zipfile does not know
        ValueError,  # these three: what the standard library makes of malformed headers
        OverflowError,
        struct.error,
    ) as error:
        raise ModelError(
            f"{archive.name} cannot be unpacked: {error}",
            hint="it is damaged, or not the archive that its name says",
        ) from error


def _unpack_zip(archive: Path, folder: Path, budget: _Budget) -> None:
    with zipfile.ZipFile(archive) as opened:
        for member in opened.infolist():
            path = _inside(folder, member.filename, archive.name)
            if member.is_dir():
                continue
            kind = stat.S_IFMT(member.external_attr >> 16)
            if kind not in (0, stat.S_IFREG):
                raise _odd(archive.name, member.filename)
            if member.flag_bits & 1:
                raise ModelError(
                    f"{archive.name} is encrypted", hint="unpack it and name the folder: --model FOLDER"
                )
            with opened.open(member) as stream:
                _write(stream, path, archive.name, budget)


def _unpack_tar(archive: Path, folder: Path, budget: _Budget) -> None:
    with _open_tar(archive) as opened:
        for member in opened:
            path = _inside(folder, member.name, archive.name)
            if member.isdir():
                continue
            stream = opened.extractfile(member) if member.isreg() else None
            if stream is None:
                raise _odd(archive.name, member.name)
            _write(stream, path, archive.name, budget)


@contextmanager
def _open_tar(archive: Path) -> Iterator[tarfile.TarFile]:
    import zstandard

    with archive.open("rb") as file:
        if archive.name.lower().endswith(".zst"):
            with (
                zstandard.ZstdDecompressor().stream_reader(file) as stream,
                tarfile.open(fileobj=stream, mode="r|") as opened,
            ):
                yield opened
        else:
            with tarfile.open(fileobj=file, mode="r|*") as opened:
                yield opened


def _inside(folder: Path, name: str, archive: str) -> Path:
    """Where a member goes, or ``ModelError`` when that is not inside the folder."""
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if not name or "\0" in name or ".." in parts or name.startswith(("/", "\\")) or ":" in name[:2]:
        raise ModelError(
            f"{archive} holds a path that leads out of it: {name!r}", hint="do not trust this archive"
        )
    return folder.joinpath(*parts)


def _odd(archive: str, member: str) -> ModelError:
    return ModelError(
        f"{archive} holds a link or device: {member!r}", hint="a model archive consists of plain files only"
    )


def _write(stream: IO[bytes], path: Path, archive: str, budget: _Budget) -> None:
    budget.take_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            while chunk := stream.read(CHUNK):
                budget.take(len(chunk))
                file.write(chunk)
    except (FileExistsError, IsADirectoryError, NotADirectoryError) as error:
        raise ModelError(f"{archive} holds {path.name} twice", hint="it is damaged") from error
