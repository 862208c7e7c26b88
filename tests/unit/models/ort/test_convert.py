"""ORT format: the same vectors, and the same bytes in every process."""

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.support.berts import onnx_vectors, some_tokens, write_bert
from tests.support.installed import export_onnx

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.fuse.fusion import fuse
from edgepack.models.ort.canonical import canonical_ort, read_kernels
from edgepack.models.ort.convert import convert_to_ort


@pytest.fixture
def model(tmp_path: Path) -> onnx.ModelProto:
    source, _ = write_bert(tmp_path / "model")
    return onnx.load(export_onnx(source, tmp_path / "model.onnx"))


@pytest.mark.parametrize("level", ["none", "basic", "extended", "all"])
def test_vectors_survive_the_conversion(tmp_path: Path, model: onnx.ModelProto, level: str) -> None:
    file = convert_to_ort(model, tmp_path / "model.ort", level=level)  # type: ignore[arg-type]
    assert file.read_bytes()[4:8] == b"ORTM"
    tokens = some_tokens()
    expected = onnx_vectors(model.SerializeToString(), tokens)
    np.testing.assert_allclose(onnx_vectors(file, tokens), expected, atol=1e-5)


def test_optimizations_can_be_saved_for_the_device(tmp_path: Path, model: onnx.ModelProto) -> None:
    fixed = convert_to_ort(model, tmp_path / "fixed.ort")
    saved = convert_to_ort(model, tmp_path / "saved.ort", runtime_optimizations=True)
    assert fixed.read_bytes() != saved.read_bytes()
    tokens = some_tokens()
    np.testing.assert_allclose(onnx_vectors(saved, tokens), onnx_vectors(fixed, tokens), atol=1e-5)


@pytest.mark.slow
@pytest.mark.tools("python")
def test_every_process_writes_the_same_bytes(tmp_path: Path, model: onnx.ModelProto) -> None:
    """The converter's hash maps are in another order in each process; five of them never agreed by chance."""
    code = (
        "import onnx, pathlib, sys\n"
        "from edgepack.models.fuse.fusion import fuse\n"
        "from edgepack.models.ort.convert import convert_to_ort\n"
        "convert_to_ort(fuse(onnx.load(sys.argv[1]), print), pathlib.Path(sys.argv[2]))"
    )
    digests = set()
    for number in range(5):
        file = tmp_path / f"folder{number}" / "model.ort"
        subprocess.run([sys.executable, "-c", code, str(tmp_path / "model.onnx"), str(file)], check=True)
        digests.add(hashlib.sha256(file.read_bytes()).hexdigest())
    assert len(digests) == 1


def test_settling_the_layout_keeps_what_the_file_says(
    tmp_path: Path, model: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edgepack.models.ort import convert

    monkeypatch.setattr(convert, "make_canonical", lambda path: None)
    unsettled = convert_to_ort(fuse(model, print), tmp_path / "model.ort").read_bytes()
    settled = canonical_ort(unsettled)
    assert read_kernels(settled) == read_kernels(unsettled)
    assert list(read_kernels(settled)) == sorted(read_kernels(unsettled))
    assert ":MatMul:13" in read_kernels(settled)
    assert canonical_ort(settled) == settled
    assert settled.endswith(unsettled[-1_000:])
    (tmp_path / "settled.ort").write_bytes(settled)
    tokens = some_tokens()
    np.testing.assert_array_equal(
        onnx_vectors(tmp_path / "settled.ort", tokens), onnx_vectors(tmp_path / "model.ort", tokens)
    )


def test_something_else_than_an_ort_file_is_not_settled() -> None:
    with pytest.raises(ModelError):
        canonical_ort(b"something else than an ORT file")


def test_a_model_that_cannot_be_converted_leaves_nothing_behind(tmp_path: Path) -> None:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])]
    graph = helper.make_graph([helper.make_node("Frobnicate", ["x"], ["y"])], "g", inputs, outputs)
    bad = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(UnsupportedModelError, match="Frobnicate"):
        convert_to_ort(bad, tmp_path / "out" / "model.ort")
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.tools("python", may=("unshare",))
def test_a_full_disk_is_called_one(tmp_path: Path, model: onnx.ModelProto) -> None:
    """ONNX Runtime itself says only that it failed to save the file. Tried on a real disk of 64 kB."""
    code = (
        "import onnx, pathlib, sys\n"
        "from edgepack.errors import DiskFullError\n"
        "from edgepack.models.ort.convert import convert_to_ort\n"
        "folder = pathlib.Path(sys.argv[2])\n"
        "try:\n    convert_to_ort(onnx.load(sys.argv[1]), folder / 'model.ort')\n"
        "except DiskFullError as error:\n    print(error.message, list(folder.iterdir()))"
    )
    folder = tmp_path / "small"
    folder.mkdir()
    script = f'mount -t tmpfs -o size=64k tmpfs {folder} && exec "$@"'
    command = ["unshare", "--mount", "--map-root-user", "sh", "-c", script, "sh", sys.executable, "-c", code]
    done = subprocess.run(
        [*command, str(tmp_path / "model.onnx"), str(folder)], capture_output=True, text=True, check=False
    )
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(f"no small disk can be made here: {done.stderr.strip()}")
    assert done.stdout.startswith("no space left on the disk"), done.stderr
    assert done.stdout.strip().endswith("[]")
