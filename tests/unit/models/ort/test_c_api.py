"""The binding to ONNX Runtime's C API, on the stock library."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from edgepack.models.ort.c_api import Named, OrtError, Session
from edgepack.runner.freeze.sample_bundle import sample_model, stock_library


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


FEED = {
    "input_ids": np.array([[2, 4, 5, 3], [2, 6, 3, 0]]),
    "attention_mask": np.array([[1, 1, 1, 1], [1, 1, 1, 0]]),
}
OUTPUT = "sentence_embedding"


@pytest.mark.parametrize("form", ["onnx", "bytes", "ort"])
def test_a_model_gives_what_the_package_gives(model: Path, ort_model: Path, form: str) -> None:
    theirs = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    forms: dict[str, Path | bytes] = {"onnx": model, "bytes": model.read_bytes(), "ort": ort_model}
    session = Session(stock_library(), forms[form], threads=2)
    assert session.runtime_version == onnxruntime.__version__
    assert session.get_inputs() == [Named("input_ids", np.int64), Named("attention_mask", np.int64)]
    (vectors,) = session.run([OUTPUT], FEED)
    assert np.allclose(vectors, theirs.run([OUTPUT], FEED)[0], atol=1e-6)


def test_what_is_no_tensor_has_no_type(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info("x", TensorProto.INT32, ["n"])
    output = helper.make_tensor_sequence_value_info("y", TensorProto.INT32, None)
    graph = helper.make_graph([helper.make_node("SequenceConstruct", ["x"], ["y"])], "g", [value], [output])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = Session(stock_library(), made.SerializeToString())
    assert session.get_inputs() == [Named("x", np.int32)] and session.get_outputs() == [Named("y")]


def test_what_onnx_runtime_says_is_passed_on(tmp_path: Path, ort_model: Path) -> None:
    truncated = tmp_path / "truncated.ort"
    truncated.write_bytes(ort_model.read_bytes()[:500])
    with pytest.raises(OrtError, match="verification failed"):
        Session(stock_library(), truncated)


def test_an_id_outside_the_vocabulary_is_an_error_of_the_run(model: Path) -> None:
    with pytest.raises(OrtError, match="out of"):
        Session(stock_library(), model).run([OUTPUT], {**FEED, "input_ids": FEED["input_ids"] + 10_000})


def test_a_file_that_is_no_library_is_refused(model: Path) -> None:
    with pytest.raises(OrtError, match="cannot load the library"):
        Session(model, model)


def test_a_library_of_another_kind_is_refused(model: Path) -> None:
    with pytest.raises(OrtError, match="OrtGetApiBase"):
        Session("libm.so.6", model)
