"""The report that lies beside a bundle, read as a stranger's file is, and whose word it is."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgepack.building.outcome import MOST, report_file_of
from edgepack.files.store import Store
from edgepack.recorded.whose_word import word_of_report
from edgepack.records.word import Word
from edgepack.signing.keys import PublicKey
from edgepack.toml_schema import parse_foreign, read_foreign


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
        text = read_foreign(file, most=MOST)
        content = parse_foreign(text)
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


def _digest(said: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{64}", said):
        raise ValueError(f"{said[:64]!r} is no digest")
    return said
