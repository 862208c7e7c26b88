"""Branch protection on arm64: qemu enforces it, so that a function without a landing pad is the program's end."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgepack.console import Story
from edgepack.files.hardening import BUILD_ID, marks_of, without_landing
from edgepack.foundry.link.standalone import build_standalone
from edgepack.foundry.processors.aarch64 import AARCH64
from edgepack.foundry.proof.emulator import find_qemu
from edgepack.foundry.units import ProgramSources
from edgepack.plugins.context import HostContext, host_context
from edgepack.records.target import Platform

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
PROGRAM = r"""
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>
struct Shape { virtual ~Shape() {} virtual int area() const = 0; };
struct Square : Shape { int side; explicit Square(int s) : side(s) {} int area() const override { return side * side; } };
struct Made { Made() { puts("constructed"); } ~Made() { puts("destroyed"); } } made;
static int twice(int x) { return 2 * x; }
static int thrice(int x) { return 3 * x; }
int (*const TABLE[])(int) = {twice, thrice};
int main(int count, char **words) {
    std::vector<std::string> texts(words, words + count);
    std::sort(texts.begin(), texts.end(), [](const auto &a, const auto &b) { return a > b; });
    Shape *shape = new Square(count + 2);
    printf("%d %d %s\n", TABLE[count % 2](21), shape->area(), texts[0].empty() ? "empty" : "sorted");
    delete shape;
    return 0;
}
"""
"""Calls through virtual functions, tables, lambdas and the C library's lists of constructors."""
SAID = "constructed\n42 16 sorted\ndestroyed\n"
PADS = (0xD503245F, 0xD50324DF, 0xD503233F)
NOP = 0xD503201F


@pytest.fixture
def context() -> Iterator[HostContext]:
    """On the user's cache, which may lack an emulator."""
    with host_context(story=Story(quiet=True)) as made:
        yield made


def test_it_runs_where_it_is_enforced_and_not_without_its_landing_pads(
    context: HostContext, tmp_path: Path
) -> None:
    platform = Platform(os="linux", arch="aarch64", glibc="2.28", branch_protection=True)
    sources = ProgramSources(files={"main.cc": PROGRAM}, output="probe")
    program = build_standalone(sources, platform=platform, context=context) / "probe"
    assert marks_of(program) == {"bti", BUILD_ID}
    assert without_landing(program) == ()
    emulator = find_qemu(AARCH64, context=context)

    def run(file: Path, processor: str) -> "subprocess.CompletedProcess[str]":
        command = [*emulator.command(processor), file, "a"]
        return subprocess.run(command, capture_output=True, encoding="utf-8", check=False)

    for processor in ("cortex-a53", "neoverse-n1", "max"):
        done = run(program, processor)
        assert (done.returncode, done.stdout) == (0, SAID), (processor, done.stderr)
    words = memoryview(bytearray(program.read_bytes())[: program.stat().st_size // 4 * 4]).cast("I")
    for at, word in enumerate(words):
        if word in PADS:
            words[at] = NOP
    bare = tmp_path / "bare"
    bare.write_bytes(words.tobytes() + program.read_bytes()[len(words) * 4 :])
    bare.chmod(0o755)
    assert len(without_landing(bare)) > 2
    assert run(bare, "cortex-a53").stdout == SAID
    assert run(bare, "max").returncode != 0
