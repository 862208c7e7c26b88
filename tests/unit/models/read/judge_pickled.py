"""Checkpoints of PyTorch, against PyTorch: what it writes is read, and what it reads is written."""

import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.support.torch_files import write_torch_file
from tests.unit.models.read.test_pickled import BIN

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.read.safetensors import open_tensors

pytestmark = pytest.mark.tools("python")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_numbers_are_those_of_torch(tmp_path: Path, dtype: Any) -> None:
    whole = torch.arange(24, dtype=dtype).reshape(4, 6) / 7
    said = {
        "a": whole,
        "rows": whole[1:3],
        "parameter": torch.nn.Parameter(whole[:1]),
        "one": torch.tensor(2.5, dtype=dtype),
        "positions": torch.arange(5),
        "epoch": 3,
    }
    torch.save(said, tmp_path / BIN)
    tensors = open_tensors(tmp_path / BIN)
    assert set(tensors.tensors) == set(said) - {"epoch"}
    for name in ("a", "rows", "parameter", "one"):
        expected: Any = said[name]
        np.testing.assert_array_equal(
            tensors.read(name, tuple(expected.shape)), expected.detach().float().numpy()
        )
    assert tensors.integers("positions").tolist() == [0, 1, 2, 3, 4]


class Runs:
    """Writes a file when it is unpickled."""

    def __init__(self, call: Callable[..., Any], *given: Any) -> None:
        self.call, self.given = call, given

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.call, self.given


@pytest.mark.parametrize(
    ("call", "given", "said"),
    [
        (os.mkdir, ("ran",), "mkdir"),
        (eval, ("open('ran', 'w')",), "eval"),
        (getattr, ({}, "items"), "getattr"),
        (torch.nn.Linear, (2, 2), "torch.nn.modules.linear.Linear"),
    ],
    ids=str,
)
def test_a_pickle_with_anything_else_is_refused_and_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Any, given: tuple[Any, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"a": torch.ones(2), "b": Runs(call, *given)}, tmp_path / BIN)
    with pytest.raises(UnsupportedModelError, match=said) as caught:
        open_tensors(tmp_path / BIN)
    assert "nothing of it was run" in caught.value.message
    assert caught.value.hint
    assert [path.name for path in tmp_path.iterdir()] == [BIN]


def test_what_is_no_such_archive_is_said(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(2)}, tmp_path / BIN, _use_new_zipfile_serialization=False)
    with pytest.raises(ModelError, match="since version"):
        open_tensors(tmp_path / BIN)
    torch.save({"a": torch.ones(3, 2).t()}, tmp_path / BIN)
    with pytest.raises(UnsupportedModelError, match="a is stored transposed"):
        open_tensors(tmp_path / BIN)
    with zipfile.ZipFile(tmp_path / BIN, "w") as archive:
        archive.writestr("x/data.pkl", pickle.dumps([1]))
    with pytest.raises(ModelError, match="cannot be read"):
        open_tensors(tmp_path / BIN)


def test_torch_reads_what_tests_write(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    kinds = ("float64", "float32", "float16")
    said = {kind: random.normal(size=(2, 3, 4)).astype(kind) for kind in kinds} | {"one": np.array(3)}
    write_torch_file(tmp_path / BIN, said)
    found = torch.load(tmp_path / BIN, weights_only=True)
    assert list(found) == list(said)
    for name, tensor in found.items():
        assert tensor.is_contiguous()
        np.testing.assert_array_equal(tensor.numpy(), said[name], strict=True)
