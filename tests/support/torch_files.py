"""Checkpoints as ``torch.save`` writes them, without PyTorch; ``judge_pickled.py`` reads them with it."""

import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

STORAGES = {"float64": "Double", "float32": "Float", "float16": "Half", "int64": "Long"}


def write_torch_file(path: Path, tensors: Mapping[str, npt.NDArray[Any]]) -> None:
    """A file of these tensors by their names."""
    with zipfile.ZipFile(path, "w") as file:
        name = path.stem
        items = b"".join(
            _text(key) + _tensor(each, str(at)) for at, (key, each) in enumerate(tensors.items())
        )
        file.writestr(f"{name}/data.pkl", b"\x80\x02}(" + items + b"u.")
        file.writestr(f"{name}/byteorder", "little")
        for at, each in enumerate(tensors.values()):
            file.writestr(f"{name}/data/{at}", np.ascontiguousarray(each).tobytes())
        file.writestr(f"{name}/version", "3\n")


def _text(word: str) -> bytes:
    return b"X" + struct.pack("<I", len(word.encode())) + word.encode()


def _number(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def _tensor(values: npt.NDArray[Any], key: str) -> bytes:
    """A call of ``_rebuild_tensor_v2`` with a storage, where it begins there, sizes, steps, no gradient and no hooks."""
    kind = f"ctorch\n{STORAGES[str(values.dtype)]}Storage\n".encode()
    storage = b"(" + _text("storage") + kind + _text(key) + _text("cpu") + _number(values.size) + b"tQ"
    steps = np.cumprod([1, *values.shape[:0:-1]])[::-1].tolist() if values.ndim else []
    sizes = (b"(" + b"".join(map(_number, each)) + b"t" for each in (values.shape, steps))
    hooks = b"ccollections\nOrderedDict\n)R"
    return (
        b"ctorch._utils\n_rebuild_tensor_v2\n("
        + storage
        + _number(0)
        + b"".join(sizes)
        + b"\x89"
        + hooks
        + b"tR"
    )
