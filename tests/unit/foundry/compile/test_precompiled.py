"""Which units take a compiled header, and that their objects are the same with it and without."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from edgepack.errors import ToolError
from edgepack.files.store import sha256_of
from edgepack.foundry.compile.objects import CompileJob, compile_objects
from edgepack.foundry.compile.precompiled import (
    INSTANTIATED,
    LEAST,
    Header,
    HeaderRule,
    header_of,
    header_rules,
    rule_for,
)
from edgepack.foundry.releases.registry import RELEASE
from edgepack.foundry.symbols import symbols
from edgepack.foundry.toolchains.zig import zig_program
from edgepack.foundry.units import Unit
from edgepack.plugins.context import HostContext

RULE = HeaderRule(includes=("a.h", "b.h"), like="one/like.cc", units=("one/*.cc",))


def unit(name: str, *flags: str, language: str = "CXX") -> Unit:
    return Unit(name=name, source=f"@TREE@/{name}", language=language, flags=("-std=c++17", *flags))


@pytest.mark.parametrize(
    ("candidate", "takes"),
    [
        (unit("one/x.cc", "-Os", "-Oz"), True),
        (unit("one/x.cc", "-O2", "-Os", "-Ielsewhere"), True),
        (unit("one/x.cc", "-Os", "-O3"), False),
        (unit("one/x.cc", "-Oz", "-DONE"), False),
        (unit("one/x.cc", "-Oz", "-mavx2"), False),
        (unit("two/x.cc", "-Oz"), False),
        (unit("one/x.cc", "-Oz", language="C"), False),
    ],
)
def test_a_unit_takes_the_header_that_names_it_and_was_compiled_as_it_is(
    candidate: Unit, takes: bool
) -> None:
    units = {"one/like.cc": unit("one/like.cc", "-Oz", "-Ihere")}
    assert rule_for(candidate, [RULE], units) == (RULE if takes else None)
    assert rule_for(candidate, [RULE], {}) is None


def test_rules_count_for_the_toolchain_and_the_kind_that_they_were_measured_with() -> None:
    table = RELEASE.precompiled
    zig = "zig 0.14.1, x86_64-linux-gnu.2.28"
    measured = partial(header_rules, version=RELEASE.version)
    rules = measured(table, kind="minimal", toolchain=zig)
    assert rules and RULE.text == "#include <a.h>\n#include <b.h>\n"
    named = [name for rule in rules for name in rule.units]
    assert len(named) == len(set(named)), "a unit takes one header"
    for toolchain in ("zig 0.15.0, x86_64-linux-gnu.2.28", "zig 0.14.1, aarch64-linux-gnu.2.28", "gcc 12"):
        assert not measured(table, kind="minimal", toolchain=toolchain)
    assert not measured(table, kind="full", toolchain=zig)
    assert not measured({}, kind="minimal", toolchain=zig)
    assert not header_rules(table, version="1.22.0", kind="minimal", toolchain=zig)


def test_what_is_measured_decides_which_headers_are_instantiated() -> None:
    rules = header_rules(
        RELEASE.precompiled,
        version=RELEASE.version,
        kind="minimal",
        toolchain="zig 0.14.1, x86_64-linux-gnu.2.28",
    )
    made = [header_of(rule, ["c++"]) for rule in rules]
    assert [INSTANTIATED in header.command for header in made] == [rule.instantiated for rule in rules]
    assert {rule.instantiated for rule in rules} == {False, True}
    assert len({header.name for header in made if header.text == made[0].text}) == 2, "files of their own"


HEADER = """
#pragma once
inline int twice(int x) { return 2 * x; }
template <class T> struct Box { T value; T get() const { return twice(value); } };
inline int boxed() { return Box<int>{3}.get(); }
"""
SOURCE = '#include "{folder}/common.h"\nint f{number}(int x) {{ return twice(x) + boxed() + {number}; }}\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "common.h").write_text(HEADER)
    return tmp_path


def jobs_of(folder: Path, place: str, *, header: str | None, count: int = LEAST) -> list[CompileJob]:
    """C++ that includes what ``header`` includes."""
    command = (str(zig_program()), "clang", "--driver-mode=g++", "-target", "x86_64-linux-gnu", "-nostdinc")
    made = []
    for number in range(count):
        source = folder / f"source{number}.cc"
        source.write_text(SOURCE.format(folder=folder, number=number))
        made.append(
            CompileJob(
                name=source.name,
                object=folder / place / f"{source.name}.o",
                command=(*command, "-Oz", "-c", str(source)),
                identity=source.name,
                header=header and Header(text=header, command=(*command, "-Oz")),  # type: ignore[arg-type]
            )
        )
    return made


def commands_of(jobs: Sequence[CompileJob], folder: Path, context: HostContext) -> list[str]:
    """What was run to compile them."""
    log = folder / "log"
    log.unlink(missing_ok=True)
    compile_objects(jobs, read=symbols, log_file=log, context=context)
    return [line for line in log.read_text().splitlines() if line.startswith("$ ")]


@pytest.mark.tools("zig", "env")
def test_objects_are_the_same_with_a_compiled_header(
    folder: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f'#include "{folder}/common.h"\n'
    plain, taking = jobs_of(folder, "plain", header=None), jobs_of(folder, "taking", header=text)
    assert not [line for line in commands_of(plain, folder, context) if "-include-pch" in line]
    ran = commands_of(taking, folder, context)
    assert sum("-include-pch" in line for line in ran) == LEAST and len(ran) == LEAST + 1
    assert [sha256_of(job.object) for job in plain] == [sha256_of(job.object) for job in taking]
    # A launcher such as ccache sees the commands that it always saw.
    monkeypatch.setenv("CMAKE_CXX_COMPILER_LAUNCHER", "env")
    launched = commands_of(jobs_of(folder, "launched", header=text), folder, context)
    assert len(launched) == LEAST and not [line for line in launched if "-include-pch" in line]


@pytest.mark.tools("zig")
def test_what_takes_long_is_compiled_first(
    folder: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEPACK_JOBS", "1")
    first, second, third = jobs_of(folder, "long", header=None)
    ran = commands_of([first, second, replace(third, long=True)], folder, context)
    assert third.name in ran[0]


@pytest.mark.tools("zig")
def test_a_header_is_not_compiled_for_few(folder: Path, context: HostContext) -> None:
    few = jobs_of(folder, "few", header=f'#include "{folder}/common.h"\n', count=LEAST - 1)
    assert len(commands_of(few, folder, context)) == LEAST - 1


@pytest.mark.tools("zig")
@pytest.mark.parametrize("header", ["#error no\n", '#include "not there.h"\n', "int twice(int x);\n"])
def test_what_does_not_take_its_header_is_compiled_without(
    header: str, folder: Path, context: HostContext
) -> None:
    """One header does not compile; the other contradicts what the sources say after it."""
    header = header.replace("int twice", "static char *twice")
    plain, taking = jobs_of(folder, "plain", header=None), jobs_of(folder, "taking", header=header)
    commands_of(plain, folder, context)
    commands_of(taking, folder, context)
    assert [sha256_of(job.object) for job in plain] == [sha256_of(job.object) for job in taking]
    assert not list((folder / "taking").rglob(".*"))


@pytest.mark.tools("zig")
def test_a_source_that_does_not_compile_is_told_of_without_the_header(
    folder: Path, context: HostContext
) -> None:
    jobs = jobs_of(folder, "taking", header=f'#include "{folder}/common.h"\n')
    Path(jobs[1].command[-1]).write_text("int f( {")
    with pytest.raises(ToolError, match=r"source1\.cc does not compile"):
        compile_objects(jobs, read=symbols, log_file=folder / "log", context=context)
    assert not jobs[1].object.exists()


@pytest.mark.tools("zig")
def test_a_damaged_header_is_no_object(folder: Path, context: HostContext) -> None:
    """What a killed build left of a header under its last name cannot be: it is written beside and renamed."""
    header = Header(text=f'#include "{folder}/common.h"\n', command=("true",))
    place = context.work_dir / "precompiled"
    place.mkdir()
    jobs = [replace(job, header=header) for job in jobs_of(folder, "taking", header=None)]
    (place / f"{header.name}.pch").write_bytes(b"half")
    compile_objects(jobs, read=symbols, log_file=folder / "log", context=context)
    assert all(job.object.is_file() for job in jobs)
