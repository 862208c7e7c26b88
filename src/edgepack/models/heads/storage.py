"""Tensors inside a pickle of another library: PyTorch writes each one's numbers as a file of its own older form, as bytes."""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from edgepack.models.pickles.unpickled import Name, RebuiltObject

STORAGES: Mapping[str, str] = {
    "torch.DoubleStorage": "<f8",
    "torch.FloatStorage": "<f4",
    "torch.HalfStorage": "<f2",
}
"""Classes of torch → NumPy's types."""
MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
"""What such a file begins with."""
AXES = 8
"""Of a tensor, at most."""
_COUNT = 8
"""Bytes of how many numbers follow."""


def storage_of(parts: Any) -> np.ndarray:
    """The numbers of ``torch.storage._load_from_bytes``, of the five pickles in the bytes and what follows them; [count]. Raises ``ValueError`` or ``TypeError``."""
    magic, protocol, _system, said, keys, content = parts
    if (magic, protocol) != (MAGIC, PROTOCOL):
        raise ValueError("no file of PyTorch")
    if not isinstance(said, RebuiltObject):
        raise ValueError("no storage")
    what, kind, key, _place, count, *_view = said.arguments
    if what != "storage" or not isinstance(kind, Name) or kind.name not in STORAGES or type(key) is not str:
        raise ValueError("no storage")
    if keys != [key] or type(count) is not int or int.from_bytes(content[:_COUNT], "little") != count:
        raise ValueError("another number of numbers")
    return np.frombuffer(content[_COUNT:], STORAGES[kind.name], count)


def tensor_of(storage: Any, offset: Any, shape: Any, strides: Any, *_rest: Any) -> np.ndarray:
    """Tensor as of ``torch._utils._rebuild_tensor_v2``, of numbers that lie in a row. Raises ``ValueError``."""
    if not isinstance(storage, np.ndarray) or not isinstance(shape, tuple) or len(shape) > AXES:
        raise ValueError("no tensor")
    if not all(type(each) is int and each >= 0 for each in (offset, *shape)):
        raise ValueError("no tensor")
    in_a_row = tuple(prod(shape[at + 1 :]) for at in range(len(shape)))
    if strides != in_a_row or offset + prod(shape) > storage.size:
        raise ValueError("a tensor that is a part of another")
    return storage[offset : offset + prod(shape)].reshape(shape)


def parameter_of(tensor: Any, *_rest: Any) -> Any:
    """Parameter as of ``torch._utils._rebuild_parameter``."""
    return tensor
