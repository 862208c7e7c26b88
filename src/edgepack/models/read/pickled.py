"""PyTorch's checkpoints (``pytorch_model.bin``) without PyTorch, and without running anything that a pickle names.

Since PyTorch 1.6 such a file is a zip archive: a pickle that says which tensors there are, and the numbers of each as a member
that is not compressed. A pickle may call any function of any module; this reader knows the few that rebuild tensors, in forms of
its own that only write down where the numbers lie, and refuses all others.
"""

import pickle
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from edgepack.errors import EdgepackError, ModelError, UnsupportedModelError
from edgepack.models.read.documents import require_content

LARGEST_PICKLE = 50_000_000
"""Bytes of names and shapes; those of a model with a thousand tensors are 100 kB."""
STORAGES = {
    "DoubleStorage": ("F64", 8),
    "FloatStorage": ("F32", 4),
    "HalfStorage": ("F16", 2),
    "BFloat16Storage": ("BF16", 2),
    "LongStorage": ("I64", 8),
    "IntStorage": ("I32", 4),
    "ShortStorage": ("I16", 2),
    "CharStorage": ("I8", 1),
    "ByteStorage": ("U8", 1),
    "BoolStorage": ("BOOL", 1),
}
"""Classes of torch → safetensors' name of the type, bytes of a number."""
WRAPPED = ("state_dict", "model_state_dict")
"""What training code keeps the tensors under, beside other things."""
_DAMAGED = "the file is damaged or was not downloaded whole; fetch the model again"
_CONVERT = "load and save the model once with a current transformers, which writes model.safetensors"
_ZIP = b"PK\x03\x04"
_LOCAL_HEADER = struct.Struct("<26xHH")

Place = tuple[str, tuple[int, ...], int, int]
"""Type, shape, and where the numbers begin and end in the file."""


class _ForeignNameError(Exception):
    """A name that is not one of those that rebuild tensors."""


@dataclass(frozen=True)
class _Storage:
    kind: tuple[str, int]
    key: str


@dataclass(frozen=True)
class _Tensor:
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def tensor_places(path: Path) -> Mapping[str, Place]:
    """Where each tensor of a checkpoint lies. Raises ``ModelError`` and ``UnsupportedModelError``."""
    require_content(path)
    try:
        return _places(path)
    except _ForeignNameError as error:
        raise UnsupportedModelError(
            f"{path.name} names {error}, which is no tensor; nothing of it was run",
            hint=f"do not load it with anything else unless you trust it; if you do: {_CONVERT}",
        ) from error
    except EdgepackError:
        raise
    except Exception as error:  # a damaged pickle or archive raises what its bytes lead to
        raise ModelError(f"{path.name} cannot be read: {type(error).__name__}", hint=_DAMAGED) from error


def _places(path: Path) -> Mapping[str, Place]:
    with path.open("rb") as stream:
        if stream.read(len(_ZIP)) != _ZIP:
            raise ModelError(
                f"{path.name} is no zip archive, as PyTorch writes checkpoints since version 1.6",
                hint=f"it is damaged, or older: {_CONVERT}",
            )
        with zipfile.ZipFile(stream) as archive:
            members = {info.filename: info for info in archive.infolist()}
            named = next((name for name in members if name.endswith("data.pkl")), None)
            if named is None or members[named].file_size > LARGEST_PICKLE:
                raise ModelError(f"{path.name} has no list of tensors", hint=_DAMAGED)
            tensors = _tensors(archive.read(named))

        def begin(info: zipfile.ZipInfo) -> int:
            stream.seek(info.header_offset)
            name, extra = _LOCAL_HEADER.unpack(stream.read(_LOCAL_HEADER.size))
            return info.header_offset + _LOCAL_HEADER.size + int(name) + int(extra)

        folder = named.removesuffix("data.pkl")
        return {
            name: _place(path, name, tensor, members.get(f"{folder}data/{tensor.storage.key}"), begin)
            for name, tensor in tensors.items()
        }


def _tensors(content: bytes) -> Mapping[str, _Tensor]:
    """The tensors that a pickle lists, by name."""
    document = _Unpickler(BytesIO(content)).load()
    for key in WRAPPED:
        if isinstance(document, dict) and isinstance(document.get(key), dict):
            document = document[key]
    if not isinstance(document, dict):
        raise TypeError("no dictionary")
    # Not the object's own method, which a pickle may have covered.
    return {name: tensor for name, tensor in dict.items(document) if isinstance(tensor, _Tensor)}


class _Unpickler(pickle._Unpickler):
    """Python's own, which keeps its memo in a dictionary; the one in C makes room for the highest number that a pickle says."""

    def find_class(self, module: str, name: str) -> Any:
        known: dict[tuple[str, str], Callable[..., Any]] = {
            ("collections", "OrderedDict"): OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2"): _rebuilt,
            ("torch._utils", "_rebuild_parameter"): _parameter,
        }
        if module == "torch" and name in STORAGES:
            return STORAGES[name]
        if (module, name) not in known:
            raise _ForeignNameError(f"{module}.{name}")
        return known[module, name]

    def persistent_load(self, pid: Any) -> _Storage:
        what, kind, key = pid[:3]
        if what != "storage" or kind not in STORAGES.values() or not isinstance(key, str):
            raise TypeError("no storage")
        return _Storage(kind, key)


def _rebuilt(
    storage: _Storage, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_rest: Any
) -> _Tensor:
    numbers = (offset, *shape, *strides)
    if not isinstance(storage, _Storage) or not all(type(each) is int and each >= 0 for each in numbers):
        raise TypeError("no tensor")
    return _Tensor(storage, offset, tuple(shape), tuple(strides))


def _parameter(tensor: Any, *_rest: Any) -> Any:
    return tensor


def _place(
    path: Path,
    name: str,
    tensor: _Tensor,
    member: zipfile.ZipInfo | None,
    begin: Callable[[zipfile.ZipInfo], int],
) -> Place:
    """Of one tensor; its numbers must lie in a row and whole in their member."""
    dtype, item = tensor.storage.kind
    count = 1
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.strides), strict=True):
        if size > 1 and stride != count:
            raise UnsupportedModelError(f"{path.name}: {name} is stored transposed", hint=_CONVERT)
        count *= size
    first = tensor.offset * item
    if (
        member is None
        or member.compress_type != zipfile.ZIP_STORED
        or first + count * item > member.file_size
    ):
        raise ModelError(f"{path.name}: the numbers of {name} are not all there", hint=_DAMAGED)
    start = begin(member) + first
    if start + count * item > path.stat().st_size:
        raise ModelError(f"{path.name}: the numbers of {name} are not all there", hint=_DAMAGED)
    return dtype, tensor.shape, start, start + count * item
