"""Every kind of runtime, made and run with the real model: hundreds of files more to compile, so only with ``--kinds``."""

import json
from pathlib import Path

import onnx
import pytest
from onnx import helper
from tests.support.command import edgepack

from edgepack.models.ort.c_api import OrtError, Session

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(7200)]


@pytest.fixture(autouse=True)
def asked_for(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--kinds"):
        pytest.skip("only with --kinds")


@pytest.mark.parametrize(
    ("kind", "form", "limit"),
    [
        ("minimal", "ort", 1_000_000),
        ("minimal-extended", "ort-runtime-opt", 1_500_000),
        ("full", "onnx", 5_500_000),
    ],
)
def test_a_bundle_of_every_kind_is_right_and_small(kind: str, form: str, limit: int, tmp_path: Path) -> None:
    settings = ("--set", f"runtime={kind}", "--set", f"model.format={form}")
    done = edgepack("bundle", "-t", "linux-x86", "--offline", *settings, "-o", str(tmp_path), "--json")
    assert done.returncode == 0, done.stderr
    (bundle,) = (path for path in tmp_path.iterdir() if path.is_dir())
    manifest = json.loads((bundle / "manifest.json").read_text())
    assert manifest["runtime"]["kind"] == kind
    assert manifest["model"]["format"] == form
    assert (bundle / manifest["runtime"]["library"]).stat().st_size <= limit


def test_a_full_runtime_says_what_is_wrong_with_a_model(tmp_path: Path) -> None:
    """Errors in ONNX files are C++ exceptions: they have to find their way to the C API."""
    made = edgepack("runtime", "lib", "--kind", "full", "--offline", "-o", str(tmp_path / "full"))
    assert made.returncode == 0, made.stderr
    library = tmp_path / "full" / "lib" / "libonnxruntime.so"
    value = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 4])
    for operator, complaint in (("Conv", "Conv"), ("NoSuchOperator", "NoSuchOperator")):
        graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"])], "g", [value], [])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
        with pytest.raises(OrtError, match=complaint):
            Session(library, tmp_path / "model.onnx")
