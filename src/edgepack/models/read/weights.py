"""The headers of weight files: are they whole, and what shapes do they hold?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgepack.errors import ModelError
from edgepack.models.read.documents import require_content

MAX_HEADER = 100_000_000
"""Bytes; the limit that the format's own library sets."""

_DAMAGED = "the file is damaged or was not downloaded whole; fetch the model again"


def safetensors_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """The shape of each tensor. Raises ``ModelError`` when the file is truncated or is none.

    The format: uint64 header length, JSON header, then the data that its ``data_offsets`` refer to, without gaps.
    """
    require_content(path)
    size = path.stat().st_size
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if size < 8 or length > MAX_HEADER:
            raise ModelError(f"{path.name} is not a safetensors file", hint=_DAMAGED)
        if size < 8 + length:
            raise _truncated(path, size, 8 + length)
        header = _parse(path, stream.read(length))
    try:
        shapes = {name: tuple(map(int, tensor["shape"])) for name, tensor in header.items()}
        end = 8 + length + max((int(tensor["data_offsets"][1]) for tensor in header.values()), default=0)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise ModelError(f"{path.name} has a malformed header", hint=_DAMAGED) from error
    if size < end:
        raise _truncated(path, size, end)
    if size > end:
        raise ModelError(f"{path.name} has {size:,} bytes, its header speaks of {end:,}", hint=_DAMAGED)
    return shapes


def _parse(path: Path, header: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(header)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path.name} is not a safetensors file", hint=_DAMAGED) from error
    if not isinstance(document, dict):
        raise ModelError(f"{path.name} is not a safetensors file", hint=_DAMAGED)
    document.pop("__metadata__", None)
    return document


def _truncated(path: Path, size: int, expected: int) -> ModelError:
    return ModelError(f"{path.name} is truncated: {size:,} of {expected:,} bytes are there", hint=_DAMAGED)


def embedding_table(shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...] | None:
    """Shape [vocabulary, hidden] of the word embeddings, when there is a table with the family's usual name."""
    for name, shape in shapes.items():
        if name.endswith("embeddings.word_embeddings.weight") and len(shape) == 2:
            return shape
    return None
