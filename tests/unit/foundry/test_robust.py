"""Whatever happens to a build, the next one ends right: killed, run twice at once, damaged, out of space."""

import errno
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.small_archive import COUNT, build, objects_of, small_archive

from edgepack.console import Story
from edgepack.errors import DiskFullError
from edgepack.files.store import Store
from edgepack.foundry.compile.objects import record_of, sound_record
from edgepack.foundry.patch import Change
from edgepack.foundry.toolchain import HostLibraries, Link
from edgepack.foundry.toolchains.choose import choose
from edgepack.plugins.context import HostContext, host_context
from edgepack.records.target import Platform

pytestmark = pytest.mark.tools("gcc", "python", may=("zig", "mount", "umount"))
ROOT = Path(__file__).parents[3]
UNITS = COUNT + 1


@pytest.fixture(autouse=True)
def launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every compiler is called through this; it writes down the source."""
    script, calls = tmp_path / "launcher", tmp_path / "calls"
    calls.touch()
    script.write_text(
        f'#!/bin/sh\nfor word; do case "$word" in *.c) echo "$word" >> {calls};; esac; done\nexec "$@"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("CMAKE_CXX_COMPILER_LAUNCHER", str(script))
    monkeypatch.setenv("EDGEPACK_JOBS", "2")
    return calls


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The library of a build that nothing happened to, in a folder of its own."""
    root = tmp_path_factory.mktemp("undisturbed") / "a" / "cache"
    with host_context(story=Story(quiet=True), store=Store(root=root)) as context:
        return build(context).read_bytes()


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def machine(cache: Path) -> Iterator[HostContext]:
    with host_context(story=Story(quiet=True), store=Store(root=cache)) as context:
        yield context


def start(cache: Path, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.small_archive", str(cache)],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def sources(calls: Path) -> Counter[str]:
    return Counter(Path(line).stem for line in calls.read_text().split())


def leftovers(cache: Path) -> list[Path]:
    """Temporary files and folders, which begin with a dot."""
    return [
        path
        for path in cache.rglob(".*")
        if path.name not in (".edgepack-entry.json", ".configured") and "locks" not in path.parts
    ]


@pytest.mark.sample(1)
@pytest.mark.parametrize("moment", [0, 1, 4, 8, UNITS])
def test_a_build_killed_at_any_moment_ends_right_the_next_time(
    moment: int, cache: Path, launcher: Path, reference: bytes
) -> None:
    child = start(cache)
    while len(launcher.read_text().split()) < moment:
        assert child.poll() is None, "the build was too quick to be killed"
        time.sleep(0.001)
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate()
    archive = small_archive(Store(root=cache))
    done = {path.stem for path in objects_of(archive) if sound_record(path)}
    launcher.write_text("")
    with host_context(story=Story(quiet=True), store=Store(root=cache)) as context:
        assert build(context).read_bytes() == reference
    compiled = sources(launcher)
    assert not done & compiled.keys(), "what was done is not done again"
    assert done | compiled.keys() == archive.units.keys() and set(compiled.values()) <= {1}
    assert leftovers(cache) == []


def test_a_build_killed_while_it_links_ends_right_the_next_time(
    cache: Path, tmp_path: Path, launcher: Path, reference: bytes
) -> None:
    linker = tmp_path / "linker"
    linker.write_text(
        f'#!/bin/sh\ngcc "$@"; head -c 100 "$4" > "$4.half"; mv "$4.half" "$4"; touch {tmp_path}/linking\nsleep 60\n'
    )
    linker.chmod(0o755)
    child = start(cache, SMALL_LINKER=str(linker))
    while not (tmp_path / "linking").exists():
        assert child.poll() is None
        time.sleep(0.01)
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate()
    launcher.write_text("")
    with host_context(story=Story(quiet=True), store=Store(root=cache)) as context:
        assert build(context).read_bytes() == reference
    assert not launcher.read_text() and leftovers(cache) == []


def test_two_builds_at_once_share_one_archive(cache: Path, launcher: Path, reference: bytes) -> None:
    children = [start(cache) for _ in range(2)]
    answers = {child.communicate(timeout=120)[0].strip() for child in children}
    assert [child.returncode for child in children] == [0, 0]
    assert len(answers) == 1 and Path(answers.pop()).read_bytes() == reference
    assert len(sources(launcher)) == UNITS and set(sources(launcher).values()) == {1}


def test_what_was_damaged_is_made_again_and_only_that(
    cache: Path, launcher: Path, machine: HostContext, reference: bytes
) -> None:
    library = build(machine)
    archive = small_archive(machine.store)
    first, second, third, fourth, *_ = objects_of(archive)
    content = bytearray(first.read_bytes())
    content[len(content) // 2] ^= 1
    first.write_bytes(content)
    record_of(second).write_text(record_of(second).read_text()[:-2])
    third.unlink()
    record_of(fourth).unlink()
    library.write_bytes(library.read_bytes()[:-1])
    launcher.write_text("")
    assert build(machine).read_bytes() == reference
    assert sources(launcher) == Counter({path.stem: 1 for path in (first, second, third, fourth)})


def test_an_object_is_the_same_bytes_wherever_the_folders_are(
    tmp_path: Path, machine: HostContext, reference: bytes
) -> None:
    """Sources name themselves by __FILE__, debug information by folders; also what is generated for one runtime."""
    build(machine)
    here = small_archive(machine.store)
    other = Store(root=tmp_path / "quite" / "another" / "place")
    with host_context(story=Story(quiet=True), store=other) as context:
        assert build(context).read_bytes() == reference
        there = small_archive(other)
        for mine, others in zip(objects_of(here), objects_of(there), strict=True):
            assert mine.read_bytes() == others.read_bytes()
        made = []
        for archive, where in ((here, machine), (there, context)):
            generated = archive.folder / "generated" / "x"
            generated.mkdir(parents=True)
            (generated / "own.c").write_text("const char *own(void) { return __FILE__; }\n")
            job = archive.job("unit0", Change(text="own", file="own.c"), generated=generated)
            archive.compile(["unit0"], changed={"unit0": job}, context=where)
            made.append(job.object.read_bytes())
    assert made[0] == made[1]


def test_a_compiler_that_finds_no_space_is_a_clear_error(
    cache: Path, machine: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference: bytes
) -> None:
    full = tmp_path / "full"
    full.write_text(
        '#!/bin/sh\nfor word; do case "$word" in */unit3.c)\n'
        '  for out; do :; done; printf half > "$out"; echo "fatal error: $out: No space left on device" >&2; exit 1;;\n'
        'esac; done; exec "$@"\n'
    )
    full.chmod(0o755)
    with monkeypatch.context() as patched:
        patched.setenv("CMAKE_CXX_COMPILER_LAUNCHER", str(full))
        with pytest.raises(DiskFullError) as caught:
            build(machine)
    assert "no space left" in caught.value.message and "EDGEPACK_CACHE" in str(caught.value.hint)
    archive = small_archive(machine.store)
    assert not (archive.folder / "objects/unit3.o").exists() and leftovers(cache) == []
    assert build(machine).read_bytes() == reference


def test_a_log_that_cannot_be_written_for_want_of_space_is_a_clear_error(
    machine: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("edgepack.tools.run_tool", full)
    with pytest.raises(DiskFullError, match="no space left"):
        build(machine)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 192 kB: room for some of the objects."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=192k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("mounting a small disk needs root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_linker_that_is_ended_by_a_full_disk_is_a_clear_error(
    small_disk: Path, tmp_path: Path, machine: HostContext
) -> None:
    pytest.importorskip("ziglang")
    toolchain = choose(Platform(os="linux", arch="x86_64"), context=machine)
    (tmp_path / "big.c").write_text("char big[400000] = {1}; char *f(void) { return big; }\n")
    command = [
        *toolchain.command("C"),
        "-fPIC",
        "-c",
        str(tmp_path / "big.c"),
        "-o",
        str(tmp_path / "big.o"),
    ]
    machine.run(command)

    def link_it(output: Path) -> None:
        toolchain.link(
            Link(
                objects=[tmp_path / "big.o"],
                output=output,
                map_file=tmp_path / "map",
                log_file=tmp_path / "log",
                exports=["f"],
                libraries=HostLibraries(),
            ),
            context=machine,
        )

    with pytest.raises(DiskFullError, match="no space left on the disk that holds"):
        link_it(small_disk / "libbig.so")
    assert list(small_disk.iterdir()) == []
    link_it(tmp_path / "libbig.so")


def test_a_full_disk_is_a_clear_error_and_the_build_goes_on_when_there_is_space(
    small_disk: Path, launcher: Path
) -> None:
    ballast = small_disk / "ballast"
    cache = small_disk / "cache"
    archive = small_archive(Store(root=cache))
    ballast.write_bytes(bytes(os.statvfs(small_disk).f_bavail * 4096 - 40_000))
    with host_context(story=Story(quiet=True), store=Store(root=cache)) as context:
        with pytest.raises(DiskFullError):
            archive.compile(archive.units, context=context)
        assert leftovers(cache) == []
        whole = {path.stem for path in objects_of(archive) if sound_record(path)}
        ballast.unlink()
        launcher.write_text("")
        archive.compile(archive.units, context=context)
    assert not whole & sources(launcher).keys()
    assert all(sound_record(path) for path in objects_of(archive))
