"""Static programs with musl inside: in a root that holds nothing but the bundle they answer what glibc's do."""

import json
import os
import platform
import subprocess
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from tests.support.bare_root import Device
from tests.support.bundles import made_bundle
from tests.support.embed_serve import running
from tests.support.static_models import write_with_words

from edgepack.files.elf import c_library, read_needs, sound_elf
from edgepack.files.elf_reader import PT_INTERP
from edgepack.files.hardening import marks_of, weaknesses
from edgepack.foundry.proof.emulator import find_emulator
from edgepack.plugins.context import HostContext
from edgepack.plugins.host import load_plugins
from edgepack.records.bundle import Bundle
from edgepack.records.model import ModelSource

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="it is run here"),
]

LARGEST_PROGRAM = 1_600_000
LARGEST_SERVER = 25_000_000
TEXTS = [
    "A man is eating food.",
    "",
    "Ein zweiter Text, länger als der erste: 日本語",
    "word " * 300,
    "a",
    *"bcdef",
]
GNU_STACK = 0x6474E551


def like(target: str, folder: Path) -> Path:
    """A target of edgepack's for devices with musl."""
    text = load_plugins().target_files[target].file.read_text(encoding="utf-8")
    assert 'glibc = "2.28"' in text
    file = folder / f"{target}-musl.toml"
    file.write_text(text.replace('glibc = "2.28"', 'libc = "musl"'), encoding="utf-8")
    return file


def empty_root(folder: Path, bundle: Bundle) -> Device:
    root = folder / "root"
    root.mkdir(mode=0o755)
    # pytest's own folders are closed to other users.
    for each in (root, *root.parents):
        if each.stat().st_uid == os.geteuid() and each != Path("/"):
            each.chmod(each.stat().st_mode | 0o111)
    device = Device(root, bundle.directory)
    assert [path.name for path in root.iterdir()] == ["bundle"]
    return device


def require_alone(program: Path) -> None:
    """It names no loader and no library, is hardened as others are, and its threads' stacks are glibc's."""
    assert c_library(program) is None and read_needs(program).libraries == ()
    with sound_elf(program) as file:
        kinds = {segment.kind: segment for segment in file.segments}
    assert PT_INTERP not in kinds
    assert kinds[GNU_STACK].in_memory == 8 << 20
    assert weaknesses(program) == () and "build-id" in marks_of(program)


def vectors(bundle: Bundle, *before: str | Path, threads: int = 1) -> npt.NDArray[np.float32]:
    said = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS)
    command = [*before, bundle.program, "--jsonl", "--out", "jsonl", "--threads", str(threads)]
    done = subprocess.run(command, input=said, capture_output=True, text=True, check=False, env={})
    assert done.returncode == 0, done.stderr
    return np.array([json.loads(line)["embedding"] for line in done.stdout.splitlines()], np.float32)


def test_a_table_answers_in_an_empty_root(tmp_path: Path, minilm: ModelSource) -> None:
    model = write_with_words(tmp_path / "model", minilm.tokenizer)
    target = like("linux-x86-static", tmp_path)
    bundle = made_bundle(str(target), tmp_path / "out", "--model", str(model))
    require_alone(bundle.program)
    assert (bundle.directory / "LICENSES" / "musl.txt").is_file()
    device = empty_root(tmp_path, bundle)
    tested = device.run("/bundle/embed", "--self-test", "--json")
    assert tested.returncode == 0 and json.loads(tested.stdout)["min_cosine"] > 0.99999, tested.stderr


@pytest.mark.slow
def test_the_real_model_has_the_bits_of_glibc_s_bundle(tmp_path: Path) -> None:
    """The first time it compiles ONNX Runtime for musl: ten minutes on two cores."""
    bundle = made_bundle("linux-x86-musl", tmp_path / "musl", "--set", "serve=true")
    require_alone(bundle.program)
    assert "shstk" in marks_of(bundle.program)
    assert bundle.program.stat().st_size <= LARGEST_PROGRAM
    device = empty_root(tmp_path, bundle)
    tested = device.run("/bundle/embed", "--self-test", "--json")
    assert tested.returncode == 0, tested.stderr
    glibc = made_bundle("linux-x86-min", tmp_path / "glibc")
    for threads in (1, 2):
        ours, theirs = vectors(bundle, threads=threads), vectors(glibc, threads=threads)
        np.testing.assert_array_equal(ours.view(np.uint32), theirs.view(np.uint32))
    with running(bundle.directory) as server:
        served = [server.embed(text).json["data"][0]["embedding"] for text in TEXTS]
        resident = int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]) * 4096
        assert resident < LARGEST_SERVER
    # Floats as JSON are as exact as the program's own lines.
    np.testing.assert_array_equal(np.array(served, np.float32).view(np.uint32), ours.view(np.uint32))


@pytest.mark.slow
def test_the_real_model_for_arm64_under_an_emulator(tmp_path: Path, shared_context: HostContext) -> None:
    bundle = made_bundle("linux-arm64-musl", tmp_path / "musl")
    require_alone(bundle.program)
    assert bundle.program.stat().st_size <= LARGEST_PROGRAM
    report = json.loads(Path(f"{bundle.directory}.report.json").read_text())
    assert report["verification"]["status"] == "passed"
    glibc = made_bundle("linux-arm64-min", tmp_path / "glibc")
    emulator = find_emulator("aarch64", context=shared_context).command("max")
    ours, theirs = vectors(bundle, *emulator), vectors(glibc, *emulator)
    np.testing.assert_array_equal(ours.view(np.uint32), theirs.view(np.uint32))
