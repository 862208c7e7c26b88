"""Vectors onto a stream: JSON, JSON lines, NumPy's npy, bare numbers, or a table."""

from __future__ import annotations

import json
import os

from ..base.errors import OutputError, UsageError
from ..base.signals import hold, remove_when_stopped
from .numbers import DESCRIPTIONS, json_fields, packed, width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from typing import BinaryIO, Protocol

    from .read import Record

    class Writer(Protocol):
        """Gets each text with its vector, in order, and is told when that was all."""

        def write(self, record: Record, vector: array[float]) -> None: ...
        def finish(self) -> None: ...


CHUNK = 1 << 16
NPY_HEADER = 128
FORMATS = ("json", "jsonl", "npy", "npz", "raw", "table")


def json_line(record: Record, vector: array[float], type: str, id_field: str | None) -> str:
    """``{"text": …, "embedding": […]}``, or the object that was read with its embedding added, otherwise untouched.

    With ``id_field``, that field of it and the embedding alone.
    """
    fields = json_fields(vector, type)
    if record.source is None:
        return f'{{"text":{json.dumps(record.text, ensure_ascii=False)},{fields}}}'
    if id_field is not None:
        said = json.dumps(record.source[id_field], ensure_ascii=False)
        return f"{{{json.dumps(id_field, ensure_ascii=False)}:{said},{fields}}}"
    ours = ("embedding", "scale") if type == "int8" else ("embedding",)
    if any(name in record.source for name in ours):
        rest = {key: value for key, value in record.source.items() if key not in ours}
        head = json.dumps(rest)
    else:
        head = record.line
    opened = head[:-1].rstrip()
    return f"{opened}{'' if opened == '{' else ','}{fields}}}"


class JsonLines:
    """A line a text."""

    def __init__(self, stream: BinaryIO, *, type: str, id_field: str | None) -> None:
        self._stream = stream
        self._type = type
        self._id_field = id_field

    def write(self, record: Record, vector: array[float]) -> None:
        self._stream.write(json_line(record, vector, self._type, self._id_field).encode() + b"\n")

    def finish(self) -> None:
        pass


class Json:
    """One array of what JSON lines would be."""

    def __init__(self, stream: BinaryIO, *, type: str, id_field: str | None) -> None:
        self._stream = stream
        self._type = type
        self._id_field = id_field
        self._before = b"[\n"

    def write(self, record: Record, vector: array[float]) -> None:
        text = json_line(record, vector, self._type, self._id_field)
        self._stream.write(self._before + text.encode())
        self._before = b",\n"

    def finish(self) -> None:
        self._stream.write(b"\n]\n")


class Raw:
    """Numbers only, row after row."""

    def __init__(self, stream: BinaryIO, *, type: str) -> None:
        self._stream = stream
        self._type = type

    def write(self, record: Record, vector: array[float]) -> None:
        self._stream.write(packed(vector, self._type))

    def finish(self) -> None:
        pass


class Npy:
    """NumPy's format, [texts, dimension]: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html

    The header says how many texts follow. ``count`` is None when that is not known before the end; then the stream must
    be one that can be wound back.
    """

    def __init__(self, stream: BinaryIO, *, type: str, dimension: int, count: int | None) -> None:
        if count is None and not can_patch(stream):
            raise UsageError(
                "npy requires a seekable output, not a pipe or >>: its header holds the number of texts",
                "use --output FILE, or --out raw or jsonl",
            )
        self._stream = stream
        self._type = type
        self._width = width(type, dimension)
        self._start = stream.tell() if count is None else 0
        self._known = count is not None
        self._count = 0
        stream.write(npy_header(count or 0, self._width, type))

    def write(self, record: Record, vector: array[float]) -> None:
        self._stream.write(packed(vector, self._type))
        self._count += 1

    def finish(self) -> None:
        if not self._known:
            end = self._stream.tell()
            self._stream.seek(self._start)
            self._stream.write(npy_header(self._count, self._width, self._type))
            self._stream.seek(end)


def npy_header(count: int, columns: int, type: str) -> bytes:
    """Version 1.0, always ``NPY_HEADER`` bytes."""
    shape = f"{{'descr': '{DESCRIPTIONS[type]}', 'fortran_order': False, 'shape': ({count}, {columns}), }}"
    text = shape.ljust(NPY_HEADER - 11) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode("ascii")


def can_patch(stream: BinaryIO) -> bool:
    """Whether what was written can be written over: not on a pipe, and not when every write goes to the end."""
    from fcntl import F_GETFL, fcntl

    return stream.seekable() and not fcntl(stream.fileno(), F_GETFL) & os.O_APPEND


def writer_for(
    format: str,
    stream: BinaryIO,
    *,
    type: str = "f32",
    dimension: int,
    count: int | None,
    id_field: str | None = None,
) -> Writer:
    """The writer of one of ``FORMATS``."""
    if format == "npy":
        return Npy(stream, type=type, dimension=dimension, count=count)
    if format == "raw":
        return Raw(stream, type=type)
    if format == "table":
        from .table import Table

        return Table(stream)
    made = Json if format == "json" else JsonLines
    return made(stream, type=type, id_field=id_field)


class Output:
    """Standard output, or a file that appears under its name when all has been written.

    Used as a context: what is left of a file is removed when the block ends badly, or the process by a signal: to be
    made before there are other threads. Raises ``OutputError``.
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
                held = hold()
                self.stream = open(self._temporary, "xb", buffering=CHUNK)  # noqa: SIM115
                remove_when_stopped(self._temporary, held)
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
