"""Checkpoints of PyTorch, read without it and without running what they name."""

import random
import zipfile
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from tests.support.berts import expected_vectors, onnx_vectors, some_tokens, write_bert
from tests.support.bombs import archive, called, dictionary, text
from tests.support.installed import export_onnx, installed
from tests.support.tiny import write_json
from tests.support.torch_files import write_torch_file
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
    write_torch_file(folder / BIN, load_file(file))
    file.unlink()
    return folder / BIN


def test_a_model_that_has_nothing_else_is_exported(tmp_path: Path) -> None:
    source, model = write_bert(tmp_path / "model", hidden_act="gelu")
    as_bin(source.directory)
    found = read(source.directory)
    assert [file.path for file in found.files if "model" in file.path] == [BIN]
    tokens = some_tokens()
    vectors = onnx_vectors(export_onnx(found, tmp_path / "model.onnx"), tokens)
    np.testing.assert_allclose(vectors, expected_vectors(model, tokens, found.pooling), atol=1e-5, rtol=0)


def in_two_files(folder: Path) -> Path:
    """A folder's weights as transformers once saved large models; the second of the files."""
    file = folder / "model.safetensors"
    tensors = sorted(load_file(file).items())
    file.unlink()
    names = [f"pytorch_model-0000{number}-of-00002.bin" for number in (1, 2)]
    for name, part in zip(names, (tensors[::2], tensors[1::2]), strict=True):
        write_torch_file(folder / name, dict(part))
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
    np.testing.assert_allclose(vectors, expected_vectors(model, tokens, found.pooling), atol=1e-5, rtol=0)
    second.write_bytes(archive(dictionary(text("a"), called("__builtin__\nprint", text("never")))))
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
    layer = {"linear.weight": np.ones((8, 32), np.float32), "linear.bias": np.zeros(8, np.float32)}
    write_torch_file(dense / BIN, layer)
    found = read(folder)
    assert found.dimension == 8
    assert onnx_vectors(export_onnx(found, tmp_path / "model.onnx"), some_tokens()).shape == (4, 8)


def test_numbers_that_are_stored_otherwise_are_refused(tmp_path: Path) -> None:
    write_torch_file(tmp_path / BIN, {"a": np.ones(3, np.float32)})
    hooks = b"ccollections\nOrderedDict\n)R"
    for told, words in ((b"}X\x03\x00\x00\x00neg\x88s", "negated"), (b"}", "")):
        with zipfile.ZipFile(tmp_path / BIN) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        pickle = members[f"{Path(BIN).stem}/data.pkl"]
        with zipfile.ZipFile(tmp_path / "odd.bin", "w") as file:
            for name, each in members.items():
                file.writestr(name, pickle.replace(hooks, hooks + told) if each is pickle else each)
        if not words:
            assert set(open_tensors(tmp_path / "odd.bin").tensors) == {"a"}
        else:
            with pytest.raises(UnsupportedModelError, match=words):
                open_tensors(tmp_path / "odd.bin")


def test_a_file_of_the_other_order_of_bytes_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / BIN, "w") as file:
        file.writestr("m/data.pkl", b"\x80\x02}.")
        file.writestr("m/byteorder", "big")
    with pytest.raises(ModelError, match="not little-endian"):
        open_tensors(tmp_path / BIN)


def test_damaged_files_are_refused_or_read_within_the_file(tmp_path: Path) -> None:
    write_torch_file(tmp_path / BIN, {"a": np.ones((4, 3), np.float32), "b": np.zeros(5, np.float32)})
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
