"""The report that lies beside a bundle, read as a stranger's file is, and whose word it is."""

import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgepack.files.store import Store
from edgepack.pipeline import report_file_of
from edgepack.recorded.whose_word import word_of_report
from edgepack.records.word import Word
from edgepack.signing.keys import PublicKey

MOST = 16 << 20
"""Bytes that a report may have; edgepack's own have some thousands."""
LARGEST = 2**53
"""Above any number in a report, and exact as a float."""


@dataclass(frozen=True, kw_only=True)
class Record:
    """The report that lies beside a bundle."""

    said_by: Word
    content: Mapping[str, Any]


def record_beside(directory: Path, *, key: PublicKey | None = None, store: Store) -> Record | None:
    """The report beside a bundle's folder; ``None`` where there is none, or nothing that can be read.

    Raises ``SignatureError`` where it has a signature that is not one of ``key``.
    """
    file = report_file_of(directory)
    try:
        text = _read_file(file)
        content = json.loads(text, parse_float=_number, parse_int=_whole, parse_constant=_number)
        said_by = word_of_report(
            file,
            bundle=_digest(content["digest"]),
            sha256=hashlib.sha256(text).hexdigest(),
            key=key,
            store=store,
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return Record(said_by=said_by, content=content)


def _read_file(file: Path) -> bytes:
    """A file that is one, and not too large: who sends a bundle may put anything beside it."""
    # A pipe would be waited for.
    with os.fdopen(os.open(file, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as stream:
        about = os.fstat(stream.fileno())
        if not stat.S_ISREG(about.st_mode) or about.st_size > MOST:
            raise ValueError(f"{file} is no report")
        return stream.read(MOST + 1)


def _digest(said: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{64}", said):
        raise ValueError(f"{said[:64]!r} is no digest")
    return said


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no figure")
    return number


def _whole(text: str) -> int:
    number = int(text)
    if abs(number) > LARGEST:
        raise ValueError(f"{text[:20]} is no figure")
    return number
