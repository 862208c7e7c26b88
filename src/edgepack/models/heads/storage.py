"""Tensors inside a pickle of another library: PyTorch writes each one's numbers as a file of its own older form, as bytes."""

import pickle
from collections.abc import Mapping
from io import BytesIO
from math import prod
from typing import Any

import numpy as np

STORAGES: Mapping[str, str] = {"DoubleStorage": "<f8", "FloatStorage": "<f4", "HalfStorage": "<f2"}
"""Classes of torch → NumPy's types."""
MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
"""What such a file begins with."""
_COUNT = 8
"""Bytes of how many numbers follow."""


def storage_of(content: Any) -> np.ndarray:
    """The numbers of ``torch.storage._load_from_bytes(content)``; [count]. Raises ``ValueError`` or what damaged bytes lead to."""
    if not isinstance(content, bytes):
        raise ValueError("no bytes")
    stream = BytesIO(content)
    magic, protocol, _system, said, keys = (_Unpickler(stream).load() for _ in range(5))
    if (magic, protocol) != (MAGIC, PROTOCOL):
        raise ValueError("no file of PyTorch")
    kind, key, count = said
    if keys != [key] or type(count) is not int or int.from_bytes(stream.read(_COUNT), "little") != count:
        raise ValueError("another number of numbers")
    return np.frombuffer(stream.read(), kind, count)


def tensor_of(storage: Any, offset: Any, shape: Any, strides: Any, *_rest: Any) -> np.ndarray:
    """As ``torch._utils._rebuild_tensor_v2``, of numbers that lie in a row. Raises ``ValueError``."""
    numbers = (offset, *shape, *strides)
    if not isinstance(storage, np.ndarray) or not all(type(each) is int and each >= 0 for each in numbers):
        raise ValueError("no tensor")
    in_a_row = tuple(prod(shape[at + 1 :]) for at in range(len(shape)))
    if tuple(strides) != in_a_row or offset + prod(shape) > storage.size:
        raise ValueError("a tensor that is a part of another")
    return storage[offset : offset + prod(shape)].reshape(shape)


def parameter_of(tensor: Any, *_rest: Any) -> Any:
    """As ``torch._utils._rebuild_parameter``."""
    return tensor


class _Unpickler(pickle._Unpickler):
    """Of what describes one storage; any other name is refused."""

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name in STORAGES:
            return STORAGES[name]
        raise ValueError(f"{module}.{name}")

    def persistent_load(self, pid: Any) -> tuple[str, str, int]:
        what, kind, key, _place, count, *_view = pid
        if what != "storage" or kind not in STORAGES.values():
            raise ValueError("no storage")
        return kind, key, count
