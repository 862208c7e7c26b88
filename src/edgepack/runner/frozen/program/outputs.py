"""Sparse vectors, of models whose vectors have a number for each token of the vocabulary: JSON, or NumPy's arrays."""

from __future__ import annotations

import json
from array import array
from binascii import crc32

from ..base.errors import UsageError
from ..base.streams import is_terminal
from .embed import WINDOW_BATCHES, windows
from .load import load
from .score import dumped
from .write import Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from ..base.bundle import Bundle
    from .read import Record

    Weights = tuple[list[int], list[float]]

NO_TEXT = "pass texts, or lines on standard input"
ZIP_MOST = (1 << 32) - (1 << 16)


def give(options: Namespace, bundle: Bundle) -> int:
    """Write the sparse vectors of what the command line gives or names. Raises ``UsageError`` where that is nothing."""
    if not options.texts and not options.input and is_terminal(0):
        raise UsageError("no text", NO_TEXT)
    format = options.output_format or ("json" if options.texts else "jsonl")
    arrays = Arrays()
    before = b"[\n"
    with Output(options.output) as output:
        embedder = load(bundle, options)
        count = 0
        for records in windows(options, embedder.batch_size * WINDOW_BATCHES):
            # A vector has as many numbers as the vocabulary has tokens: no more of them at once than a batch.
            for start in range(0, len(records), embedder.batch_size):
                part = records[start : start + embedder.batch_size]
                for record, vector in zip(part, embedder.embed([one.text for one in part]), strict=True):
                    weights = weights_of(vector)
                    if format == "npz":
                        arrays.add(weights)
                    else:
                        line = f"{{{source_of(options, record)},{fields_of(weights)}}}".encode()
                        output.stream.write(before + line if format == "json" else line + b"\n")
                        before = b",\n"
            count += len(records)
            output.stream.flush()
        if not count:
            raise UsageError("no text: the input is empty, or every line was skipped", NO_TEXT)
        if format == "npz":
            output.stream.write(arrays.packed(bundle.dimension))
        elif format == "json":
            output.stream.write(b"\n]\n")
        embedder.finish()
    return 0


def weights_of(vector: Sequence[float]) -> Weights:
    """Ids of the tokens whose weights are above zero, rising, and these."""
    ids = [token for token, weight in enumerate(vector) if weight > 0]
    return ids, [vector[token] for token in ids]


def fields_of(weights: Weights) -> str:
    """``"sparse":{"indices":[…],"values":[…]}``; nine digits bring every float32 back exactly."""
    ids, numbers = (",".join(map(str, weights[0])), ",".join(f"{weight:.9g}" for weight in weights[1]))
    return f'"sparse":{{"indices":[{ids}],"values":[{numbers}]}}'


def source_of(options: Namespace, record: Record) -> str:
    """The text, or the field that names the record."""
    if options.id_field is not None and record.source is not None:
        return f"{dumped(options.id_field)}:{dumped(record.source[options.id_field])}"
    return f'"text":{json.dumps(record.text, ensure_ascii=False)}'


class Arrays:
    """Those that scipy.sparse.load_npz reads: a matrix of texts and tokens in compressed rows."""

    def __init__(self) -> None:
        self._indices, self._data, self._ends = array("i"), array("f"), array("q", [0])

    def add(self, weights: Weights) -> None:
        self._indices.extend(weights[0])
        self._data.extend(weights[1])
        self._ends.append(len(self._indices))

    def packed(self, vocabulary: int) -> bytes:
        """The file. Raises ``UsageError`` for more than it holds."""
        shape = array("q", [len(self._ends) - 1, vocabulary])
        members = [
            ("indices", "<i4", f"({len(self._indices)},)", self._indices.tobytes()),
            ("indptr", "<i8", f"({len(self._ends)},)", self._ends.tobytes()),
            ("format", "|S3", "()", b"csr"),
            ("shape", "<i8", "(2,)", shape.tobytes()),
            ("data", "<f4", f"({len(self._data)},)", self._data.tobytes()),
        ]
        if sum(len(content) for *_, content in members) > ZIP_MOST:
            raise UsageError("npz holds 4 GB at most", "use --out jsonl, or fewer texts at once")
        return zipped(
            [(f"{name}.npy".encode(), npy(kind, size, content)) for name, kind, size, content in members]
        )


def npy(descr: str, shape: str, content: bytes) -> bytes:
    """NumPy's format, version 1.0."""
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode("ascii") + content


def zipped(members: Sequence[tuple[bytes, bytes]]) -> bytes:
    """A zip of stored files from 1980-01-01, as scipy reads it; zipfile would have to be frozen in."""
    out, directory = bytearray(), bytearray()

    def number(value: int, size: int) -> bytes:
        return value.to_bytes(size, "little")

    for name, content in members:
        sizes = number(len(content), 4) * 2
        facts = number(20, 2) + bytes(4) + number(0x00210000, 4) + number(crc32(content), 4) + sizes
        facts += number(len(name), 2) + bytes(2)
        directory += b"PK\x01\x02" + number(20, 2) + facts + bytes(10) + number(len(out), 4) + name
        out += b"PK\x03\x04" + facts + name + content
    count, start = number(len(members), 2), len(out)
    end = b"PK\x05\x06" + bytes(4) + count * 2 + number(len(directory), 4) + number(start, 4) + bytes(2)
    return bytes(out + directory + end)
