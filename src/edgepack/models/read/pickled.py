"""PyTorch's checkpoints (``pytorch_model.bin``) without PyTorch, and without running anything that a pickle names.

Since PyTorch 1.6 such a file is a zip archive: a pickle that says which tensors there are, and the numbers of each as a member
that is not compressed.
"""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.pickles.machine import PLACE
from edgepack.models.pickles.unpickled import DAMAGED, ForeignNameError, Name, RebuiltObject, read_pickle
from edgepack.models.read.documents import require_content

STORAGES = {
    "torch.DoubleStorage": ("F64", 8),
    "torch.FloatStorage": ("F32", 4),
    "torch.HalfStorage": ("F16", 2),
    "torch.BFloat16Storage": ("BF16", 2),
    "torch.LongStorage": ("I64", 8),
    "torch.IntStorage": ("I32", 4),
    "torch.ShortStorage": ("I16", 2),
    "torch.CharStorage": ("I8", 1),
    "torch.ByteStorage": ("U8", 1),
    "torch.BoolStorage": ("BOOL", 1),
}
"""Classes of torch → safetensors' name of the type, bytes of a number."""
TENSOR, PARAMETER = "torch._utils._rebuild_tensor_v2", "torch._utils._rebuild_parameter"
NAMES = ("collections.OrderedDict", TENSOR, PARAMETER, *STORAGES)
WRAPPED = ("state_dict", "model_state_dict")
"""What training code keeps the tensors under, beside other things."""
AXES, LARGEST = 32, 1 << 62
"""Of a tensor, and numbers in it or before it: more are no tensor's, and would take long to multiply."""
_CONVERT = "load and save the model once with a current transformers, which writes model.safetensors"
_ZIP = b"PK\x03\x04"

Place = tuple[str, tuple[int, ...], int, int]
"""Type, shape, and where the numbers begin and end in the file."""


class _OddTensorError(Exception):
    """A tensor whose numbers are others than those that are stored."""


def tensor_places(path: Path) -> Mapping[str, Place]:
    """Places of a checkpoint's tensors in its file. Raises ``ModelError`` and ``UnsupportedModelError``."""
    require_content(path)
    file = path.stat()
    return _places(path, file.st_size, file.st_mtime_ns, file.st_ino)


@lru_cache(maxsize=64)
def _places(path: Path, size: int, _changed: int, _number: int) -> Mapping[str, Place]:
    """Places in one state of a file: a build asks some ten times, and each time is a program's start."""
    with path.open("rb") as stream:
        if stream.read(len(_ZIP)) != _ZIP:
            raise ModelError(
                f"{path.name} is no zip archive, as PyTorch writes checkpoints since version 1.6",
                hint=f"it is damaged, or older: {_CONVERT}",
            )
    try:
        read = read_pickle(path, NAMES, archive=True)
    except ForeignNameError as error:
        raise UnsupportedModelError(
            f"{path.name} names {error}, which is no tensor; nothing of it was run",
            hint=f"do not load it with anything else unless you trust it; if you do: {_CONVERT}",
        ) from error
    document = read.document
    for key in WRAPPED:
        if isinstance(document, dict) and isinstance(document.get(key), dict):
            document = document[key]
    if not isinstance(document, dict):
        raise ModelError(f"{path.name} cannot be read: it has no list of tensors", hint=DAMAGED)
    return {
        str(name): _place(path, str(name), made, read.members, size)
        for name, made in document.items()
        if isinstance(made, RebuiltObject) and made.name in (TENSOR, PARAMETER)
    }


def _place(
    path: Path, name: str, made: RebuiltObject, members: Mapping[str, tuple[int, int]], file_size: int
) -> Place:
    """Place of one tensor; its numbers must lie in a row and whole in their member."""
    try:
        kind, key, offset, shape, strides = _tensor(made)
    except _OddTensorError as error:
        raise UnsupportedModelError(
            f"{path.name}: {name} is stored negated or conjugated", hint=_CONVERT
        ) from error
    except (ValueError, TypeError) as error:
        raise ModelError(f"{path.name}: {name} is no tensor", hint=DAMAGED) from error
    dtype, item = STORAGES[kind]
    count = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size > 1 and stride != count:
            raise UnsupportedModelError(f"{path.name}: {name} is stored transposed", hint=_CONVERT)
        count *= size
    start, length = members.get(key, (0, -1))
    first, end = start + offset * item, start + (offset + count) * item
    if end > min(start + length, file_size):
        raise ModelError(f"{path.name}: the numbers of {name} are not all there", hint=DAMAGED)
    return dtype, shape, first, end


def _tensor(made: RebuiltObject) -> tuple[str, str, int, tuple[int, ...], tuple[int, ...]]:
    """Class and key of the numbers' place, where they begin in it, shape and strides. Raises ``ValueError`` or ``TypeError``."""
    if made.name == PARAMETER:
        made, *_rest = made.arguments
    if not isinstance(made, RebuiltObject) or made.name != TENSOR:
        raise ValueError("no tensor")
    place, offset, shape, strides, *rest = made.arguments
    if any(rest[2:]):
        raise _OddTensorError
    if not isinstance(place, RebuiltObject) or place.name != PLACE:
        raise TypeError("no place")
    _storage, kind, key, *_rest = place.arguments
    if not isinstance(kind, Name) or kind.name not in STORAGES or not isinstance(key, str):
        raise TypeError("no place")
    if len(_sizes(shape)) != len(_sizes(strides)):
        raise ValueError("no shape")
    return kind.name, key, _size(offset), shape, strides


def _sizes(said: Any) -> tuple[int, ...]:
    if not isinstance(said, tuple) or len(said) > AXES:
        raise TypeError("no shape")
    return tuple(_size(each) for each in said)


def _size(said: Any) -> int:
    if type(said) is not int or not 0 <= said < LARGEST:
        raise ValueError("no size")
    return said
