"""The binding to ONNX Runtime's C API, on the stock library."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from edgepack.models.ort import c_api as ort
from edgepack.runner.freeze.sample_bundle import DIMENSION, sample_model, stock_library


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model.onnx"
    path.write_bytes(sample_model())
    return path


@pytest.fixture(scope="module")
def ort_model(model: Path) -> Path:
    """The same model in ORT format, written by the stock package."""
    path = model.with_suffix(".ort")
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(path)
    options.add_session_config_entry("session.save_model_format", "ORT")
    onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return path


IDS = [[2, 4, 5, 3], [2, 6, 3, 0]]
MASK = [[1, 1, 1, 1], [1, 1, 1, 0]]


def by_package(model: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    feeds = {"input_ids": np.array(IDS), "attention_mask": np.array(MASK)}
    (vectors,) = session.run(None, feeds)
    return np.asarray(vectors)


def test_an_onnx_model_gives_what_the_package_gives(model: Path) -> None:
    with ort.Session(stock_library(), model) as session:
        vectors = session.run(IDS, MASK)
    assert [vector.typecode for vector in vectors] == ["f", "f"]
    assert np.array_equal(np.array(vectors), by_package(model))


def test_an_ort_model_gives_what_the_package_gives(model: Path, ort_model: Path) -> None:
    with ort.Session(stock_library(), ort_model, threads=2) as session:
        assert session.inputs == ("input_ids", "attention_mask")
        assert session.output_dimension == DIMENSION
        assert session.runtime_version == onnxruntime.__version__
        assert np.allclose(np.array(session.run(IDS, MASK)), by_package(model), atol=1e-6)


@pytest.mark.tools("python")
def test_it_runs_without_any_other_module(ort_model: Path) -> None:
    script = (
        f"import sys; sys.path.insert(0, {str(Path(ort.__file__).parent)!r}); import c_api\n"
        f"session = c_api.Session({str(stock_library())!r}, {str(ort_model)!r})\n"
        f"print(session.run({IDS}, {MASK})[0][0])\n"
        "print([name for name in ('numpy', 'edgepack', 'onnxruntime') if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], capture_output=True, encoding="utf-8", check=True
    )
    number, modules = done.stdout.splitlines()
    assert float(number) == pytest.approx(float(by_package(ort_model.with_suffix(".onnx"))[0][0]), abs=1e-6)
    assert modules == "[]"


def test_token_types_are_zeros_where_none_are_given(tmp_path: Path) -> None:
    from onnx import TensorProto, helper

    shape = ["batch", "sequence"]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, shape)
        for name in ("input_ids", "token_type_ids")
    ]
    nodes = [
        helper.make_node("Add", ["input_ids", "token_type_ids"], ["sum"]),
        helper.make_node("Cast", ["sum"], ["out"], to=TensorProto.FLOAT),
    ]
    output = helper.make_tensor_value_info("out", TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "types", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "types.onnx"
    path.write_bytes(model.SerializeToString())
    with ort.Session(stock_library(), path) as session:
        assert list(session.run([[5, 6]], [[1, 1]])[0]) == [5, 6]
        assert list(session.run([[5, 6]], [[1, 1]], [[1, 2]])[0]) == [6, 8]
        assert session.output_dimension is None


def test_int32_inputs_are_fed_as_such(tmp_path: Path) -> None:
    from onnx import TensorProto, helper

    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT32, ["batch", "sequence"])
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, ["batch", "sequence"])
    node = helper.make_node("Cast", ["input_ids"], ["out"], to=TensorProto.FLOAT)
    graph = helper.make_graph([node], "narrow", [ids], [out])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "narrow.onnx"
    path.write_bytes(model.SerializeToString())
    with ort.Session(stock_library(), path) as session:
        assert list(session.run([[-7, 70000]], [[1, 1]])[0]) == [-7, 70000]


def test_a_model_with_an_input_that_no_text_gives_is_refused(tmp_path: Path) -> None:
    from onnx import TensorProto, helper

    pixels = helper.make_tensor_value_info("pixels", TensorProto.INT64, ["batch", "sequence"])
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, ["batch", "sequence"])
    node = helper.make_node("Cast", ["pixels"], ["out"], to=TensorProto.FLOAT)
    model = helper.make_model(
        helper.make_graph([node], "pixels", [pixels], [out]),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    path = tmp_path / "pixels.onnx"
    path.write_bytes(model.SerializeToString())
    with ort.Session(stock_library(), path) as session, pytest.raises(ort.OrtError, match="pixels"):
        session.run([[1]], [[1]])


@pytest.mark.parametrize(
    ("ids", "mask"), [([], []), ([[]], [[]]), ([[1, 2], [1]], [[1, 1], [1]]), ([[1]], [[1], [1]])]
)
def test_a_batch_that_is_no_rectangle_is_refused(
    model: Path, ids: list[list[int]], mask: list[list[int]]
) -> None:
    with ort.Session(stock_library(), model) as session, pytest.raises(ort.OrtError):
        session.run(ids, mask)


def test_what_onnx_runtime_says_is_passed_on(tmp_path: Path, ort_model: Path) -> None:
    truncated = tmp_path / "truncated.ort"
    truncated.write_bytes(ort_model.read_bytes()[:500])
    with pytest.raises(ort.OrtError, match="verification failed"):
        ort.Session(stock_library(), truncated)


def test_an_id_outside_the_vocabulary_is_an_error_of_the_run(model: Path) -> None:
    with ort.Session(stock_library(), model) as session, pytest.raises(ort.OrtError, match="out of"):
        session.run([[10_000]], [[1]])


@pytest.mark.parametrize("content", [None, b""])
def test_a_missing_or_empty_model_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "absent.ort"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ort.OrtError, match=r"absent\.ort"):
        ort.Session(stock_library(), path)


def test_a_file_that_is_no_library_is_refused(model: Path) -> None:
    with pytest.raises(ort.OrtError, match="cannot load the library"):
        ort.Session(model, model)


def test_a_library_of_another_kind_is_refused(model: Path) -> None:
    with pytest.raises(ort.OrtError, match="OrtGetApiBase"):
        ort.Session("libm.so.6", model)


def test_a_closed_session_says_so(model: Path) -> None:
    session = ort.Session(stock_library(), model)
    session.close()
    session.close()
    with pytest.raises(ort.OrtError, match="closed"):
        session.run(IDS, MASK)


def test_closing_lets_go_of_the_mapped_model(ort_model: Path) -> None:
    def mapped() -> bool:
        return str(ort_model) in Path("/proc/self/maps").read_text()

    session = ort.Session(stock_library(), ort_model)
    assert mapped()
    session.close()
    assert not mapped()


def test_nobody_writes_to_the_mapped_model(ort_model: Path) -> None:
    session = ort.Session(stock_library(), ort_model)
    session.run(IDS, MASK)
    _, _, after = Path("/proc/self/smaps").read_text().partition(str(ort_model))
    figures = dict(line.split(":", 1) for line in after.splitlines()[1:20] if ":" in line)
    assert figures["Anonymous"].split() == ["0", "kB"]
    session.close()
