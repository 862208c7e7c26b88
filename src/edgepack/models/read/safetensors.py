"""Tensors out of a safetensors file without a framework: every floating-point type comes out as float32.

Not read by the safetensors package, which has no numpy type for bfloat16.
"""

import json
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.read.documents import read_object, require_content
from edgepack.models.read.pickled import AXES, LARGEST, tensor_places

Array = npt.NDArray[np.float32]

MAX_HEADER = 16_000_000
"""Bytes, of which Python makes some thirty times as many; a thousand tensors have 0.1 MB. The format's own library takes 100 MB."""

ITEM_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
_INTEGERS = {"I8": "<i1", "I16": "<i2", "I32": "<i4", "I64": "<i8"}

_DAMAGED = "the file is damaged or was not downloaded whole; fetch the model again"


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """Place of a tensor in its file, its type and its shape."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


@dataclass(frozen=True, kw_only=True)
class TensorFile:
    """An open safetensors file, or several that are one model's; tensors are read when they are asked for."""

    path: Path
    """The file; of several their index."""
    tensors: Mapping[str, Tensor]
    shards: Mapping[str, Path] = field(default_factory=dict)
    """Of several files: tensor → the one that it lies in."""

    @property
    def files(self) -> tuple[Path, ...]:
        """All files, the index among them."""
        return (self.path, *sorted(set(self.shards.values())))

    def read(self, name: str, shape: tuple[int, ...]) -> Array:
        """A tensor as float32, of the shape that the model's configuration asks for.

        Raises ``ModelError`` when it is missing, has another shape or holds values that are not finite, and
        ``UnsupportedModelError`` when it is of no floating-point type.
        """
        tensor = self.tensors.get(name)
        if tensor is None:
            raise missing_tensor(self.path, name)
        if tensor.shape != shape:
            raise ModelError(
                f"{self.path.name}: {name} has shape {list(tensor.shape)}, config.json requires {list(shape)}",
                hint="config.json and the weights are of different models",
            )
        array = _read(self.shards.get(name, self.path), tensor, name)
        if not np.isfinite(array).all():
            raise ModelError(
                f"{self.path.name}: {name} holds NaN or infinite values",
                hint="the model was damaged in training or conversion; get the weights again",
            )
        return array

    def integers(self, name: str) -> npt.NDArray[np.int64]:
        """A tensor of whole numbers, of the shape that it has. Raises ``ModelError`` for any other."""
        tensor = self.tensors[name]
        kind = _INTEGERS.get(tensor.dtype)
        if kind is None:
            raise ModelError(
                f"{self.path.name}: {name} is of type {tensor.dtype}, expected whole numbers", hint=_DAMAGED
            )
        raw = _bytes(self.shards.get(name, self.path), tensor, name, np.dtype(kind).itemsize)
        return np.frombuffer(raw, kind).astype(np.int64).reshape(tensor.shape)


def open_tensors(path: Path) -> TensorFile:
    """Read the header of a safetensors file, or of all that an index (``.json``) names; or a checkpoint of PyTorch (``.bin``, ``.pt``), in one file or several.

    The format: uint64 header length, JSON header, then the data that its ``data_offsets`` refer to, without gaps.
    Raises ``ModelError`` when a file is truncated, is none, or is not what the index says.
    """
    if path.suffix in (".bin", ".pt"):
        places = tensor_places(path).items()
        tensors = {
            name: Tensor(dtype=dtype, shape=shape, start=start, end=end)
            for name, (dtype, shape, start, end) in places
        }
        return TensorFile(path=path, tensors=tensors)
    return _open_shards(path) if path.suffix == ".json" else _open_file(path)


def shard_names(index: Path) -> list[str]:
    """The files, beside an index, that it names. Raises ``ModelError``."""
    return sorted(set(_weight_map(index).values()))


def _weight_map(index: Path) -> Mapping[str, str]:
    """Tensor → file."""
    said = read_object(index).get("weight_map")
    suffix = Path(index.name.removesuffix(".index.json")).suffix
    if (
        not isinstance(said, dict)
        or not said
        or not all(_is_shard_name(name, suffix) for name in said.values())
    ):
        raise ModelError(f"{index.name} does not say which tensor is in which {suffix} file", hint=_DAMAGED)
    return said


def _is_shard_name(name: object, suffix: str) -> bool:
    return isinstance(name, str) and "/" not in name and "\\" not in name and name.endswith(suffix)


def _open_shards(index: Path) -> TensorFile:
    places = _weight_map(index)
    tensors: dict[str, Tensor] = {}
    placed: dict[str, set[str]] = defaultdict(set)
    for tensor, place in places.items():
        placed[place].add(tensor)
    for name in shard_names(index):
        shard = index.with_name(name)
        if not shard.is_file():
            raise ModelError(
                f"{name}, which {index.name} names, is missing", hint="fetch the model again, whole"
            )
        own = open_tensors(shard).tensors
        if odd := sorted(own.keys() ^ placed[name]):
            holds = "holds" if odd[0] in own else "does not hold"
            raise ModelError(
                f"{name} {holds} {odd[0]}, against what {index.name} says",
                hint="the files are of different models; fetch them again, all from one place",
            )
        tensors |= own
    return TensorFile(
        path=index,
        tensors=tensors,
        shards={tensor: index.with_name(place) for tensor, place in places.items()},
    )


def _open_file(path: Path) -> TensorFile:
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
        tensors = {name: _tensor(entry, 8 + length) for name, entry in header.items()}
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{path.name} has a malformed header", hint=_DAMAGED) from error
    end = max((tensor.end for tensor in tensors.values()), default=8 + length)
    if size < end:
        raise _truncated(path, size, end)
    if size > end:
        raise ModelError(f"{path.name} has {size:,} bytes, its header states {end:,}", hint=_DAMAGED)
    return TensorFile(path=path, tensors=tensors)


def missing_tensor(path: Path, name: str) -> ModelError:
    """Error about weights that lack a tensor."""
    return ModelError(
        f"{path.name} has no tensor {name}",
        hint="the weights are of another architecture than config.json states",
    )


WORD_TABLES = ("embeddings.word_embeddings.weight", "embeddings.tok_embeddings.weight", "embed_tokens.weight")
"""Ends of the names that tables of word embeddings have."""


def embedding_table(file: TensorFile) -> tuple[int, ...] | None:
    """Shape [vocabulary, hidden] of the word embeddings, when there is a table with a usual name."""
    return next(
        (
            tensor.shape
            for name, tensor in file.tensors.items()
            if name.endswith(WORD_TABLES) and len(tensor.shape) == 2
        ),
        None,
    )


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


def _tensor(entry: Mapping[str, Any], data_start: int) -> Tensor:
    shape, (start, end) = tuple(entry["shape"]), entry["data_offsets"]
    if len(shape) > AXES or not all(
        type(each) is int and 0 <= each < LARGEST for each in (*shape, start, end)
    ):
        raise ValueError("no tensor")
    return Tensor(
        dtype=str(entry["dtype"]), shape=shape, start=start + data_start, end=max(start, end) + data_start
    )


def _read(path: Path, tensor: Tensor, name: str) -> Array:
    if tensor.dtype not in ITEM_BYTES:
        raise UnsupportedModelError(
            f"{path.name}: {name} is of type {tensor.dtype}; edgepack reads {', '.join(ITEM_BYTES)}",
            hint="use the model before quantization",
        )
    raw = _bytes(path, tensor, name, ITEM_BYTES[tensor.dtype])
    if tensor.dtype == "BF16":
        # bfloat16 is the upper half of a float32.
        widened = np.frombuffer(raw, "<u2").astype(np.uint32) << 16
        return widened.view(np.float32).reshape(tensor.shape)
    stored = np.frombuffer(raw, {"F64": "<f8", "F32": "<f4", "F16": "<f2"}[tensor.dtype])
    return stored.astype(np.float32, copy=False).reshape(tensor.shape)


def _bytes(path: Path, tensor: Tensor, name: str, item: int) -> bytes:
    """A tensor's bytes, as many as its shape asks for; or ``ModelError``."""
    with path.open("rb") as stream:
        stream.seek(tensor.start)
        raw = stream.read(tensor.end - tensor.start)
    if len(raw) != item * math.prod(tensor.shape):
        raise ModelError(
            f"{path.name}: {name} has a size that does not match its shape {list(tensor.shape)}",
            hint="the file is damaged; fetch the model again",
        )
    return raw
