"""Vectors onto a stream: JSON, JSON lines, NumPy's npy, or bare float32."""

from __future__ import annotations

import json
import os
import sys

from .errors import OutputError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable
    from typing import BinaryIO

    from .read import Record

    Writer = Callable[[Record, array[float]], None]

CHUNK = 1 << 16
NPY_HEADER = 128
FORMATS = ("json", "jsonl", "npy", "f32")


def json_vector(vector: array[float]) -> str:
    """A JSON array; nine digits bring every float32 back exactly."""
    return "[" + ",".join(["%.9g"] * len(vector)) % tuple(vector) + "]"


def json_record(record: Record, vector: array[float]) -> str:
    """``{"text": …, "embedding": […]}``, or the object that was read with its embedding added, otherwise untouched."""
    if record.source is None:
        return f'{{"text":{json.dumps(record.text, ensure_ascii=False)},"embedding":{json_vector(vector)}}}'
    if "embedding" in record.source:
        rest = {key: value for key, value in record.source.items() if key != "embedding"}
        head = json.dumps(rest)
    else:
        head = record.line
    return f'{head[:-1].rstrip()},"embedding":{json_vector(vector)}}}'


class JsonLines:
    """A line a text."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, record: Record, vector: array[float]) -> None:
        self._stream.write(json_record(record, vector).encode() + b"\n")

    def finish(self) -> None:
        pass


class Json:
    """One array of what JSON lines would be."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._before = b"[\n"

    def write(self, record: Record, vector: array[float]) -> None:
        self._stream.write(self._before + json_record(record, vector).encode())
        self._before = b",\n"

    def finish(self) -> None:
        self._stream.write(b"\n]\n")


class Float32:
    """Numbers only: little-endian float32, ``dimension`` of them a text."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, record: Record, vector: array[float]) -> None:
        self._stream.write(little_endian(vector))

    def finish(self) -> None:
        pass


class Npy:
    """NumPy's format, float32 [texts, dimension]: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html

    The header says how many texts follow. ``count`` is None when that is not known before the end; then the stream must
    be one that can be wound back.
    """

    def __init__(self, stream: BinaryIO, *, dimension: int, count: int | None) -> None:
        if count is None and not can_patch(stream):
            raise UsageError(
                "npy says at its start how many texts follow, and this output cannot be wound back",
                "use --output FILE, or --out f32 or jsonl",
            )
        self._stream = stream
        self._dimension = dimension
        self._start = stream.tell() if count is None else 0
        self._known = count is not None
        self._count = 0
        stream.write(npy_header(count or 0, dimension))

    def write(self, record: Record, vector: array[float]) -> None:
        self._stream.write(little_endian(vector))
        self._count += 1

    def finish(self) -> None:
        if not self._known:
            end = self._stream.tell()
            self._stream.seek(self._start)
            self._stream.write(npy_header(self._count, self._dimension))
            self._stream.seek(end)


def npy_header(count: int, dimension: int) -> bytes:
    """Version 1.0, always ``NPY_HEADER`` bytes."""
    shape = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({count}, {dimension}), }}"
    text = shape.ljust(NPY_HEADER - 11) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode("ascii")


def can_patch(stream: BinaryIO) -> bool:
    """Whether what was written can be written over: not on a pipe, and not when every write goes to the end."""
    from fcntl import F_GETFL, fcntl

    return stream.seekable() and not fcntl(stream.fileno(), F_GETFL) & os.O_APPEND


def little_endian(vector: array[float]) -> bytes:
    if sys.byteorder == "big":
        vector = vector[:]
        vector.byteswap()
    return vector.tobytes()


def writer_for(
    format: str, stream: BinaryIO, *, dimension: int, count: int | None
) -> JsonLines | Json | Float32 | Npy:
    """The writer of one of ``FORMATS``."""
    if format == "npy":
        return Npy(stream, dimension=dimension, count=count)
    if format == "f32":
        return Float32(stream)
    return Json(stream) if format == "json" else JsonLines(stream)


class Output:
    """Standard output, or a file that appears under its name when all has been written.

    Used as a context: what is left of a file is removed when the block ends badly. Raises ``OutputError``.
    """

    def __init__(self, path: str | None) -> None:
        self._temporary = self._final = ""
        try:
            if path is None:
                self.stream: BinaryIO = open(1, "wb", buffering=CHUNK, closefd=False)  # noqa: SIM115
            elif os.path.exists(path) and not os.path.isfile(path):
                self.stream = open(path, "wb", buffering=CHUNK)  # noqa: SIM115
            else:
                self._final = os.path.realpath(path)
                self._temporary = f"{self._final}.part-{os.getpid()}"
                self.stream = open(self._temporary, "xb", buffering=CHUNK)  # noqa: SIM115
        except OSError as error:
            raise OutputError(f"cannot write to {path or 'standard output'}: {error.strerror}") from error

    def __enter__(self) -> Output:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        try:
            if isinstance(error, OSError):
                raise error
            if error is None:
                self._finish()
        except OSError as error:
            raise failed(error) from error
        finally:
            if self._temporary and os.path.exists(self._temporary):
                os.unlink(self._temporary)

    def _finish(self) -> None:
        self.stream.flush()
        if self._final:
            self.stream.close()
            os.replace(self._temporary, self._final)


def failed(error: OSError) -> OutputError:
    return OutputError(f"cannot write the output: {error.strerror}")
