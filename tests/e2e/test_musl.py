"""Static programs with musl inside: in a root that holds nothing but the bundle they answer what glibc's do."""

import json
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from tests.support.bare_root import Device
from tests.support.bundles import made_bundle
from tests.support.embed_serve import running
from tests.support.old_kernel import AS_ON_LINUX_3_2
from tests.support.static_models import write_with_words

from edgepack.errors import MissingToolError
from edgepack.files.elf import architecture, c_library, read_needs, sound_elf
from edgepack.files.elf_reader import PT_INTERP
from edgepack.files.hardening import marks_of, weaknesses
from edgepack.foundry.proof.emulator import find_emulator
from edgepack.plugins.context import HostContext
from edgepack.plugins.host import load_plugins
from edgepack.records.bundle import Bundle
from edgepack.records.model import ModelSource

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
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


def empty_root(folder: Path, bundle: Bundle, *emulator: str | Path) -> Device:
    root = folder / "root"
    root.mkdir(mode=0o755)
    # pytest's own folders are closed to other users.
    for each in (root, *root.parents):
        if each.stat().st_uid == os.geteuid() and each != Path("/"):
            each.chmod(each.stat().st_mode | 0o111)
    device = Device(root, bundle.directory, emulator)
    assert {path.name for path in root.iterdir()} == {"bundle", *(Path(name).name for name in emulator[:1])}
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


@pytest.fixture(scope="module")
def made_table(tmp_path_factory: pytest.TempPathFactory, minilm: ModelSource) -> Callable[[str], Bundle]:
    """Static embeddings for a processor, with a server."""
    folder = tmp_path_factory.mktemp("table")
    model = write_with_words(folder / "model", minilm.tokenizer)

    @cache
    def made(arch: str) -> Bundle:
        target = like("linux-x86-static", folder)
        settings = ("--set", f"platform.arch={arch}", "--set", "serve=true")
        return made_bundle(str(target), folder / arch, "--model", str(model), *settings)

    return made


def emulator_of(arch: str, processor: str, context: HostContext) -> list[str | Path]:
    """`edgepack fetch` of a processor's target brings it."""
    try:
        return find_emulator(arch, context=context).command(processor)[:3]
    except MissingToolError as error:
        pytest.skip(error.message)


@pytest.fixture(scope="module")
def cortex_a7(shared_context: HostContext) -> list[str | Path]:
    return emulator_of("armv7l", "cortex-a7", shared_context)


@pytest.mark.slow
def test_a_table_answers_in_an_empty_root(tmp_path: Path, made_table: Callable[[str], Bundle]) -> None:
    bundle = made_table("x86_64")
    require_alone(bundle.program)
    assert (bundle.directory / "LICENSES" / "musl.txt").is_file()
    device = empty_root(tmp_path, bundle)
    tested = device.run("/bundle/embed", "--self-test", "--json")
    assert tested.returncode == 0 and json.loads(tested.stdout)["min_cosine"] > 0.99999, tested.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "processor"), [("armv7l", "cortex-a7"), ("aarch64", "cortex-a53")])
def test_a_table_answers_beside_nothing_but_its_emulator(
    tmp_path: Path,
    made_table: Callable[[str], Bundle],
    shared_context: HostContext,
    arch: str,
    processor: str,
) -> None:
    emulator = emulator_of(arch, processor, shared_context)
    bundle = made_table(arch)
    assert architecture(bundle.program) == arch
    require_alone(bundle.program)
    if read_needs(Path(emulator[0])).libraries:
        pytest.skip("this machine's qemu needs libraries, which an empty root has none of")
    device = empty_root(tmp_path, bundle, *emulator)
    tested = device.run("/bundle/embed", "--self-test", "--json")
    assert tested.returncode == 0 and json.loads(tested.stdout)["min_cosine"] > 0.99999, tested.stderr
    assert device.run("/bundle/embed", "serve", "--check", "--port", "0").returncode == 0


def test_times_after_2038_are_right_on_armv7(
    made_table: Callable[[str], Bundle], cortex_a7: list[str | Path]
) -> None:
    """A file's time stands for the clock, which is not this test's to set."""
    bundle = made_table("armv7l")
    seconds = int(datetime(2050, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp())
    os.utime(bundle.directory / bundle.manifest["model"]["file"], (seconds, seconds))
    with running(bundle.directory, before=cortex_a7) as server:
        assert server.ask("/api/tags").json["models"][0]["modified_at"] == "2050-01-02T03:04:05Z"
        assert len(server.embed("a cat").json["data"][0]["embedding"]) == 16


TRIED = """
import errno, os, sys
def answer(call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"
calls = (os.getrandom, 4), (os.memfd_create, "a"), (os.pipe2, os.O_DIRECT), (os.pipe2, os.O_CLOEXEC)
print(*(answer(*call) for call in calls), answer(os.open, sys.argv[1], os.O_TMPFILE | os.O_RDWR))
"""


def test_the_filter_answers_as_linux_3_2_would(tmp_path: Path) -> None:
    def tried(*before: str) -> str:
        command = [*before, sys.executable, "-c", TRIED, str(tmp_path)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert tried(*AS_ON_LINUX_3_2) == "ENOSYS ENOSYS EINVAL done EINVAL\n"
    assert tried() == "done done done done done\n"


def require_no_later_calls(bundle: Bundle, folder: Path) -> None:
    """All that a program does, it does the same where a system call that came after Linux 3.2 is refused."""
    before = AS_ON_LINUX_3_2
    tested = subprocess.run([*before, bundle.program, "--self-test"], capture_output=True, check=False)
    assert tested.returncode == 0, tested.stderr
    expected = vectors(bundle, threads=2)
    np.testing.assert_array_equal(vectors(bundle, *before, threads=2), expected)
    lines, file = "\n".join(TEXTS), folder / "vectors.npy"
    command: list[str | Path] = [*before, bundle.program, "--threads", "2", "--out", "npy", "--output", file]
    subprocess.run(command, input=lines, encoding="utf-8", check=True, env={})
    np.testing.assert_array_equal(np.load(file), expected)
    searched = folder / "texts.txt"
    searched.write_text(lines, encoding="utf-8")
    for _ in ("with a file of vectors that it writes", "with one that it finds"):
        command = [*before, bundle.program, "search", "A man is eating food.", searched]
        found = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
        assert TEXTS[0] in found.stdout.splitlines()[0]
    for options in ((), ("--unix", str(folder / "socket"))):
        with running(bundle.directory, "--threads", "2", *options, before=before) as server:
            status = Path(f"/proc/{server.process.pid}/status").read_text()
            assert "\nSeccomp:\t2\n" in status
            answered = server.embed(TEXTS).json["data"]
            assert [server.ask(path).status for path in ("/health", "/metrics", "/api/tags")] == [200] * 3
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(timeout=60) == 0
        np.testing.assert_array_equal(
            np.array([each["embedding"] for each in answered], np.float32), expected
        )


def test_a_table_needs_no_system_call_later_than_linux_3_2(
    tmp_path: Path, made_table: Callable[[str], Bundle]
) -> None:
    require_no_later_calls(made_table("x86_64"), tmp_path)


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
    require_no_later_calls(bundle, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arch", "emulated"), [("arm64", "aarch64", "max"), ("armv7", "armv7l", "cortex-a7")]
)
def test_the_real_model_for_another_processor_under_an_emulator(
    tmp_path: Path, shared_context: HostContext, name: str, arch: str, emulated: str
) -> None:
    bundle = made_bundle(f"linux-{name}-musl", tmp_path / "musl", "--set", "serve=true")
    require_alone(bundle.program)
    assert bundle.program.stat().st_size <= LARGEST_PROGRAM
    report = json.loads(Path(f"{bundle.directory}.report.json").read_text())
    assert report["verification"]["status"] == "passed"
    glibc = made_bundle(f"linux-{name}-min", tmp_path / "glibc")
    emulator = find_emulator(arch, context=shared_context).command(emulated)
    if not read_needs(Path(emulator[0])).libraries:
        device = empty_root(tmp_path, bundle, *emulator[:3])
        tested = device.run("/bundle/embed", "--self-test", "--json")
        assert tested.returncode == 0, tested.stderr
    for threads in (1, 2):
        ours = vectors(bundle, *emulator, threads=threads)
        theirs = vectors(glibc, *emulator, threads=threads)
        np.testing.assert_array_equal(ours.view(np.uint32), theirs.view(np.uint32))
