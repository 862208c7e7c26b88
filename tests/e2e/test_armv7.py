"""32-bit ARM: programs for it, run under an emulator of a Cortex-A7."""

import json
import os
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.bundles import made_bundle
from tests.support.sample_program import complaint
from tests.support.static_models import write_with_words

from edgepack.errors import MissingToolError
from edgepack.files.elf import architecture, glibc_floor
from edgepack.foundry.proof.emulator import find_emulator
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.records.model import ModelSource

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.timeout(3600)]

Run = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture(scope="module")
def run(shared_context: HostContext) -> Run:
    """`edgepack fetch --target linux-armv7-min` brings the emulator."""
    try:
        emulator = find_emulator("armv7l", context=shared_context).command("cortex-a7")
    except MissingToolError as error:
        pytest.skip(error.message)

    def run(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run([*emulator, folder / "embed", *arguments], capture_output=True, check=False)

    return run


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory, minilm: ModelSource, run: Run) -> Bundle:
    folder = tmp_path_factory.mktemp("armv7")
    model = write_with_words(folder / "model", minilm.tokenizer)
    settings = ("--set", "platform.arch=armv7l", "--set", "serve=true")
    return made_bundle("linux-x86-static", folder / "out", "--model", str(model), *settings)


def rewritten(bundle: Bundle, folder: Path, change: Callable[[Path], None]) -> Path:
    """A copy with another table, whose size the manifest knows: what a stranger would send."""
    shutil.copytree(bundle.directory, folder)
    file = folder / "model" / Path(bundle.manifest["model"]["file"]).name
    change(file)
    manifest = json.loads((folder / "manifest.json").read_text())
    for entry in manifest["files"]:
        if entry["path"] == bundle.manifest["model"]["file"]:
            entry["size"] = file.stat().st_size
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def say_more_rows(file: Path) -> None:
    """As many numbers as 32 bits count as few: 2^26 rows of 16 numbers in fp32 are 2^32 bytes."""
    header = struct.Struct("<8sQ7I20x")
    fields = list(header.unpack(file.read_bytes()[: header.size]))
    fields[1:6] = [header.size, 4, 1 << 26, 16, 1 << 26]
    fields[7] = 0
    file.write_bytes(header.pack(*fields))


def make_large(file: Path) -> None:
    """A sparse file of 2^32 bytes more than it was."""
    os.truncate(file, file.stat().st_size + (1 << 32))


def test_a_table_and_its_server(table: Bundle, run: Run) -> None:
    assert architecture(table.program) == "armv7l"
    report = json.loads(Path(f"{table.directory}.report.json").read_text())
    assert report["verification"]["status"] == "passed"
    assert run(table.directory, "--self-test").returncode == 0
    done = run(table.directory, "serve", "--check", "--port", "0")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("change", "said"), [(say_more_rows, "is damaged"), (make_large, "File too large")])
def test_what_does_not_fit_into_32_bits_is_refused(
    table: Bundle, run: Run, tmp_path: Path, change: Callable[[Path], None], said: str
) -> None:
    done = run(rewritten(table, tmp_path / "bundle", change), "a cat")
    assert done.returncode == 4, done.stderr
    assert said in complaint(done)[0]


def test_numbers_that_32_bits_do_not_hold_are_refused(table: Bundle, run: Run) -> None:
    done = run(table.directory, "--batch-size", "4294967297", "a cat")
    assert done.returncode == 2
    assert "is not a number from 1 to 65535" in complaint(done)[0]


@pytest.mark.slow
def test_the_real_model_is_right_and_small(tmp_path: Path) -> None:
    """The first time it compiles ONNX Runtime: ten minutes on two cores."""
    bundle = made_bundle("linux-armv7-min", tmp_path)
    assert architecture(bundle.program) == "armv7l"
    assert glibc_floor(bundle.program) <= "2.28"  # type: ignore[operator]
    report = json.loads(Path(f"{bundle.directory}.report.json").read_text())
    assert report["verification"]["status"] == "passed"
    assert report["verification"]["mean_cosine"] >= 0.9965
    assert [proof["level"] for proof in report["proofs"] if proof["proved"]] == ["neon"]
    assert bundle.program.stat().st_size <= 800_000
