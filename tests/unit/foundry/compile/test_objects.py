"""Objects are compiled once, checked before they are used again, and survive a killed build."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edgepack.errors import ToolError
from edgepack.foundry.compile.objects import CompileJob, compile_objects, foretold
from edgepack.foundry.symbols import symbols
from edgepack.plugins.context import HostContext

GCC = shutil.which("gcc")
pytestmark = pytest.mark.tools("gcc", "python")

SOURCES = {
    "one": "int two(void); int one(void) { return two(); }",
    "two": "int two(void) { return 2; }",
    "three": "__attribute__((weak)) int three(void) { return 3; }",
}


@pytest.fixture
def jobs(tmp_path: Path) -> list[CompileJob]:
    made = []
    for name, text in SOURCES.items():
        source = tmp_path / f"{name}.c"
        source.write_text(text)
        made.append(
            CompileJob(
                name=name,
                object=tmp_path / f"objects/{name}.o",
                command=(str(GCC), "-c", str(source)),
                identity=name,
            )
        )
    return made


def compiled(jobs: list[CompileJob], context: HostContext, log: Path) -> int:
    """How many compilers were run."""
    log.unlink(missing_ok=True)
    compile_objects(jobs, read=symbols, log_file=log, context=context)
    return log.read_text().count("$ ") if log.exists() else 0


def test_symbols_of_what_was_compiled(jobs: list[CompileJob], context: HostContext, tmp_path: Path) -> None:
    found = compile_objects(jobs, read=symbols, log_file=tmp_path / "log", context=context)
    assert found["one"].defines == {"one"} and found["one"].needs == {"two"}
    assert found["three"].weak == {"three"} and not found["three"].defines
    assert compile_objects(jobs, read=symbols, log_file=tmp_path / "log", context=context) == found


def test_nothing_is_compiled_twice(jobs: list[CompileJob], context: HostContext, tmp_path: Path) -> None:
    assert compiled(jobs, context, tmp_path / "log") == 3
    assert compiled(jobs, context, tmp_path / "log") == 0


def test_a_damaged_object_is_noticed(jobs: list[CompileJob], context: HostContext, tmp_path: Path) -> None:
    compiled(jobs, context, tmp_path / "log")
    content = bytearray(jobs[1].object.read_bytes())
    content[len(content) // 2] ^= 0xFF
    jobs[1].object.write_bytes(content)
    assert compiled(jobs, context, tmp_path / "log") == 1
    assert jobs[1].object.read_bytes() != bytes(content)


@pytest.mark.parametrize("record", ["", "{", '{"identity": "one"}', "[]"])
def test_a_damaged_record_is_noticed(
    record: str, jobs: list[CompileJob], context: HostContext, tmp_path: Path
) -> None:
    compiled(jobs, context, tmp_path / "log")
    (tmp_path / "objects/one.o.json").write_text(record)
    assert compiled(jobs, context, tmp_path / "log") == 1


def test_other_flags_make_another_object(
    jobs: list[CompileJob], context: HostContext, tmp_path: Path
) -> None:
    compiled(jobs, context, tmp_path / "log")
    first = jobs[0]
    jobs[0] = CompileJob(
        name=first.name, object=first.object, command=(*first.command, "-O2"), identity="other"
    )
    assert compiled(jobs, context, tmp_path / "log") == 1


def test_a_source_that_does_not_compile(jobs: list[CompileJob], context: HostContext, tmp_path: Path) -> None:
    (tmp_path / "two.c").write_text("int two(void) { return nothing; }")
    with pytest.raises(ToolError, match="two does not compile") as caught:
        compile_objects(jobs, read=symbols, log_file=tmp_path / "log", context=context)
    assert "nothing" in caught.value.message and str(tmp_path / "log") in str(caught.value.hint)
    assert not jobs[1].object.exists()
    (tmp_path / "two.c").write_text(SOURCES["two"])
    compile_objects(jobs, read=symbols, log_file=tmp_path / "log", context=context)


@pytest.mark.parametrize("named", ["{launcher}", "{launcher};--with=this", "{launcher} --with=this"])
def test_a_compiler_launcher_is_honoured(
    named: str, jobs: list[CompileJob], context: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ccache and distcc want it: the compiler first, then ``-c SOURCE -o OBJECT``; a list as CMake writes lists."""
    launcher = tmp_path / "launcher"
    launcher.write_text(
        f'#!/bin/sh\ntest "$1" = --with=this && shift\necho "$@" >> {tmp_path}/launched\nexec "$@"\n'
    )
    launcher.chmod(0o755)
    monkeypatch.setenv("CMAKE_CXX_COMPILER_LAUNCHER", named.format(launcher=launcher))
    compile_objects(jobs, read=symbols, log_file=tmp_path / "log", context=context)
    lines = sorted(line.split() for line in (tmp_path / "launched").read_text().splitlines())
    assert [words[:4] for words in lines] == [
        [str(GCC), "-c", str(tmp_path / f"{name}.c"), "-o"] for name in sorted(SOURCES)
    ]


KILLED = """
import sys
from pathlib import Path
from edgepack.console import Story
from edgepack.foundry.compile.objects import foretold, CompileJob, compile_objects
from edgepack.foundry.symbols import symbols
from edgepack.plugins.context import host_context
from edgepack.files.store import Store
folder = Path(sys.argv[1])
jobs = [
    CompileJob(name=name, object=folder / f"objects/{name}.o", identity=name,
        command=("sh", "-c", sys.argv[2], "sh", name, str(folder)))
    for name in ("one", "two", "three")
]
with host_context(story=Story(quiet=True), store=Store(root=folder / "store")) as context:
    compile_objects(jobs, read=symbols, log_file=folder / "log", context=context)
"""
# "two" writes half of its object and then hangs until it is told to go on.
SLOW = """
test "$1" = two && ! test -e "$2/go" && { printf half > "$4"; touch "$2/halfway"; exec sleep 60; }
exec gcc -c "$2/$1.c" -o "$4"
"""


def test_a_killed_build_goes_on_where_it_was(
    jobs: list[CompileJob], context: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEPACK_JOBS", "1")
    build = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path), SLOW], start_new_session=True)
    while not (tmp_path / "halfway").exists():
        assert build.poll() is None
        time.sleep(0.02)
    import os

    os.killpg(build.pid, signal.SIGKILL)
    build.wait()
    assert jobs[0].object.exists() and not jobs[1].object.exists()
    first = jobs[0].object.stat().st_mtime_ns
    (tmp_path / "go").touch()
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), SLOW], check=True)
    assert all(job.object.exists() for job in jobs)
    assert jobs[0].object.stat().st_mtime_ns == first
    assert json.loads((tmp_path / "objects/two.o.json").read_text())["defines"] == ["two"]


def test_what_compiling_will_take_is_foretold() -> None:
    assert foretold(9, workers=2) == "", "it is over at once"
    assert foretold(49, workers=2).startswith("49 files to compile, about 49 s on 2 processors")
    assert foretold(248, workers=1).startswith("248 files to compile, about 8 min on 1 processor ")
    assert foretold(4, workers=64) == foretold(0, workers=2) == ""
