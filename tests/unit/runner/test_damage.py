"""A bundle that arrived broken: each missing or damaged file is named, with an exit code of its own."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.sample_program import complaint, library_of, run_program, tokenizer_of

from .test_program import replace

pytestmark = pytest.mark.tools("c++", "python")

FILES: Mapping[str, Callable[[Path], str]] = {
    "model": lambda folder: "model/model.onnx",
    "tokenizer": tokenizer_of,
    "library": library_of,
}


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(copy: Path, name: str) -> None:
    name = FILES[name](copy)
    (copy / name).unlink()
    done = run_program(copy, "a cat")
    assert done.returncode == 4
    assert f"{name} is missing" in complaint(done)[0]


@pytest.mark.parametrize("name", FILES)
def test_a_file_cut_short_is_named(copy: Path, name: str) -> None:
    name = FILES[name](copy)
    (copy / name).unlink()
    (copy / name).write_bytes(b"short")
    done = run_program(copy, "a cat")
    assert done.returncode == 4
    assert f"{name} is damaged: 5 bytes" in complaint(done)[0]


def test_a_model_that_is_none_is_said_to_be_so(copy: Path) -> None:
    replace(copy, "model/model.onnx", b"not a model")
    done = run_program(copy, "a cat")
    assert done.returncode == 5
    assert "the model does not load" in complaint(done)[0]
    assert "--self-test" in complaint(done)[1]


def test_a_library_that_is_none_is_said_to_be_so(copy: Path) -> None:
    name = library_of(copy)
    (copy / name).unlink()
    replace(copy, name, b"not a library")
    done = run_program(copy, "a cat")
    assert done.returncode == 5
    assert name in complaint(done)[0]


def test_a_tokenizer_that_is_none_is_named(copy: Path) -> None:
    replace(copy, tokenizer_of(copy), b'{"version": "1.0"}')
    done = run_program(copy, "a cat")
    assert done.returncode == 4
    assert f"{tokenizer_of(copy)} is damaged" in complaint(done)[0]


def test_a_missing_manifest_is_named(copy: Path) -> None:
    (copy / "manifest.json").unlink()
    done = run_program(copy, "--version")
    assert done.returncode == 4
    assert "manifest.json" in complaint(done)[0]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is damaged"),
        (b"\xff\xfe", "is damaged"),
        (b"[]", "schema None"),
        (b'{"schema": 99}', "schema 99"),
    ],
)
def test_a_manifest_that_is_none_is_said_to_be_so(copy: Path, content: bytes, words: str) -> None:
    (copy / "manifest.json").write_bytes(content)
    done = run_program(copy, "a cat")
    assert done.returncode == 4
    assert words in complaint(done)[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda manifest: manifest.pop("model"), "model.file"),
        (lambda manifest: manifest["model"].pop("dimension"), "model.dimension"),
        (lambda manifest: manifest.pop("files"), "files"),
        (lambda manifest: manifest["model"].update(file="model/other.ort"), "model/other.ort"),
        (lambda manifest: manifest["model"].update(dimension="many"), "manifest.json"),
        (lambda manifest: manifest.update(files=[7]), "manifest.json"),
    ],
)
def test_what_a_manifest_lacks_is_named(
    copy: Path, change: Callable[[dict[str, Any]], object], words: str
) -> None:
    manifest = json.loads((copy / "manifest.json").read_text())
    change(manifest)
    (copy / "manifest.json").write_text(json.dumps(manifest))
    done = run_program(copy, "a cat")
    assert done.returncode == 4
    assert words in complaint(done)[0]


def test_info_of_a_manifest_that_lacks_something(copy: Path) -> None:
    manifest = json.loads((copy / "manifest.json").read_text())
    del manifest["model"]["pooling"]
    (copy / "manifest.json").write_text(json.dumps(manifest))
    done = run_program(copy, "--info")
    assert done.returncode == 4
    assert "pooling" in complaint(done)[0]


def test_a_model_of_another_width_is_refused(copy: Path) -> None:
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["model"]["dimension"] = 9
    (copy / "manifest.json").write_text(json.dumps(manifest))
    done = run_program(copy, "a cat")
    assert done.returncode == 5
    assert "8 dimensions, the manifest says 9" in complaint(done)[0]
