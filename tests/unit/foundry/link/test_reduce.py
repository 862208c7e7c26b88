"""From operators to a library that holds their kernels and no others, on a tree of a few files."""

import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.unit.foundry.toy import PATCHES, UNITS, ToyZig, toy_archive, toy_release

from edgepack.console import Story
from edgepack.errors import ToolError, UnsupportedModelError
from edgepack.files.store import Store
from edgepack.foundry.compile.archive import KernelArchive
from edgepack.foundry.compile.objects import sound_record
from edgepack.foundry.link.reduce import Outside, Reduced, link_reduced
from edgepack.foundry.link.reduced_library import NativeBuild, build_library, library_name
from edgepack.foundry.linkmap import Piece
from edgepack.foundry.patch import Patch, RuntimeRequest
from edgepack.foundry.processors.x86_64 import X86_64
from edgepack.foundry.symbols import symbols
from edgepack.foundry.toolchain import HostLibraries, Link, NativeToolchain
from edgepack.foundry.toolchains.choose import choose
from edgepack.foundry.toolchains.gcc import Gcc
from edgepack.foundry.toolchains.glibc import Glibc
from edgepack.foundry.toolchains.zig import zig_program
from edgepack.operators.config import parse_config
from edgepack.plugins.context import HostContext, host_context
from edgepack.records.target import Platform

pytestmark = [
    pytest.mark.tools("gcc", "g++", "python", "zig", may=("objcopy", "strip", "ld", "ar")),
    pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler on this machine"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the toy is of x86-64"),
]
ADD, MATMUL, MAXPOOL = "ai.onnx;14;Add", "ai.onnx;13;MatMul", "ai.onnx;12;MaxPool"
CAST, CAST_OF_FLOAT = "ai.onnx;13;Cast", 'ai.onnx;13;Cast{"inputs":{"0":["float"]}}'


@dataclass(frozen=True, kw_only=True)
class Foundry:
    """A machine with the toy's archive."""

    archive: KernelArchive
    toolchain: NativeToolchain
    context: HostContext

    def reduced(self, *operators: str, archive: KernelArchive | None = None) -> tuple[Reduced, Path]:
        """What is linked for these operators, and the library."""
        archive = archive or self.archive
        output = self.context.work_dir / "libtoy.so"
        outside = Outside(asked=archive.exports, libraries=HostLibraries(and_others=True))

        def link(reduced: Reduced) -> list[Piece]:
            made = Link(
                objects=reduced.objects,
                output=output,
                map_file=output.with_suffix(".map"),
                log_file=archive.link_log,
                exports=archive.exports,
                libraries=outside.libraries,
            )
            self.toolchain.link(made, context=self.context)
            return list(self.toolchain.pieces(made.map_file))

        request = archive.request(parse_config("\n".join(operators)))
        return link_reduced(archive, request, outside, link, context=self.context), output

    def compiled(self) -> set[str]:
        """Files of which there is an object."""
        return {path.name.split(".")[0] for path in self.archive.objects.rglob("*.o") if sound_record(path)}


def foundry(toolchain: NativeToolchain, folder: Path, context: HostContext) -> Foundry:
    archive = toy_archive(toolchain, toy_release(folder / "data"), folder / "tree", context=context)
    return Foundry(archive=archive, toolchain=toolchain, context=context)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[HostContext]:
    with host_context(story=Story(quiet=True), offline=True, store=Store(root=tmp_path / "cache")) as made:
        yield made


@pytest.fixture
def gcc(machine: HostContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Foundry:
    monkeypatch.setenv("EDGEPACK_TOOLCHAIN", "gcc")
    return foundry(choose(Platform(os="linux", arch="x86_64"), context=machine), tmp_path, machine)


@pytest.fixture
def zig(machine: HostContext, tmp_path: Path) -> Foundry:
    pytest.importorskip("ziglang")
    toolchain = ToyZig(program=zig_program(), version="0", processor=X86_64, libc=Glibc(glibc="2.28"))
    return foundry(toolchain, tmp_path, machine)


def answer(library: Path) -> int:
    """The sum that the kernels in a library give, asked in a process of its own."""
    code = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).ToyRun())"
    command = [sys.executable, "-I", "-S", "-c", code, str(library)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_kernels_that_are_needed_stay_and_others_go(gcc: Foundry) -> None:
    reduced, library = gcc.reduced(ADD, MATMUL)
    assert answer(library) == 1001
    assert [name.split("_kOnnx")[0].rsplit("_", 1)[1] for name in reduced.reduction.kernels] == [
        "Add",
        "MatMul",
    ]
    # Nothing but what the link asks for was compiled; gcc's table of kernels is whole.
    assert gcc.compiled() == {
        "toy_api",
        "cpu_execution_provider",
        "add",
        "matmul",
        "platform",
        "gemm",
        "gemm_kernel",
        "pool_kernel",
    }


def test_another_model_shares_the_objects_that_it_does_not_change(gcc: Foundry) -> None:
    gcc.reduced(ADD)
    before = {path: path.stat().st_mtime_ns for path in gcc.archive.objects.rglob("*.o")}
    _, library = gcc.reduced(ADD, "ai.onnx;14;Mul")
    assert answer(library) == 11
    assert {path: path.stat().st_mtime_ns for path in before} == before
    made = {path.name.split(".")[0] for path in gcc.archive.objects.rglob("*.o") if path not in before}
    assert made == {"cpu_execution_provider", "mul"}


def test_type_restrictions_change_the_kernel_s_object_and_no_other(gcc: Foundry) -> None:
    everything, library = gcc.reduced(ADD, CAST)
    assert answer(library) == 201
    restricted, library = gcc.reduced(ADD, CAST_OF_FLOAT)
    assert answer(library) == 101
    changed = set(restricted.objects) ^ set(everything.objects)
    assert {path.name.split(".")[0] for path in changed} == {"cast"}


def test_an_operator_without_a_kernel_is_named(gcc: Foundry) -> None:
    with pytest.raises(UnsupportedModelError, match=r"no kernel for ai\.onnx:Mish\(22\)"):
        gcc.reduced(ADD, "ai.onnx;22;Mish")


def test_nothing_is_visible_but_what_is_exported(gcc: Foundry, zig: Foundry) -> None:
    for made in (gcc, zig):
        _, library = made.reduced(ADD)
        assert symbols(library, dynamic=True).defines == {"ToyRun"}


def test_a_table_of_kernels_names_what_is_called_and_no_more(zig: Foundry) -> None:
    reduced, library = zig.reduced(ADD, MATMUL)
    assert answer(library) == 1001
    assert reduced.reduction.archive.release.table.unit(reduced.demand.units).endswith("platform.cpp")
    linked = {Path(name).stem for name in reduced.demand.units}
    assert "gemm_kernel" in linked and not linked & {"pool", "pool_kernel", "maxpool"}
    _, library = zig.reduced(MATMUL, MAXPOOL)
    assert answer(library) == 1005


def test_what_nothing_leads_to_is_not_linked(zig: Foundry) -> None:
    _, library = zig.reduced(ADD)
    linked = {piece.section for piece in zig.toolchain.pieces(library.with_suffix(".map")) if piece.size}
    assert any("BuildKernelCreateInfo" in name for name in linked)
    assert not any("Unused" in name or "ToyInside" in name for name in linked)


def test_a_record_says_which_operator_asks_for_a_kernel_of_the_table(zig: Foundry) -> None:
    reduced, library = zig.reduced(ADD, MATMUL)
    text = library.with_suffix(".map").read_text().replace(f"{zig.archive.objects}/", "")
    library.with_suffix(".map").write_text(text)
    record = reduced.composition(zig.toolchain.pieces(library.with_suffix(".map")), library)
    operators = {Path(member.name).stem: member.operators for member in record.members}
    assert operators["gemm_kernel"] == ("MatMul",) and operators["add"] == ("Add",)
    assert (record.version, record.toolchain) == ("0.1", zig.archive.toolchain.identity)


def test_a_library_is_laid_out_with_what_says_what_it_is(gcc: Foundry, tmp_path: Path) -> None:
    build = NativeBuild(archive=gcc.archive, toolchain=replace_glibc(gcc.toolchain), isa=())
    build_library(build, parse_config(ADD), tmp_path, gcc.context)
    assert {path.name for path in tmp_path.iterdir()} >= {
        library_name("0.1"),
        "link.map",
        "composition.json",
        "licenses",
        "required_operators_and_types.config",
    }
    assert answer(tmp_path / library_name("0.1")) == 1


def replace_glibc(toolchain: NativeToolchain) -> NativeToolchain:
    """gcc's libraries need this machine's C library."""
    assert isinstance(toolchain, Gcc)
    return replace(toolchain, glibc="9.9")


def never(text: str, request: RuntimeRequest) -> str:
    raise AssertionError("a file that is another is not rewritten")


@pytest.mark.parametrize(
    ("file", "units", "said"),
    [
        (
            "core/mlas/lib/gemm.cpp",
            "*/gemm.cpp",
            r"core/mlas/lib/gemm\.cpp is not as ONNX Runtime 0\.1's: quick",
        ),
        (
            "core/none.cc",
            "*/core/none.cc",
            r"no unit of ONNX Runtime 0\.1 is compiled from core/none\.cc: quick",
        ),
    ],
    ids=["the text", "the file"],
)
def test_a_patch_that_finds_nothing_says_so_by_name(gcc: Foundry, file: str, units: str, said: str) -> None:
    patch = Patch(
        name="quick sums", file=file, units=units, must_find=(re.compile(r"\bSlowSum\("),), rewrite=never
    )
    release = replace(gcc.archive.release, patches=(*PATCHES, patch))
    with pytest.raises(ToolError, match=said):
        gcc.reduced(ADD, archive=replace(gcc.archive, release=release))


def test_patches_of_one_file_follow_each_other(gcc: Foundry) -> None:
    first, second = (
        Patch(
            name=f"{old} → {new}",
            file="core/mlas/lib/gemm_kernel.cpp",
            units="*/gemm_kernel.cpp",
            rewrite=lambda text, _, old=old, new=new: text.replace(old, new),  # type: ignore[misc]
        )
        for old, new in (("1000", "2000"), ("2000", "4000"))
    )
    release = replace(gcc.archive.release, patches=(*PATCHES, first, second))
    _, library = gcc.reduced(MATMUL, archive=replace(gcc.archive, release=release))
    assert answer(library) == 4000


def test_a_source_that_nothing_defines_is_named(gcc: Foundry) -> None:
    lacking = {name: unit for name, unit in gcc.archive.units.items() if not name.endswith("/add.cc")}
    assert len(lacking) == len(UNITS) - 1
    with pytest.raises(ToolError, match=r"no source of ONNX Runtime 0\.1 defines \S*_Add_kOnnxDomain_ver14"):
        gcc.reduced(ADD, archive=replace(gcc.archive, units=lacking))


@pytest.mark.timeout(60)
def test_what_is_compiled_already_waits_for_nobody_who_compiles(gcc: Foundry) -> None:
    gcc.reduced(ADD)
    with gcc.context.store.lock(gcc.archive.folder):
        reduced, library = gcc.reduced(ADD)
    assert answer(library) == 1
    assert len(reduced.objects) > 1
