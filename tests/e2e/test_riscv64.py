"""Linux on riscv64: programs for it, run under an emulator of a SiFive U54."""

import json
import subprocess
from pathlib import Path

import pytest
from tests.support.bundles import made_bundle
from tests.support.static_models import write_with_words

from edgepack.errors import MissingToolError
from edgepack.files.elf import architecture
from edgepack.foundry.proof.emulator import find_emulator
from edgepack.plugins.context import HostContext
from edgepack.records.model import ModelSource

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.timeout(3600)]


@pytest.fixture
def emulator(shared_context: HostContext) -> list[str | Path]:
    """`edgepack fetch --target linux-riscv64-min` brings it."""
    try:
        return find_emulator("riscv64", context=shared_context).command("sifive-u54")
    except MissingToolError as error:
        pytest.skip(error.message)


def test_a_table_and_its_server(tmp_path: Path, minilm: ModelSource, emulator: list[str | Path]) -> None:
    model = write_with_words(tmp_path / "model", minilm.tokenizer)
    settings = ("--set", "platform.arch=riscv64", "--set", "serve=true")
    bundle = made_bundle("linux-x86-static", tmp_path / "out", "--model", str(model), *settings)
    assert architecture(bundle.program) == "riscv64"
    report = json.loads(Path(f"{bundle.directory}.report.json").read_text())
    assert report["verification"]["status"] == "passed"
    for words in (["--self-test"], ["serve", "--check", "--port", "0"]):
        done = subprocess.run([*emulator, bundle.program, *words], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_real_model_is_right_and_small(tmp_path: Path) -> None:
    """The first time it compiles ONNX Runtime: ten minutes on two cores."""
    bundle = made_bundle("linux-riscv64-min", tmp_path)
    assert architecture(bundle.program) == "riscv64"
    report = json.loads(Path(f"{bundle.directory}.report.json").read_text())
    assert report["verification"]["status"] == "passed"
    assert report["verification"]["mean_cosine"] >= 0.9965
    assert [proof["level"] for proof in report["proofs"] if proof["proved"]] == ["rv64gc"]
