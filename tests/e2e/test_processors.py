"""Linux on other processors: programs for them, run under an emulator of a Cortex-A7 (32-bit ARM) and of a SiFive U54 (riscv64)."""

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


def emulated(arch: str, processor: str, context: HostContext) -> Run:
    """`edgepack fetch` of a processor's target brings its emulator."""
    try:
        emulator = find_emulator(arch, context=context).command(processor)
    except MissingToolError as error:
        pytest.skip(error.message)

    def run(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run([*emulator, folder / "embed", *arguments], capture_output=True, check=False)

    return run


def table_for(arch: str, folder: Path, minilm: ModelSource) -> Bundle:
    model = write_with_words(folder / "model", minilm.tokenizer)
    settings = ("--set", f"platform.arch={arch}", "--set", "serve=true")
    return made_bundle("linux-x86-static", folder / "out", "--model", str(model), *settings)


@pytest.fixture(scope="module")
def run(shared_context: HostContext) -> Run:
    return emulated("armv7l", "cortex-a7", shared_context)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory, minilm: ModelSource, run: Run) -> Bundle:
    return table_for("armv7l", tmp_path_factory.mktemp("armv7"), minilm)


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


def require_right(table: Bundle, run: Run, arch: str) -> None:
    assert architecture(table.program) == arch
    report = json.loads(Path(f"{table.directory}.report.json").read_text())
    assert report["verification"]["status"] == "passed"
    for words in (["--self-test"], ["serve", "--check", "--port", "0"]):
        done = run(table.directory, *words)
        assert done.returncode == 0, done.stderr


def test_a_table_and_its_server(table: Bundle, run: Run) -> None:
    require_right(table, run, "armv7l")


def test_a_table_and_its_server_on_riscv64(
    tmp_path: Path, minilm: ModelSource, shared_context: HostContext
) -> None:
    run = emulated("riscv64", "sifive-u54", shared_context)
    require_right(table_for("riscv64", tmp_path, minilm), run, "riscv64")


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


@pytest.mark.parametrize(
    ("target", "arch", "glibc", "level", "largest"),
    [
        ("linux-armv7-min", "armv7l", "2.28", "neon", 800_000),
        ("linux-riscv64-min", "riscv64", "2.27", "rv64gc", 900_000),
    ],
)
def test_the_real_model_is_right_and_small(
    tmp_path: Path, target: str, arch: str, glibc: str, level: str, largest: int
) -> None:
    """The first time it compiles ONNX Runtime: ten minutes on two cores."""
    bundle = made_bundle(target, tmp_path)
    assert architecture(bundle.program) == arch
    assert glibc_floor(bundle.program) <= glibc  # type: ignore[operator]
    report = json.loads(Path(f"{bundle.directory}.report.json").read_text())
    assert report["verification"]["status"] == "passed"
    assert report["verification"]["mean_cosine"] >= 0.9965
    assert [proof["level"] for proof in report["proofs"] if proof["proved"]] == [level]
    assert bundle.program.stat().st_size <= largest
