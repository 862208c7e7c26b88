"""The table as it ships: a header, the vectors in fewer bits, and which row a token has. ``csrc/session.cc`` maps and reads it."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgepack.api import UnsupportedModelError
from edgepack.models.read.static import StaticTable

FORMS = ("fp16", "fp32", "int8")
"""What a number of the table is; the first unless something else is asked for."""
NORMALIZE, MAPPED, SCALED_TOKENS, SCALED_ROWS = 1, 2, 4, 8
NONE = 0xFFFFFFFF
_MAGIC = b"EDGETAB1"
_HEADER = struct.Struct("<8sQ7I20x")
_ALIGNMENT = 64
_WIDEST = float(np.finfo(np.float16).max)


def write_table(table: StaticTable, form: str, *, normalize: bool, destination: Path) -> None:
    """Write a table, its numbers as ``form`` says, one of ``FORMS``. Raises ``UnsupportedModelError`` for what fp16 does not hold."""
    vectors, row_scales = in_form(table.vectors, form)
    narrow = len(table.vectors) <= 1 << 16
    rows = None if table.rows is None else table.rows.astype("<u2" if narrow else "<u4")
    parts = [vectors, row_scales, rows, table.scales]
    flags = NORMALIZE * normalize
    for flag, part in ((SCALED_ROWS, row_scales), (MAPPED, rows), (SCALED_TOKENS, table.scales)):
        flags |= flag * (part is not None)
    content = b"".join(_padded(part) for part in parts if part is not None)
    header = _HEADER.pack(
        _MAGIC,
        _HEADER.size + len(content),
        vectors.dtype.itemsize,
        *vectors.shape,
        table.tokens,
        NONE if table.unknown is None else table.unknown,
        flags,
        0 if rows is None else rows.dtype.itemsize,
    )
    destination.write_bytes(header + content)


def require_form(vectors: npt.NDArray[np.float32], form: str) -> None:
    """Raise ``UnsupportedModelError`` for numbers that a form does not hold."""
    if form == "fp16" and (largest := float(np.abs(vectors).max(initial=0))) > _WIDEST:
        raise UnsupportedModelError(
            f"the table has numbers up to {largest:g}, which fp16 does not hold",
            hint="--recipe fp32, or --recipe int8",
        )


def in_form(
    vectors: npt.NDArray[np.float32], form: str
) -> tuple[npt.NDArray[Any], npt.NDArray[np.float32] | None]:
    """The rows in a form, and what each is multiplied by: int8 rows are 127ths of their largest number."""
    if form == "fp32":
        return vectors.astype("<f4"), None
    if form == "fp16":
        require_form(vectors, form)
        return vectors.astype("<f2"), None
    if np.array_equal(vectors, np.clip(np.rint(vectors), -128, 127)):
        return vectors.astype("i1"), None  # quantized so already, and exact
    scales = np.abs(vectors).max(axis=1, keepdims=True) / np.float32(127)
    codes = np.rint(vectors / np.where(scales > 0, scales, 1))
    return codes.astype("i1"), scales[:, 0].astype("<f4")


def _padded(part: npt.NDArray[Any]) -> bytes:
    raw = np.ascontiguousarray(part).tobytes()
    return raw + bytes(-len(raw) % _ALIGNMENT)


def sources() -> Iterator[tuple[str, str]]:
    """File name → text of the C++ that reads it."""
    for path in sorted((Path(__file__).parent / "csrc").iterdir()):
        yield path.name, path.read_text(encoding="utf-8")
