"""Checkpoints of PyTorch, read without it and without running what they name."""

import os
import pickle
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tests.support.berts import onnx_vectors, some_tokens, torch_vectors, write_bert
from tests.support.installed import export_onnx, installed
from tests.support.tiny import write_json
from tests.support.unpickling import read_in_this_process

from edgepack.errors import EdgepackError, ModelError, UnsupportedModelError
from edgepack.models.find.source import ingest
from edgepack.models.read.safetensors import open_tensors
from edgepack.records.model import ModelSource

pytestmark = pytest.mark.tools("python")
BIN = "pytorch_model.bin"


def read(folder: Path) -> ModelSource:
    with installed() as context:
        return ingest(str(folder), context=context)


def as_bin(folder: Path) -> Path:
    """A folder's weights as its only file of weights."""
    file = folder / "model.safetensors"
    torch.save(load_file(file), folder / BIN)
    file.unlink()
    return folder / BIN


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


def test_a_model_that_has_nothing_else_is_exported(tmp_path: Path) -> None:
    source, model = write_bert(tmp_path / "model", hidden_act="gelu")
    as_bin(source.directory)
    found = read(source.directory)
    assert [file.path for file in found.files if "model" in file.path] == [BIN]
    tokens = some_tokens()
    vectors = onnx_vectors(export_onnx(found, tmp_path / "model.onnx"), tokens)
    np.testing.assert_allclose(vectors, torch_vectors(model, tokens, found.pooling), atol=1e-5, rtol=0)


def in_two_files(folder: Path) -> Path:
    """A folder's weights as transformers once saved large models; the second of the files."""
    file = folder / "model.safetensors"
    tensors = sorted(load_file(file).items())
    file.unlink()
    names = [f"pytorch_model-0000{number}-of-00002.bin" for number in (1, 2)]
    for name, part in zip(names, (tensors[::2], tensors[1::2]), strict=True):
        torch.save(dict(part), folder / name)
    places = {tensor: names[at % 2] for at, (tensor, _) in enumerate(tensors)}
    write_json(folder / f"{BIN}.index.json", {"weight_map": places})
    return folder / names[1]


def test_several_files_are_one_model_s(tmp_path: Path) -> None:
    source, model = write_bert(tmp_path / "model", hidden_act="gelu")
    second = in_two_files(source.directory)
    found = read(source.directory)
    assert len([file for file in found.files if file.path.startswith("pytorch_model")]) == 3
    tokens = some_tokens()
    vectors = onnx_vectors(export_onnx(found, tmp_path / "model.onnx"), tokens)
    np.testing.assert_allclose(vectors, torch_vectors(model, tokens, found.pooling), atol=1e-5, rtol=0)
    torch.save({"a": Runs(print, "never")}, second)
    with pytest.raises(UnsupportedModelError, match="nothing of it was run"):
        read(source.directory)
    second.unlink()
    with pytest.raises(ModelError, match=r"which pytorch_model\.bin\.index\.json names, is missing"):
        read(source.directory)


def test_a_dense_module_of_that_form_is_taken(tmp_path: Path) -> None:
    source, _ = write_bert(tmp_path / "model")
    folder, dense = source.directory, source.directory / "2_Dense"
    kinds = {"": "Transformer", "1_Pooling": "Pooling", "2_Dense": "Dense"}
    write_json(
        folder / "modules.json",
        [
            {"idx": n, "path": path, "type": f"sentence_transformers.models.{kind}"}
            for n, (path, kind) in enumerate(kinds.items())
        ],
    )
    write_json(folder / "1_Pooling" / "config.json", {"pooling_mode_mean_tokens": True})
    write_json(dense / "config.json", {"in_features": 32, "out_features": 8})
    torch.save({"linear.weight": torch.ones(8, 32), "linear.bias": torch.zeros(8)}, dense / BIN)
    found = read(folder)
    assert found.dimension == 8
    assert onnx_vectors(export_onnx(found, tmp_path / "model.onnx"), some_tokens()).shape == (4, 8)


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


def test_damaged_files_are_refused_or_read_within_the_file(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(4, 3), "b": torch.zeros(5)}, tmp_path / BIN)
    content = (tmp_path / BIN).read_bytes()
    chance = random.Random(7)
    for number in range(300):
        changed = bytearray(content)
        for _ in range(4):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        (tmp_path / f"{number}.bin").write_bytes(changed)
        try:
            with read_in_this_process():
                found = open_tensors(tmp_path / f"{number}.bin").tensors
        except EdgepackError:
            continue
        assert all(0 <= each.start <= each.end <= len(changed) for each in found.values())
