"""The engine for every device that programs are made for: bundles of a small model, run by emulators and by wine, with the same bits."""

import json
from pathlib import Path

import pytest
from tests.support.bundles import made_bundle
from tests.support.small_models import write_small_bert

from edgepack.records.bundle import Bundle

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.timeout(3600)]
LARGEST = {
    "linux-arm64-fast": 346_000,
    "linux-armv7-fast": 208_000,
    "linux-riscv64-fast": 245_000,
    "windows-x64-fast": 500_000,
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_bert(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Bundle:
    return made_bundle("linux-x86-fast", tmp_path_factory.mktemp("here"), "--model", str(model))


@pytest.mark.parametrize("target", LARGEST)
def test_it_is_verified_and_has_the_same_bits(target: str, tmp_path: Path, model: Path, here: Bundle) -> None:
    made = made_bundle(target, tmp_path, "--model", str(model))
    report = json.loads(Path(f"{made.directory}.report.json").read_text())
    assert report["verification"]["status"] == "passed"
    assert made.manifest["runtime"] is None
    assert made.manifest["model"]["vectors_sha256"] == here.manifest["model"]["vectors_sha256"]
    assert made.manifest["model"]["embedder"] == here.manifest["model"]["embedder"]
    assert made.program.stat().st_size <= LARGEST[target]
