"""Archives of unknown soundness as streams of members, read without trust.

Tar (plain or under gzip, bzip2, xz, zstd), zip and wheels, Debian packages. Whatever is wrong with one is a ``BadArchive``,
which callers turn into errors of their own.
"""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import lzma
import os
import re
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial, wraps
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Literal, NoReturn, ParamSpec, Self, TypeVar, cast

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

P = ParamSpec("P")
T = TypeVar("T")

MAX_RATIO = 100
"""An archive may grow to this many times its size (weights hardly shrink; a bomb grows a thousandfold) …"""
ALWAYS_ALLOWED = 256 << 20
"""… or to this many bytes, whichever is more …"""
MAX_UNPACKED = 16 << 30
"""… but never to more than this, unless who unpacks it says so."""
MAX_ENTRIES = 200_000
MAX_DIRECTORY = 32 << 20
"""Bytes of a zip's list of entries, which zipfile reads whole and keeps as ten times as many."""
CHUNK = 1 << 16
"""Bytes that are read at once. A tar header that is longer is an attack on memory: tarfile reads each whole."""

MAX_END = 16 << 20
"""Zeros behind a tar's end: records are filled up with them, which have a megabyte at most."""

ZIP_SUFFIXES = (".zip", ".whl", ".aar", ".jar")
SUFFIXES = (*ZIP_SUFFIXES, ".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.xz")
"""What archives that people name are called."""

Kind = Literal["file", "folder", "link", "hard link", "odd"]
_AR_MAGIC = b"!<arch>\n"
COMPRESSIONS = {b"\x28\xb5\x2f\xfd": ".zst", b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zXZ\0": ".xz"}
"""What compressed files begin with, and how their names end."""


class BadArchive(Exception):  # noqa: N818 - what is wrong with an archive; callers say it in an error of their own
    """The message goes after "ARCHIVE cannot be unpacked: "; no hint: the archive is damaged."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(kw_only=True)
class Budget:
    """Allowance of bytes and entries for an archive and those inside it."""

    bytes_left: int
    entries_left: int
    entries: int
    folders: set[PurePosixPath] = field(default_factory=set)
    """Those that lead to entries, and are entries, too, as a disk counts them."""

    @classmethod
    def of(cls, *archives: Path, entries: int = MAX_ENTRIES, most: int | None = None) -> Budget:
        """Allowance of archives of this size, together: ``most`` bytes, where that is said. Raises ``BadArchive``."""
        try:
            size = sum(archive.stat().st_size for archive in archives)
        except OSError as error:
            raise BadArchive(f"it cannot be read: {error.strerror}") from error
        allowed = min(MAX_UNPACKED, max(ALWAYS_ALLOWED, MAX_RATIO * size))
        return cls(bytes_left=most or allowed, entries_left=entries, entries=entries)

    def take(self, count: int) -> None:
        self.bytes_left -= count
        self.require(0)

    def require(self, count: int) -> None:
        """Raise ``BadArchive`` where so many bytes more are too many."""
        if self.bytes_left < count:
            raise BadArchive("it unpacks to far more than its size lets expect", hint="it looks like a bomb")

    def take_entry(self, path: PurePosixPath) -> PurePosixPath:
        """The path again; raises ``BadArchive`` where it is one too many."""
        new = [folder for folder in path.parents if folder not in self.folders]
        self.folders.update(new)
        self.entries_left -= 1 + len(new)
        if self.entries_left < 0:
            raise BadArchive(
                f"it holds more than {self.entries:,} files and folders", hint="it looks like a bomb"
            )
        return path


@dataclass(frozen=True, kw_only=True)
class ArchiveMember:
    """One entry. Its path is relative and has no ``..``."""

    path: PurePosixPath
    kind: Kind
    size: int
    """Bytes, as the archive says."""
    executable: bool
    link: str
    """What a link leads to, unchecked."""
    chunks: Callable[[], Iterator[bytes]]
    """The content, before the next member is asked for."""


@contextmanager
def opened(archive: Path, *, budget: Budget | None = None) -> Iterator[Iterator[ArchiveMember]]:
    """The members, one after the other. Raises ``BadArchive``, also while they are read."""
    try:
        budget = budget or Budget.of(archive)
        if not (archive.is_file() or archive.is_dir()):
            raise BadArchive("it is no file")  # a pipe would be waited for
        file = archive.open("rb")
    except OSError as error:
        raise BadArchive(f"it cannot be read: {error.strerror}") from error
    with file:
        if is_zip(archive) or _is_program(file):
            yield _members_of_zip(file, budget)
        elif archive.name.lower().endswith(".deb"):
            yield _members_of_deb(file, budget)
        else:
            yield _members_of_tar(file, budget)


def is_zip(archive: Path) -> bool:
    """Whether a file's name says so."""
    return archive.name.lower().endswith(ZIP_SUFFIXES)


PROGRAMS = {b"\x7fELF": "embed", b"MZ": "embed.exe", b"#!": ""}
"""How programs begin, and what one is called in the bundle that lies behind it; a script belongs to no bundle."""


def _kind_of_program(file: IO[bytes]) -> bytes:
    """How it begins; empty where it is none."""
    file.seek(0)
    first = file.read(4)
    file.seek(0)
    return next((begins for begins in PROGRAMS if first.startswith(begins)), b"")


def _is_program(file: IO[bytes]) -> bool:
    """Whether a program stands before the archive, which must be a zip then: that is read from its end. Raises ``BadArchive``."""
    first = file.read(64)
    file.seek(0)
    kind = _kind_of_program(file)
    if not kind:
        return False
    if not zipfile.is_zipfile(file):
        if PROGRAMS[kind]:
            raise BadArchive("it is a program with no bundle behind it, or not the whole of one")
        line = first.splitlines()[0].decode(errors="replace")
        raise BadArchive(
            f"it begins with {line!r}, and ends with no zip",
            hint="edgepack opens tar (gzip, xz, zstd), zip and Debian packages; behind a program it opens a zip, which is read from its end",
        )
    file.seek(0)
    return True


DEEPEST = 128
"""Parts of a path: folders are made and removed one within another."""


def inside(name: str) -> PurePosixPath:
    """The path that a name in an archive means. Raises ``BadArchive`` where it leads elsewhere."""
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if not name or "\0" in name or ".." in parts or name.startswith(("/", "\\")) or ":" in name[:2]:
        raise outside(name)
    if len(parts) > DEEPEST:
        raise BadArchive(
            f"it holds {len(parts)} folders within one another", hint="do not trust this archive"
        )
    return PurePosixPath(name)


def outside(name: str) -> BadArchive:
    """Error about a path that leads out of the archive."""
    return BadArchive(f"it holds a path that leads out of it: {name!r}", hint="do not trust this archive")


def _noticing_damage(read: Callable[P, Iterator[T]]) -> Callable[P, Iterator[T]]:
    """The same generator; what the libraries make of damage becomes ``BadArchive``."""

    @wraps(read)
    def noticing(*arguments: P.args, **named: P.kwargs) -> Iterator[T]:
        import zstandard

        try:
            yield from read(*arguments, **named)
        except (
            zipfile.BadZipFile,
            tarfile.TarError,
            zlib.error,
            lzma.LZMAError,
            zstandard.ZstdError,
            EOFError,
            NotImplementedError,  # a compression method that zipfile does not know
            ValueError,  # these four: what the standard library makes of malformed headers
            OverflowError,
            RecursionError,
            struct.error,
        ) as error:
            raise BadArchive(str(error) or "it is cut off") from error
        except OSError as error:
            # What gzip and bz2 make of damage has no number; zipfile seeks to where a damaged header says.
            if error.errno not in (None, errno.EINVAL):
                raise
            raise BadArchive(str(error)) from error

    return noticing


@_noticing_damage
def _members_of_zip(file: IO[bytes], budget: Budget) -> Iterator[ArchiveMember]:
    @_noticing_damage
    def chunks(member: zipfile.ZipInfo) -> Iterator[bytes]:
        if member.flag_bits & 1:
            raise BadArchive("it is encrypted", hint="unpack it, and name the folder instead")
        with archive.open(member) as stream:
            while chunk := stream.read(CHUNK):
                budget.take(len(chunk))
                yield chunk

    def before(size: int) -> Iterator[bytes]:
        file.seek(0)
        while size and (chunk := file.read(min(CHUNK, size))):
            size -= len(chunk)
            budget.take(len(chunk))
            yield chunk

    kind = _kind_of_program(file)
    name = PROGRAMS.get(kind)
    with zipfile.ZipFile(cast("IO[bytes]", _Listed(file))) as archive:
        if kind != b"#!":  # behind a script, of whose length its list may know nothing
            _require_one_list(file, archive.start_dir, alone=bool(name))
        if name:
            size = min((member.header_offset for member in archive.infolist()), default=archive.start_dir)
            if size < 0:
                raise BadArchive("its list of files leads out of it")
            budget.require(size)
            yield ArchiveMember(
                path=budget.take_entry(PurePosixPath(name)),
                kind="file",
                size=size,
                executable=True,
                link="",
                chunks=partial(before, size),
            )
        for member in archive.infolist():
            budget.require(member.file_size)
            mode = member.external_attr >> 16
            plain = stat.S_IFMT(mode) in (0, stat.S_IFREG)
            # Java runs what a folder has for content; two bytes are deflated ones of nothing.
            content = member.file_size or member.compress_size > 2
            yield ArchiveMember(
                path=budget.take_entry(inside(member.filename.replace("\\", "/"))),
                kind=("odd" if content else "folder") if member.is_dir() else "file" if plain else "odd",
                size=member.file_size,
                executable=bool(mode & 0o100),
                link="",
                chunks=partial(chunks, member),
            )


_END, _END_64, _PLACE_OF_64 = struct.Struct("<4s6xH2IH"), struct.Struct("<4s28x3Q"), struct.Struct("<4s4xQ4x")
"""Records at a zip's end: entries, size and place of the list, and length of a comment; for more than 4 GB; and where that one is."""
_ASK_64 = (0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF)
"""Numbers in the place of those of the other record."""


def _require_one_list(file: IO[bytes], start: int, *, alone: bool) -> None:
    """Raise ``BadArchive`` where another program may read another list of files than zipfile, to which it begins at ``start``.

    zipfile finds the list by its size alone, and believes a record for archives of more than 4 GB where nothing asks for it.
    Programs of ours, which stand ``alone`` with their bundle, have neither such a record nor a comment.
    """
    length = file.seek(0, os.SEEK_END)
    before = file.seek(max(0, length - _END.size - _PLACE_OF_64.size - 0xFFFF))
    tail = file.read()
    at = len(tail) - _END.size
    if tail[at : at + 4] != b"PK\5\6" or tail[-2:] != b"\0\0":
        at = tail.rfind(b"PK\5\6")
    _, *said, comment = _END.unpack_from(tail, at)
    end, found = before + at, said
    right = at + _END.size + comment == len(tail) and not (alone and comment)
    if right and (of_64 := at - _PLACE_OF_64.size) >= 0 and tail.startswith(b"PK\6\7", of_64):
        end -= _PLACE_OF_64.size + _END_64.size
        file.seek(end)
        _, *found = _END_64.unpack(file.read(_END_64.size))
        named = _PLACE_OF_64.unpack_from(tail, of_64)[1]
        same = (one in (other, asks) for one, other, asks in zip(said, found, _ASK_64, strict=True))
        right = not alone and named == end and all(same)
    if not right or found[2] != start or start + found[1] != end:
        raise BadArchive("it has more than one list of files", hint="do not trust this file")


_LOCAL, _FILLING = struct.Struct("<4s5H3I2H"), 0xD935
"""What stands before a zip's member; and an extra field that does nothing but fill."""


def is_plain_zip(archive: Path) -> bool:
    """Whether a zip's members stand one behind the other up to its list, and say of themselves what the list says.

    Some programs read the list, others from member to member.
    """
    with archive.open("rb") as file, zipfile.ZipFile(file) as listed:
        members = sorted(listed.infolist(), key=lambda member: member.header_offset)
        at = members[0].header_offset if members and _kind_of_program(file) else 0
        for member in members:
            file.seek(at)
            head = file.read(_LOCAL.size)
            if at != member.header_offset or len(head) < _LOCAL.size or member.extra:
                return False
            magic, _, flags, method, _, _, *numbers, name, extra = _LOCAL.unpack(head)
            said = [member.compress_type, member.CRC, member.compress_size, member.file_size]
            called = file.read(name) == member.orig_filename.encode() == member.filename.encode()
            filled = not extra or file.read(4) == struct.pack("<2H", _FILLING, max(4, extra) - 4)
            if (magic, flags & ~0x800, method, *numbers) != (b"PK\3\4", 0, *said) or not (called and filled):
                return False
            at += _LOCAL.size + name + extra + member.compress_size
        return at == listed.start_dir


class CheckedInfo(tarfile.TarInfo):
    """A tar's header as anybody may have written it. Python before 3.11.10 reads some in time and memory by the square of their length
    (CVE-2024-6232): they are looked at before. What has holes nobody here wants.
    """

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """A header whose numbers all programs read alike: of "+0" and "1_0" each makes another one."""
        if not all(_NUMBER.fullmatch(buf, at, at + size) for at, size in _NUMBERS):
            raise BadArchive(
                "it has a header of which programs read different numbers", hint="do not trust this archive"
            )
        return super().frombuf(buf, encoding, errors)

    def _proc_pax(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        if not _is_plain_pax(self._looked_at(tar)):
            raise tarfile.ReadError("a header that tells nothing")
        return cast("tarfile.TarInfo", super()._proc_pax(tar))  # type: ignore[misc]

    def _proc_gnulong(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        self._looked_at(tar)
        return cast("tarfile.TarInfo", super()._proc_gnulong(tar))  # type: ignore[misc]

    def _looked_at(self, tar: tarfile.TarFile) -> bytes:
        """The content of a header that tells more of a member; of several, programs differ in which they follow."""
        stream = cast("IO[bytes]", tar.fileobj)
        self._require_short()
        before, size = stream.tell(), -(-self.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
        content = stream.read(size + tarfile.BLOCKSIZE)
        stream.seek(before)
        after = content[size + _TYPE_AT : size + _TYPE_AT + 1]
        both = (self.type, after) == (tarfile.GNUTYPE_LONGLINK, tarfile.GNUTYPE_LONGNAME)
        if after in _TELLING and self.type != tarfile.XGLTYPE and not both:
            raise BadArchive("it says twice what a member is called", hint="do not trust this archive")
        return content[: self.size]

    def _require_short(self) -> None:
        if self.size > CHUNK - 2 * tarfile.BLOCKSIZE:
            raise BadArchive(f"it holds a header of {self.size:,} bytes", hint="it looks like a bomb")

    def _proc_sparse(self, *_: object) -> NoReturn:
        raise BadArchive("it holds a file with holes", hint="pack it without --sparse")

    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _proc_sparse


LONGEST_RUN = 100
"""Digits one after another in a header: of names and times."""
_TYPE_AT = 156
"""Where in a tar header its type is."""
_NUMBERS = ((100, 8), (108, 8), (116, 8), (124, 12), (136, 12), (148, 8))
"""Where in a tar header its numbers are, and their bytes: mode, owner, group, size, time, sum."""
_NUMBER = re.compile(rb" *[0-7]*[ \0]*|\x80.*", re.DOTALL)
_TELLING = (
    tarfile.XHDTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
"""Types of headers that tell more of the next member."""
LARGE = 8 << 30
"""Bytes of a member that its own header has no room for. A smaller size said elsewhere is one that not all programs read."""
_RUN, _LENGTH = re.compile(rb"\d{%d}" % (LONGEST_RUN + 1)), re.compile(rb"([1-9]\d{0,7}) [^=\n]+=")


def _is_plain_pax(header: bytes) -> bool:
    """Whether a header is ``LENGTH KEY=VALUE`` and a line break, again and again (POSIX pax), as zeros may end it."""
    if _RUN.search(header):
        return False
    at, end = 0, len(header.rstrip(b"\0"))
    while at < end:
        found = _LENGTH.match(header, at)
        after = at + int(found[1]) if found else end
        if found is None or found.end() >= after or header[after - 1 : after] != b"\n":
            return False
        if found[0].endswith(b" size=") and int(header[found.end() : after - 1]) < LARGE:
            return False
        at = after
    return True


class _Listed:
    """A file as zipfile reads it; nothing is read at once that would fill the memory."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.seek, self.tell, self.seekable, self.close = file.seek, file.tell, file.seekable, file.close

    def read(self, size: int = -1) -> bytes:
        if size > MAX_DIRECTORY:
            raise BadArchive(f"its list of files has {size:,} bytes", hint="it looks like a bomb")
        return self._file.read(size)


@_noticing_damage
def _members_of_tar(
    file: io.BufferedReader, budget: Budget, suffix: str | None = None
) -> Iterator[ArchiveMember]:
    @_noticing_damage
    def chunks(member: tarfile.TarInfo) -> Iterator[bytes]:
        content = tar.extractfile(member)
        assert content is not None, "a regular member has content"
        while chunk := content.read(CHUNK):
            yield chunk

    with _unpacked(file, suffix) as plain:
        stream = _Forward(plain, budget)
        tar = tarfile.TarFile(fileobj=cast("IO[bytes]", stream), tarinfo=CheckedInfo)
        while (member := tar.next()) is not None:
            budget.require(member.size)
            yield ArchiveMember(
                path=budget.take_entry(inside(member.name)),
                kind=_kind(member),
                size=member.size,
                executable=bool(member.mode & 0o100),
                link=member.linkname,
                chunks=partial(chunks, member),
            )
            tar.members.clear()  # type: ignore[attr-defined] # or tarfile remembers them all
        if stream.last != bytes(tarfile.BLOCKSIZE):
            # tarfile takes a header that it cannot read for the end.
            raise tarfile.ReadError("unexpected end of data")
        # To the compression's own checksum. Other programs read on behind the first zeros.
        end = stream.tell()
        while rest := stream.read(CHUNK):
            if rest.strip(b"\0") or stream.tell() - end > MAX_END:
                raise BadArchive("it goes on behind its end", hint="do not trust this archive")


def _kind(member: tarfile.TarInfo) -> Kind:
    if member.isreg():
        # What is sparse would be larger than what is read.
        return "odd" if member.issparse() else "file"
    if member.size:
        # Some programs pass over so many bytes then, others take them for members.
        return "odd"
    return (
        "folder" if member.isdir() else "link" if member.issym() else "hard link" if member.islnk() else "odd"
    )


class _Forward:
    """A stream as tarfile reads it from a tape: forwards, but for what was read last; no more at once than ``CHUNK``, nor than the budget."""

    def __init__(self, stream: IO[bytes], budget: Budget) -> None:
        self._stream, self._budget, self._at = stream, budget, 0
        self.last = b""
        """What was read last."""
        self._again = b""

    def tell(self) -> int:
        return self._at

    def seek(self, position: int) -> None:
        if position == self._at - len(self.last):
            self._at, self._again = position, self.last
        while self._at < position and self.read(min(CHUNK, position - self._at)):
            pass

    def read(self, size: int) -> bytes:
        if not 0 <= size <= CHUNK:
            raise BadArchive(f"it holds a header of {size:,} bytes", hint="it looks like a bomb")
        again, self._again = self._again[:size], self._again[size:]
        content = again
        while len(content) < size and (more := self._stream.read(size - len(content))):
            content += more
        self._budget.take(len(content) - len(again))
        self._at += len(content)
        self.last = content
        return content


@contextmanager
def plain_tar(archive: Path) -> Iterator[IO[bytes]]:
    """The bytes of a tar, which stand in it as they are, or in frames of zstd; none of one that is compressed otherwise."""
    with archive.open("rb") as file:
        if not _is_of_frames(file):
            yield io.BytesIO()
            return
        file.seek(0)
        with _unpacked(file) as plain:
            yield io.BufferedReader(cast("io.RawIOBase", plain))


def _is_of_frames(file: IO[bytes]) -> bool:
    """Whether a file is not compressed, or consists of frames of zstd (RFC 8878) of which none is passed over."""
    head = file.read(4)
    if COMPRESSIONS.get(head) != ".zst":
        return not head.startswith(tuple(COMPRESSIONS))
    while COMPRESSIONS.get(head) == ".zst":
        (says,) = file.read(1)
        single, last = says >> 5 & 1, False
        file.seek(1 - single + (0, 1, 2, 4)[says & 3] + (single, 2, 4, 8)[says >> 6], os.SEEK_CUR)
        while not last:
            block = int.from_bytes(file.read(3), "little")
            last = bool(block & 1)
            file.seek(1 if block >> 1 & 3 == 1 else block >> 3, os.SEEK_CUR)
        file.seek(says & 4, os.SEEK_CUR)
        head = file.read(4)
    return not head


@contextmanager
def _unpacked(file: io.BufferedReader, suffix: str | None = None) -> Iterator[IO[bytes]]:
    """A file's content without its compression, which its first bytes say; where a name says it, too, they must agree."""
    head = file.peek(tarfile.BLOCKSIZE)[: tarfile.BLOCKSIZE]
    compression = next((COMPRESSIONS[magic] for magic in COMPRESSIONS if head.startswith(magic)), "")
    if suffix not in (None, compression):
        raise BadArchive(
            f"what it calls {suffix or 'plain'} is something else", hint="do not trust this archive"
        )
    # GNU tar and Python ask for a header's sum before they look for a compression.
    with suppress(tarfile.HeaderError):
        if compression and tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape"):
            raise BadArchive("it is a tar with and without its compression", hint="do not trust this archive")
    if compression == ".zst":
        import zstandard

        with zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True) as stream:
            yield cast("IO[bytes]", stream)
    elif compression == ".gz":
        with gzip.GzipFile(fileobj=file) as stream:
            yield cast("IO[bytes]", stream)
    elif compression == ".bz2":
        with bz2.BZ2File(file) as stream:
            yield stream
    elif compression == ".xz":
        with lzma.LZMAFile(file) as stream:
            yield stream
    else:
        yield file


@_noticing_damage
def _members_of_deb(file: io.BufferedReader, budget: Budget) -> Iterator[ArchiveMember]:
    """Files that a Debian package installs: an ``ar`` archive has a compressed tar in it."""
    if file.read(8) != _AR_MAGIC:
        raise tarfile.ReadError("not a Debian package")
    for begins in ("debian-binary", "control.tar", "data.tar"):
        header = file.read(60)
        if len(header) < 60 or header[58:60] != b"`\n" or not re.fullmatch(rb"\d+ *", header[48:58]):
            raise tarfile.ReadError("a damaged Debian package")
        name, size = header[:16].decode("latin-1").rstrip(), int(header[48:58])
        if not name.startswith(begins):
            raise BadArchive(
                f"where {begins} has its place it holds {name!r}", hint="do not trust this archive"
            )
        if begins != "data.tar":
            file.seek(size + size % 2, os.SEEK_CUR)
    # dpkg goes by the name.
    yield from _members_of_tar(io.BufferedReader(_Part(file, size)), budget, name.removeprefix(begins))
    if file.read(2).strip(b"\n"):
        raise BadArchive("it goes on behind its end", hint="do not trust this archive")


class _Part(io.RawIOBase):
    """The next bytes of a file, and no more."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file, self._left = file, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer)
        content = self._file.read(min(len(view), self._left))
        view[: len(content)] = content
        self._left -= len(content)
        return len(content)
