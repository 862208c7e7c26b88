"""Bundles of static embeddings: a table, a tokenizer and a program without ONNX Runtime, run as a device runs them."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.support.bundles import made_bundle
from tests.support.command import edgepack
from tests.support.static_models import table, write_with_words

from edgepack.records.bundle import Bundle
from edgepack.records.model import ModelSource

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(1800),
    pytest.mark.builds("a table in place of a graph: a program of its own, made in seconds"),
]

LARGEST_PROGRAM = 250_000

UNKNOWN = "\U0001f701"
"""No token of BERT's vocabulary."""


def static_bundle(folder: Path, model: Path, *options: str) -> Bundle:
    return made_bundle("linux-x86-static", folder, "--model", str(model), *options)


@pytest.fixture(scope="module")
def static(tmp_path_factory: pytest.TempPathFactory, minilm: ModelSource) -> Bundle:
    folder = tmp_path_factory.mktemp("static")
    return static_bundle(folder / "out", write_with_words(folder / "model", minilm.tokenizer))


def said(bundle: Bundle, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [bundle.program, *arguments], input=text, capture_output=True, text=True, check=False, env={}
    )


def vectors(bundle: Bundle, *texts: str) -> list[list[float]]:
    done = said(bundle, "--out", "json", *texts)
    assert done.returncode == 0, done.stderr
    return [row["embedding"] for row in json.loads(done.stdout)]


def test_it_is_small_verified_and_has_no_runtime(static: Bundle) -> None:
    report = json.loads(static.directory.with_name(f"{static.directory.name}.report.json").read_text())
    assert report["verification"]["status"] == "passed"
    assert report["verification"]["mean_cosine"] >= 0.9999
    assert report["verification"]["same_tokens"] >= 4200
    assert static.manifest["runtime"] is None
    assert static.program.stat().st_size <= LARGEST_PROGRAM
    names = {path.name for path in (static.directory / "LICENSES").iterdir()}
    assert not [name for name in names if "onnxruntime" in name]


def test_it_has_the_command_line_of_every_bundle(static: Bundle) -> None:
    info = said(static, "--info")
    assert "none: the mean of a table's rows" in info.stdout, info.stderr
    assert said(static, "--info", "--json").returncode == 0
    assert "self-test passed" in said(static, "--self-test").stdout
    assert "texts/s in batches" in said(static, "--bench").stdout
    lines = said(
        static, "--jsonl", "--out", "jsonl", text='{"text": "hello", "id": 7}\n{"text": ""}\n'
    ).stdout
    first, second = (json.loads(line) for line in lines.splitlines())
    assert first["id"] == 7
    assert len(first["embedding"]) == len(second["embedding"]) == 16
    assert said(static, "--dim", "4", "hello").returncode == 2


def test_texts_of_nothing_known_and_of_nothing(static: Bundle) -> None:
    unknown, beside, hello, empty = vectors(static, UNKNOWN, f"{UNKNOWN} hello", "hello", "")
    assert beside == hello
    assert unknown != hello
    for vector in (unknown, hello, empty):
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


def test_a_damaged_table_is_named(static: Bundle, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(static.directory, tmp_path / "copy"))
    model = copy / str(static.manifest["model"]["file"])
    content = model.read_bytes()
    for damaged in (
        b"EDGETAB2" + content[8:],
        content[:-1],
        content[:20] + b"\xff\xff\xff\x7f" + content[24:],
    ):
        model.write_bytes(damaged)
        done = subprocess.run([copy / "embed", "hello"], capture_output=True, text=True, check=False, env={})
        assert done.returncode == 4, done.stderr
        assert "model.bin is damaged" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("form", ["fp32", "int8"])
def test_other_forms_of_a_table_with_fewer_rows_than_tokens(
    tmp_path: Path, minilm: ModelSource, form: str
) -> None:
    random = np.random.default_rng(8)
    model = write_with_words(
        tmp_path / "model",
        minilm.tokenizer,
        embeddings=np.rint(table(70_000, width=16) * 40).astype(np.int8),
        mapping=random.integers(0, 70_000, 30_522),
        weights=random.uniform(0.2, 1, 30_522).astype(np.float32),
    )
    made = static_bundle(tmp_path / "out", model, "--recipe", form)
    assert made.manifest["model"]["source_precision"] == "int8"
    assert made.manifest["model"]["precision"] == form


def test_a_transformer_is_refused_in_words(tmp_path: Path) -> None:
    done = edgepack("bundle", "-t", "linux-x86-static", "-o", str(tmp_path), "--offline")
    assert done.returncode != 0
    assert "is not a static model" in done.stderr
