"""Texts from a stream: what has come is handed on at once, in windows, so that memory stays flat and answers are quick."""

from __future__ import annotations

import json
import os
import re

from ..base.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    Skip = Callable[[InputError], None]

CHUNK = 1 << 16
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
SURROGATES = re.compile("[\ud800-\udfff]")


class Record:
    """A text, the number of its line, and the JSON object that it came in."""

    __slots__ = ("line", "number", "source", "text")

    def __init__(
        self, text: str, *, number: int = 0, line: str = "", source: dict[str, Any] | None = None
    ) -> None:
        self.text = text
        self.number = number
        self.line = line
        self.source = source


def read_lines(descriptor: int, window: int) -> Iterator[list[tuple[int, bytes]]]:
    """Numbered lines of a file descriptor, as many as have come, at most ``window`` at a time.

    Only a line feed ends a line (a carriage return before it goes too); the last line needs none.
    """
    rest: list[bytes] = []
    number = 0
    while chunk := read_chunk(descriptor):
        *lines, tail = chunk.split(b"\n")
        if lines:
            lines[0] = b"".join([*rest, lines[0]])
            rest = []
        rest.append(tail)
        for start in range(0, len(lines), window):
            part = lines[start : start + window]
            yield [(number + offset, clean(line, number + offset)) for offset, line in enumerate(part, 1)]
            number += len(part)
    if last := b"".join(rest):
        yield [(number + 1, clean(last, number + 1))]


def read_chunk(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, CHUNK)
    except OSError as error:
        raise InputError(f"cannot read the input: {error.strerror}") from error


def clean(line: bytes, number: int) -> bytes:
    if number == 1:
        line = line.removeprefix(BYTE_ORDER_MARK)
    return line.removesuffix(b"\r")


def text_records(lines: Sequence[tuple[int, bytes]], *, strict: bool, skip: Skip | None) -> Iterator[Record]:
    """A record a line, empty lines too. A bad line is an ``InputError``, or handed to ``skip`` and passed over."""
    for number, line in lines:
        try:
            yield Record(decode(line, f"line {number}", strict=strict), number=number)
        except InputError as error:
            pass_over(error, skip)


def json_records(
    lines: Sequence[tuple[int, bytes]],
    *,
    text_field: str,
    id_field: str | None,
    strict: bool,
    skip: Skip | None,
) -> Iterator[Record]:
    """A record an object; blank lines are passed over, bad ones as ``text_records`` does."""
    for number, raw in lines:
        try:
            line = decode(raw, f"line {number}", strict=strict).strip()
            if line:
                yield record_of(line, number, text_field=text_field, id_field=id_field, strict=strict)
        except InputError as error:
            pass_over(error, skip)


def record_of(line: str, number: int, *, text_field: str, id_field: str | None, strict: bool) -> Record:
    """The record of one object."""
    source = parse_object(line, number)
    text = source.get(text_field)
    if not isinstance(text, str):
        said = "has no" if text_field not in source else "has no text in its"
        raise InputError(f"line {number} {said} field {text_field!r}", "name the field with --text-field")
    if id_field is not None and id_field not in source:
        raise InputError(f"line {number} has no field {id_field!r}", "name the field with --id-field")
    whole = without_surrogates(text, f"line {number}", strict=strict)
    return Record(whole, number=number, line=line, source=source)


def pass_over(error: InputError, skip: Skip | None) -> None:
    if skip is None:
        raise error
    skip(error)


def parse_object(line: str, number: int) -> dict[str, Any]:
    try:
        source = json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = (
            f"{error.msg}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
        )
        raise InputError(
            f"line {number} is not JSON: {reason}",
            "each line must be one JSON object; plain text needs no --jsonl",
        ) from error
    if not isinstance(source, dict):
        raise InputError(f"line {number} is not a JSON object", "plain text needs no --jsonl")
    return source


def decode(raw: bytes, where: str, *, strict: bool) -> str:
    """UTF-8; what is not becomes U+FFFD, or an ``InputError`` when ``strict``."""
    try:
        return raw.decode("utf-8", "strict" if strict else "replace")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{where} is not UTF-8: byte {error.start + 1} is 0x{raw[error.start]:02x}",
            "without --strict, such bytes are replaced by U+FFFD",
        ) from error


def without_surrogates(text: str, where: str, *, strict: bool) -> str:
    """JSON can escape half of a character (``\\ud83d``), which no tokenizer takes."""
    if strict and SURROGATES.search(text):
        raise InputError(f"{where} has an unpaired surrogate", "without --strict, it is replaced by U+FFFD")
    return SURROGATES.sub("\ufffd", text)


def argument_record(argument: str, position: int, *, strict: bool) -> Record:
    """A text from the command line: the bytes that were given, whatever the locale made of them."""
    return Record(decode(os.fsencode(argument), f"text {position}", strict=strict))
