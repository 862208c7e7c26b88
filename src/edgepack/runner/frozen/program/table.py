"""Vectors for eyes: a line a text, with as many of its numbers as the terminal has room for."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from typing import BinaryIO

    from .read import Record

WIDTH = 100
"""Where there is no terminal."""
TEXT_SHARE = 0.45
NUMBER = "{:8.4f}"
WIDE = (
    (0x1100, 0x115F),
    (0x2E80, 0xA4CF),
    (0xAC00, 0xD7A3),
    (0xF900, 0xFAFF),
    (0xFE30, 0xFE6F),
    (0xFF00, 0xFF60),
    (0xFFE0, 0xFFE6),
    (0x1F300, 0x1FAFF),
    (0x20000, 0x3FFFD),
)
"""Characters that take two columns, by and large (Unicode's East Asian Width)."""


class Table:
    """The text, cut to its column, and the first numbers of its vector."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        columns = terminal_width(stream)
        self._text = max(8, int(columns * TEXT_SHARE))
        self._numbers = max(1, (columns - self._text - 3) // len(NUMBER.format(0)))

    def write(self, record: Record, vector: array[float]) -> None:
        shown = "".join(NUMBER.format(x) for x in vector[: self._numbers])
        more = " …" if len(vector) > self._numbers else ""
        self._stream.write(f"{fitted(record.text, self._text)} {shown}{more}\n".encode())

    def finish(self) -> None:
        pass


def terminal_width(stream: BinaryIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or WIDTH
    except (OSError, ValueError):
        return WIDTH


def fitted(text: str, columns: int) -> str:
    """A text in exactly so many columns; what could steer a terminal is shown as ``·``."""
    shown = [character if character.isprintable() else "·" for character in text[: columns + 1]]
    if sum(map(columns_of, shown)) > columns:
        while sum(map(columns_of, shown)) > columns - 1:
            shown.pop()
        shown.append("…")
    return "".join(shown) + " " * (columns - sum(map(columns_of, shown)))


def columns_of(character: str) -> int:
    return 2 if any(first <= ord(character) <= last for first, last in WIDE) else 1
