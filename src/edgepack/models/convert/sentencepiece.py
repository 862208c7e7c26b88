"""SentencePiece's ``.model`` files, read without its library: pieces, what kind of model they are for, and the map of characters.

A protocol buffer (https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto), of which a few fields count.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edgepack.errors import ModelError
from edgepack.models.read.documents import read_bytes

UNIGRAM, BPE = 1, 2
CONTROL, USER_DEFINED = 3, 4
_PIECE, _TRAINER, _NORMALIZER = 1, 2, 3
_TEXT, _SCORE, _TYPE = 1, 2, 3
_MODEL_TYPE, _UNK_ID, _CHARSMAP = 3, 40, 2
_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5

Value = int | bytes


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A token and its score; ``kind`` is one of ``CONTROL`` and ``USER_DEFINED``, or another number."""

    text: str
    score: float
    kind: int


@dataclass(frozen=True, kw_only=True)
class SentencePieceModel:
    """Content of a SentencePiece model file."""

    pieces: tuple[Piece, ...]
    kind: int
    """``UNIGRAM``, ``BPE`` or another."""
    unknown: int
    charsmap: bytes


def read_sentencepiece(path: Path) -> SentencePieceModel:
    """Raises ``ModelError`` for a file that is none."""
    content = read_bytes(path)
    try:
        found = _read(content)
    except (IndexError, ValueError, TypeError, struct.error) as error:
        raise ModelError(
            f"{path.name} is not a model of SentencePiece", hint="it may be damaged; fetch it again"
        ) from error
    if not found.pieces:
        raise ModelError(f"{path.name} has no pieces", hint="it is damaged, or no model of SentencePiece")
    return found


def _read(content: bytes) -> SentencePieceModel:
    pieces: list[Piece] = []
    trainer: dict[int, Value] = {}
    normalizer: dict[int, Value] = {}
    for number, value in _fields(content):
        if number == _PIECE:
            pieces.append(_piece(dict(_fields(_message(value)))))
        elif number == _TRAINER:
            trainer = dict(_fields(_message(value)))
        elif number == _NORMALIZER:
            normalizer = dict(_fields(_message(value)))
    return SentencePieceModel(
        pieces=tuple(pieces),
        kind=_number(trainer.get(_MODEL_TYPE, UNIGRAM)),
        unknown=_number(trainer.get(_UNK_ID, 0)),
        charsmap=_message(normalizer.get(_CHARSMAP, b"")),
    )


def _piece(fields: dict[int, Value]) -> Piece:
    (score,) = struct.unpack("<f", _message(fields.get(_SCORE, bytes(4))))
    return Piece(
        text=_message(fields.get(_TEXT, b"")).decode(), score=score, kind=_number(fields.get(_TYPE, 1))
    )


def _message(value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError("a number in place of bytes")
    return value


def _number(value: Value) -> int:
    if not isinstance(value, int):
        raise TypeError("bytes in place of a number")
    return value


def _fields(content: bytes) -> Iterator[tuple[int, Value]]:
    """Number and value of each field; a float is its four bytes."""
    at = 0
    while at < len(content):
        key, at = _varint(content, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(content, at)
            yield key >> 3, value
            continue
        if kind == _BYTES:
            size, at = _varint(content, at)
        elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
            size = 8 if kind == _EIGHT_BYTES else 4
        else:
            raise ValueError("a field of no known kind")
        if at + size > len(content):
            raise ValueError("the file ends within a field")
        yield key >> 3, content[at : at + size]
        at += size


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """A number, seven bits a byte, and where it ends."""
    value = shift = 0
    while True:
        byte = content[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number without an end")
