"""Vectors of texts that are kept in a file, so that a text is embedded once.

NumPy's npy, float32 [texts, dimension], rows of length 1 (or 0); behind the rows come 32 hexadecimal digits of each text's
SHA-256. The header says, in a comment that NumPy passes over, which model made them, and the Adler-32 of all that
follows it.
"""

from __future__ import annotations

import mmap
import os
from math import hypot
from stat import S_ISREG
from struct import iter_unpack, unpack_from
from zlib import adler32

from ..base.bundle import sha256_type
from ..base.errors import InputError, OutputError
from ..base.signals import hold, remove_when_stopped
from ..base.streams import say
from ..program.numbers import little_endian
from ..program.write import failed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterator, Sequence
    from typing import BinaryIO

HEADER = 256
MARK = " # embed search 1, model "
DIGITS = 32
CHUNK = 1 << 20


sha256 = sha256_type()


def digest_of(text: str) -> str:
    return str(sha256(text.encode()).hexdigest())[:DIGITS]


def header(count: int, dimension: int, model: str, checksum: int) -> bytes:
    """npy 1.0, ``HEADER`` bytes."""
    shape = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({count}, {dimension}), }}"
    text = f"{shape}{MARK}{model}, adler32 {checksum:08x}".ljust(HEADER - 11) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode("ascii")


def is_unit(row: Sequence[float]) -> bool:
    """Of length 1 or 0: ``search`` makes no others, whether or not the model's are. What is not a number is not so either."""
    length = hypot(*row)
    return 0.999 < length < 1.001 or not length


class Kept:
    """What an index file has, mapped; none where there is no file, or one that must be made anew: ``problem`` says why."""

    def __init__(self, path: str | None, model: str, dimension: int) -> None:
        self.count = 0
        self.problem = ""
        self.found = False
        self._width = 4 * dimension
        self._form = f"<{dimension}f"
        self._mapped: mmap.mmap | bytes = b""
        self._places: dict[str, int] | None = None
        if path is None:
            return
        try:
            status = os.stat(path)
            if not S_ISREG(status.st_mode):
                raise foreign(path)
            self.found = True
            if not status.st_size:
                return
            with open(path, "rb") as stream:
                self._mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except FileNotFoundError:
            return
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}") from error
        self._check(path, model, dimension)

    def _check(self, path: str, model: str, dimension: int) -> None:
        found = self._mapped[:HEADER]
        at = found.find(MARK.encode())
        if at < 0:
            raise foreign(path)
        if found[at + len(MARK) :][: len(model)] != model.encode():
            self.problem = "is of another model or other settings"
            return
        count, rest = divmod(len(self._mapped) - HEADER, self._width + DIGITS)
        with memoryview(self._mapped) as whole, whole[HEADER:] as content:
            sound = not rest and found == header(count, dimension, model, adler32(content))
            with content[: count * self._width] as rows:
                sound = sound and all(is_unit(row) for row in iter_unpack(self._form, rows))
        if sound:
            self.count = count
        else:
            self.problem = "is damaged"

    def place(self, digest: str, guess: int) -> int:
        """Which row is that of a text; -1: none. ``guess`` is looked at first."""
        if guess < self.count and self._digest(guess) == digest:
            return guess
        if self._places is None:
            self._places = {self._digest(at): at for at in range(self.count)}
        return self._places.get(digest, -1)

    def row(self, at: int) -> tuple[float, ...]:
        return unpack_from(self._form, self._mapped, HEADER + at * self._width)

    def rows(self, start: int, count: int) -> bytes:
        """Some of them, as they lie there."""
        return self._mapped[HEADER + start * self._width : HEADER + (start + count) * self._width]

    def _digest(self, at: int) -> str:
        start = HEADER + self.count * self._width + at * DIGITS
        return self._mapped[start : start + DIGITS].decode("ascii", "replace")


class Index:
    """Vectors of texts in order: kept ones, else new ones; a context that writes the file where it was not just that.

    ``path`` None keeps nothing. Where the user did not ask for the file (``asked``), one that cannot be written is no
    error. To be made before there are other threads. Raises ``InputError`` and ``OutputError``.
    """

    def __init__(self, path: str | None, *, asked: bool, model: str, dimension: int) -> None:
        self._path = path
        self._asked = asked
        self._model = model
        self._dimension = dimension
        try:
            # A link that nobody named may lead to any file of the user's.
            if path is not None and not asked and os.path.islink(path):
                raise foreign(path)
            self._kept = Kept(path, model, dimension)
        except InputError as error:
            if asked:
                raise
            self._kept = Kept(None, model, dimension)
            self._path = None
            say(f"note: the vectors are not kept: {error.message}\n")
        self._digests: list[str] = []
        self._stream: BinaryIO | None = None
        self._checksum = 1
        self._temporary = f"{path}.part-{os.getpid()}"
        if self._path is not None:
            if self._kept.problem:
                say(f"note: {path} {self._kept.problem}: made anew\n")
            remove_when_stopped(self._temporary, hold())

    @property
    def has_kept(self) -> bool:
        """Whether there was something in the file that could be taken."""
        return self._kept.count > 0

    def vectors(
        self, texts: Sequence[str], embed: Callable[[list[str]], list[array[float]]]
    ) -> Iterator[Sequence[float]]:
        """Unit vectors of the texts that follow those of the last call; ``embed`` makes those that are not kept."""
        digests = [digest_of(text) for text in texts]
        start = len(self._digests)
        places = [self._kept.place(digest, at) for at, digest in enumerate(digests, start)]
        made = embed([text for text, place in zip(texts, places, strict=True) if place < 0])
        if self._path is not None:
            try:
                self._keep(places, made)
            except OSError as error:
                self._give_up(failed(error))
            except OutputError as error:
                self._give_up(error)
        self._digests += digests
        rest = iter(made)
        return (self._kept.row(at) if at >= 0 else next(rest) for at in places)

    def _keep(self, places: list[int], made: Sequence[array[float]]) -> None:
        start = len(self._digests)
        if self._stream is None and places != list(range(start, start + len(places))):
            self._begin()
        if self._stream is not None:
            rest = iter(made)
            for at in places:
                self._write(self._kept.rows(at, 1) if at >= 0 else little_endian(next(rest)))

    def _begin(self) -> None:
        """A new file, with the rows that are as they were."""
        try:
            self._stream = open(self._temporary, "xb", buffering=CHUNK)  # noqa: SIM115
        except OSError as error:
            raise OutputError(f"cannot write to {self._path}: {error.strerror}") from error
        self._stream.write(bytes(HEADER))
        self._write(self._kept.rows(0, len(self._digests)))

    def _write(self, data: bytes) -> None:
        assert self._stream is not None
        self._checksum = adler32(data, self._checksum)
        self._stream.write(data)

    def __enter__(self) -> Index:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        try:
            if error is None and self._path is not None:
                self._finish()
        except OSError as failure:
            self._give_up(failed(failure))
        except OutputError as failure:
            self._give_up(failure)
        finally:
            self._remove()

    def _finish(self) -> None:
        if self._stream is None and len(self._digests) < self._kept.count:
            self._begin()
        if self._stream is None or self._path is None:
            return
        self._write("".join(self._digests).encode("ascii"))
        self._stream.seek(0)
        self._stream.write(header(len(self._digests), self._dimension, self._model, self._checksum))
        self._stream.close()
        os.replace(self._temporary, os.path.realpath(self._path) if self._asked else self._path)
        self._stream = None
        if not self._kept.found:
            say(f"note: the vectors are kept in {self._path}\n")

    def _give_up(self, error: OutputError) -> None:
        """Raises it where the file was asked for."""
        self._remove()
        self._path = None
        if self._asked:
            raise error
        say(f"note: the vectors are not kept: {error.message}\n")

    def _remove(self) -> None:
        if self._stream is not None:
            # What it has not written yet may not fit on the disk either.
            self._stream = None
            os.unlink(self._temporary)


def foreign(path: str) -> InputError:
    return InputError(f"{path} is not an index of embed search", "name another file with --index")
