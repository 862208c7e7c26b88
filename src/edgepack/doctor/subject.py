"""What is examined: something that makes vectors of texts. Files here; programs and servers beside."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tokenize import TokenError
from typing import Any, Protocol

import numpy as np

from edgepack.doctor.halves import Vectors
from edgepack.errors import SubjectError, reason_of

LARGEST_FILE = 4 << 30
"""Bytes."""


class Subject(Protocol):
    """Makes vectors of texts."""

    @property
    def at_once(self) -> int:
        """Texts that it is given at once."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """float32 [texts, dimension], in the texts' order; raises ``SubjectError``, ``Refused`` for too long a text."""


class Refused(SubjectError):  # noqa: N818 - as the server says it
    """The subject does not want these texts."""


class OutOfTime(SubjectError):  # noqa: N818 - nobody's fault
    """The time for all questions is over."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"after {seconds:g} s doctor stopped asking",
            hint="give a slow server more time with --timeout SECONDS",
        )


@dataclass(frozen=True, kw_only=True)
class Deadline:
    """The time for all questions together."""

    seconds: float = 120.0
    started: float = field(default_factory=time.monotonic)

    def left(self) -> float:
        """Seconds, more than 0; raises ``OutOfTime``."""
        left = self.started + self.seconds - time.monotonic()
        if left <= 0:
            raise OutOfTime(self.seconds)
        return left


def as_vectors(rows: Any, count: int, whose: str) -> Vectors:
    """Rows of numbers as float32 [count, dimension]; raises ``SubjectError`` in words of ``whose`` they are."""
    if len(rows) != count:
        raise SubjectError(
            f"{whose} gave {len(rows)} vectors for {count} texts",
            hint="expected one vector per text, in order",
        )
    lengths = sorted({len(row) if isinstance(row, list | np.ndarray) else -1 for row in rows})
    if len(lengths) != 1 or lengths[0] < 1:
        if -1 in lengths:
            what = "something that is no list of numbers"
        else:
            what = f"vectors of {' and of '.join(map(str, lengths[:3]))} numbers"
        raise SubjectError(
            f"{whose} gave {what}", hint="expected one vector per text, all of the same dimension"
        )
    try:
        if isinstance(rows, np.ndarray) and rows.dtype.kind not in "fiu":
            raise TypeError(f"dtype {rows.dtype}")
        vectors = np.asarray(rows, dtype=np.float32)
    except (TypeError, ValueError, OverflowError) as error:
        raise SubjectError(
            f"{whose} gave something that is not numbers: {error}",
            hint="expected a list of float32 numbers",
        ) from error
    if vectors.ndim != 2:
        raise SubjectError(
            f"{whose} gave a matrix for a text, not a vector",
            hint="these are token vectors; the server must pool them",
        )
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        raise SubjectError(
            f"{whose} gave NaN or infinite numbers for {len(bad)} of {count} texts",
            hint="half precision may overflow: serve the model in float32 or bfloat16",
        )
    if not np.abs(vectors).sum(axis=1).all():
        raise SubjectError(f"{whose} gave a vector of zeros", hint="the server's log may say why")
    return vectors


def read_vectors(path: Path, texts: Path | None) -> tuple[tuple[str, ...], Vectors]:
    """Texts and their vectors: a .npy file and a file of its texts, or JSON lines that hold both."""
    said = read_texts(texts) if texts is not None else None
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise SubjectError(f"{path.name} is larger than {LARGEST_FILE >> 30} GiB")
        if path.suffix == ".npy":
            rows: Any = np.load(path, allow_pickle=False)
        else:
            lines = [
                json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()
            ]
            rows = [embedding_of(line) for line in lines]
            if said is None:
                said = [text_of(line, path) for line in lines]
    except (OSError, ValueError, RecursionError, MemoryError, TokenError) as error:
        raise SubjectError(
            f"{path.name} cannot be read: {reason_of(error)}",
            hint="--vectors takes a .npy file of numbers [texts, dimension], or JSON lines with `text` and `embedding`",
        ) from error
    if said is None:
        raise SubjectError(f"the texts for {path.name} are missing", hint="name the file with --texts FILE")
    if isinstance(rows, np.ndarray) and rows.ndim != 2:
        raise SubjectError(
            f"{path.name} holds an array of shape {list(rows.shape)}", hint="expected [texts, dimension]"
        )
    if len(rows) != len(said):
        raise SubjectError(
            f"{path.name} holds {len(rows)} vectors, and there are {len(said)} texts",
            hint="row N is the vector of line N; an empty line is a text",
        )
    if not said:
        raise SubjectError(f"{path.name} holds no vectors")
    return tuple(said), as_vectors(rows, len(said), path.name)


def read_texts(path: Path) -> list[str]:
    """Texts out of a file: JSON lines, a JSON list, or one a line."""
    try:
        content = path.read_text(encoding="utf-8")
        if path.suffix == ".json":
            listed = json.loads(content)
            return [text_of(each, path) for each in listed]
        lines = content.removesuffix("\n").split("\n")
        if path.suffix == ".jsonl":
            return [text_of(json.loads(line), path) for line in lines if line.strip()]
        return [line.removesuffix("\r") for line in lines]
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise SubjectError(
            f"{path.name} cannot be read: {reason_of(error)}",
            hint="--texts takes one text per line, JSON lines with `text` (.jsonl) or a list (.json)",
        ) from error


def text_of(entry: Any, path: Path) -> str:
    """The text of an entry: a string, or an object's ``text``."""
    text = entry.get("text") if isinstance(entry, dict) else entry
    if not isinstance(text, str):
        raise SubjectError(
            f"{path.name} has an entry without `text`", hint='an entry is {"text": …} or a string'
        )
    return text


def embedding_of(entry: Any) -> Any:
    """The vector of an entry: a list, or an object's ``embedding``."""
    return entry.get("embedding") if isinstance(entry, dict) else entry
