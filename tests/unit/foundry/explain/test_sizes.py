"""What is in a library: figures that sum to the file, the operators that ask for it, and how objects came in."""

import dataclasses
import io
import json
import struct
from pathlib import Path

import pytest
from rich.console import Console
from tests.support.golden import matches_golden

from edgepack.errors import BundleError
from edgepack.files.store import ENTRY_FILE, Store
from edgepack.foundry.explain.sizes import Explanation, explain, find_composition
from edgepack.foundry.link.composition import (
    COMPOSITION,
    Composition,
    Provenance,
    compose,
    operator_of,
    read_composition,
    write_composition,
)
from edgepack.foundry.linkmap import read_link_map
from edgepack.foundry.symbols import Symbols
from edgepack.reports.explain import render_explanation, render_why

CPU = "_ZN11onnxruntime21BuildKernelCreateInfoINS_{length}{kernel}EEENS_16KernelCreateInfoEv"
KERNELS = {
    name: CPU.format(length=len(kernel), kernel=kernel)
    for name, kernel in {
        "MatMul": "kCpuExecutionProvider_MatMul_kOnnxDomain_ver13_float",
        "Add": "kCpuExecutionProvider_Add_kOnnxDomain_ver14_float",
        "BiasGelu": "kCpuExecutionProvider_BiasGelu_kMSDomain_ver1",
    }.items()
}
API = "onnxruntime_session/onnxruntime/onnxruntime/core/session/onnxruntime_c_api.cc"
REGISTRATIONS = "onnxruntime_providers/onnxruntime/onnxruntime/core/providers/cpu/cpu_execution_provider.cc"
MATMUL = "onnxruntime_providers/onnxruntime/onnxruntime/core/providers/cpu/math/matmul.cc"
ADD = "onnxruntime_providers/onnxruntime/onnxruntime/core/providers/cpu/math/element_wise_ops.cc"
GELU = "onnxruntime_providers/onnxruntime/onnxruntime/contrib_ops/cpu/bert/bias_gelu.cc"
SGEMM = "onnxruntime_mlas/onnxruntime/onnxruntime/core/mlas/lib/sgemm.cpp"
PLATFORM = "onnxruntime_mlas/onnxruntime/onnxruntime/core/mlas/lib/platform.cpp"
AVX = "onnxruntime_mlas/onnxruntime/onnxruntime/core/mlas/lib/x86_64/SgemmKernelAvx.S"
STRINGS = "libcxx/src/string.cpp"


def needing(*needs: str, defines: tuple[str, ...] = (), weak: tuple[str, ...] = ()) -> Symbols:
    return Symbols(defines=frozenset(defines), weak=frozenset(weak), needs=frozenset(needs))


UNITS = {
    API: needing("_ZN11onnxruntime8ProviderC1Ev", "MlasAlignment", defines=("OrtGetApiBase",)),
    REGISTRATIONS: needing(*KERNELS.values(), defines=("_ZN11onnxruntime8ProviderC1Ev",)),
    MATMUL: needing("MlasGemm", "string", defines=(KERNELS["MatMul"],)),
    ADD: needing("string", defines=(KERNELS["Add"],)),
    GELU: needing(defines=(KERNELS["BiasGelu"],)),
    SGEMM: needing("MlasAlignment", defines=("MlasGemm",)),
    PLATFORM: needing("MlasSgemmKernelAvx", defines=("MlasAlignment",)),
    AVX: needing(defines=("MlasSgemmKernelAvx",)),
    STRINGS: needing("memcpy", weak=("string",)),
}
MAP = f"""\
             VMA              LMA     Size Align Out     In      Symbol
              f8               f8       30     8 .rela.dyn
              f8               f8       30     8         <internal>:(.rela.dyn)
             128              128       40    16 .rodata
             128              128       30     1         <internal>:(.rodata.str1.1)
             158              158        c     4         {MATMUL}.o:(.rodata.table)
             180              180      800    16 .text
             180              180      300    16         {API}.o:(.text.OrtGetApiBase)
             180              180      2f8     1                 OrtGetApiBase
             480              480       80    16         {REGISTRATIONS}.0123456789abcdef.o:(.text.f)
             500              500      100    16         {MATMUL}.0123456789abcdef.o:(.text._ZN3one3twoEv)
             600              600       80    16         {ADD}.o:(.text.add)
             680              680       40    16         {GELU}.o:(.text.gelu)
             6c0              6c0       60    16         {SGEMM}.o:(.text.gemm)
             720              720       10    16         {PLATFORM}.o:(.text.platform)
             730              730      180    16         {AVX}.o:(.text)
             8b0              8b0       30    16         {STRINGS}.o:(.text.string)
             8e0              8e0       20    16         /some/where/libcompiler_rt.a(/tmp/x/libcompiler_rt.a.o):(.text)
             900              900     1000    16 .bss
             900              900     1000    16         {API}.o:(.bss.cache)
"""
SECTIONS = {".rela.dyn": (4, 0x30), ".rodata": (1, 0x40), ".text": (1, 0x800), ".bss": (8, 0x1000)}


def elf_file(path: Path) -> Path:
    """A file with these sections and 24 bytes that belong to none."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name in (*SECTIONS, ".shstrtab"))
    layout = {**SECTIONS, ".shstrtab": (3, len(names))}
    headers, content, at = [bytes(64)], b"", 64 + 24
    for name, (kind, size) in layout.items():
        headers.append(
            struct.pack(
                "<IIQQQQIIQQ",
                names.index(name.encode()),
                kind,
                2,
                0,
                at,
                size,
                0,
                0,
                1,
                24 if kind == 4 else 0,
            )
        )
        if kind != 8:
            content += names if name == ".shstrtab" else bytes(size)
            at += size
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack(
        "<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, at, 0, 64, 56, 0, 64, len(headers), len(headers) - 1
    )
    path.write_bytes(head + bytes(24) + content + b"".join(headers))
    return path


@pytest.fixture
def library(tmp_path: Path) -> Path:
    (tmp_path / "lib").mkdir()
    return elf_file(tmp_path / "lib" / "libonnxruntime.so")


@pytest.fixture
def composition(library: Path, tmp_path: Path) -> Composition:
    (tmp_path / "link.map").write_text(MAP)
    return compose(
        read_link_map(tmp_path / "link.map"),
        library,
        Provenance(
            version="1.21.0",
            kind="minimal",
            toolchain="zig 0.14.1, x86_64-linux-gnu.2.28",
            symbols=UNITS,
            exports=["OrtGetApiBase"],
            kernels=tuple(KERNELS.values()),
            roots=[REGISTRATIONS],
            table=PLATFORM,
            callers={SGEMM: frozenset({"MlasSgemmKernelAvx"})},
        ),
    )


def text_of(renderable: object) -> str:
    stream = io.StringIO()
    Console(file=stream, width=100, highlight=False).print(renderable)
    return "".join(f"{line.rstrip()}\n" for line in stream.getvalue().splitlines())


def member(explanation: Explanation, name: str) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
    row = next(row for row in explanation.members if row.name == name)
    return row.bytes, row.operators, row.why


def test_every_table_sums_to_the_file(library: Path, composition: Composition) -> None:
    found = explain(library, composition)
    assert found.bytes == library.stat().st_size
    for rows in (found.sections, found.areas, found.askers):
        assert sum(row.bytes for row in rows) == found.bytes
    assert {row.name: row.bytes for row in found.sections}["padding between sections"] == 24
    assert ".bss" not in {row.name for row in found.sections}


def test_operators_and_their_objects(library: Path, composition: Composition) -> None:
    found = explain(library, composition)
    assert member(found, MATMUL)[:2] == (0x100 + 0xC, ("MatMul",))
    assert member(found, STRINGS)[:2] == (0x30, ("Add", "MatMul"))
    assert member(found, API)[:2] == (0x300, ())
    assert member(found, "libcompiler_rt.a(libcompiler_rt.a.o)")[0] == 0x20
    rows = {row.name: (row.alone, row.shared) for row in found.operators}
    assert rows["MatMul"] == (0x10C + 0x60 + 0x180, 0x30)
    assert rows["com.microsoft:BiasGelu"] == (0x40, 0)


def test_how_an_object_came_in(library: Path, composition: Composition) -> None:
    found = explain(library, composition)
    _, operators, why = member(found, AVX)
    assert operators == ("MatMul",)
    assert why == (
        "the kernel of MatMul",
        "core/providers/cpu/math/matmul.cc needs MlasGemm",
        "core/mlas/lib/sgemm.cpp needs MlasSgemmKernelAvx",
        "core/mlas/lib/x86_64/SgemmKernelAvx.S",
    )
    assert member(found, REGISTRATIONS)[2] == (
        "OrtGetApiBase of the C API",
        "core/session/onnxruntime_c_api.cc needs onnxruntime::Provider::Provider",
        "core/providers/cpu/cpu_execution_provider.cc",
    )


def test_golden(library: Path, composition: Composition, update_golden: bool) -> None:
    found = explain(library, composition)
    chosen = [row for row in found.members if "sgemm" in row.name]
    shown = text_of(render_explanation(found, members=6)) + text_of(render_why(chosen))
    matches_golden("explain.txt", shown, update=update_golden)


def test_a_library_without_a_record_is_shown_by_its_sections(library: Path) -> None:
    found = explain(library, None)
    assert sum(row.bytes for row in found.sections) == found.bytes
    assert not found.members
    assert "no record" in text_of(render_explanation(found, members=5))


def test_a_library_whose_linker_writes_another_map_is_shown_by_its_sections(
    library: Path, composition: Composition
) -> None:
    found = explain(library, dataclasses.replace(composition, members=(), toolchain="gcc 12"))
    assert sum(row.bytes for row in found.sections) == found.bytes and "gcc 12" in found.about
    assert "linked by zig" in text_of(render_explanation(found, members=5))


def test_the_record_is_read_as_it_was_written(composition: Composition, tmp_path: Path) -> None:
    write_composition(composition, tmp_path / "a")
    assert read_composition(tmp_path / "a") == composition
    write_composition(read_composition(tmp_path / "a"), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("kind", ["runtime", "runtime-other", "program"])
def test_the_record_is_found_beside_the_library_or_by_its_digest(
    kind: str, library: Path, composition: Composition, tmp_path: Path
) -> None:
    store = Store(root=tmp_path / "store")
    assert find_composition(library, store) is None

    def make(folder: Path) -> None:
        (folder / "libonnxruntime.so.1.21.0").write_bytes(library.read_bytes())
        write_composition(composition, folder / COMPOSITION)

    entry = store.cached(kind, {"for": "test"}, make)
    assert (entry / ENTRY_FILE).is_file()
    assert find_composition(library, store) == composition
    write_composition(composition, library.parent.parent / COMPOSITION)
    assert find_composition(library, Store(root=tmp_path / "empty")) == composition
    library.write_bytes(library.read_bytes() + b"\0")
    assert find_composition(library, store) is None


def test_a_damaged_or_foreign_record_is_said(library: Path, composition: Composition, tmp_path: Path) -> None:
    path = library.parent / COMPOSITION
    for text in ("", "{}", "[]", json.dumps({"schema": 99})):
        path.write_text(text)
        with pytest.raises(BundleError):
            find_composition(library, Store(root=tmp_path / "store"))
    larger = tuple(
        dataclasses.replace(row, sections={".text": 0x700}) if row.name in (API, ADD) else row
        for row in composition.members
    )
    with pytest.raises(BundleError, match="belongs to another library"):
        explain(library, dataclasses.replace(composition, members=larger))


@pytest.mark.parametrize("content", [b"", b"text", b"\x7fELF\x02\x01\x01" + b"\xff" * 80])
def test_what_is_no_library(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "lib.so").write_bytes(content)
    with pytest.raises(BundleError):
        explain(tmp_path / "lib.so", None)
    with pytest.raises(BundleError, match="no library"):
        find_composition(tmp_path / "none.so", Store(root=tmp_path))


def test_the_operator_of_a_kernel() -> None:
    assert operator_of(KERNELS["MatMul"]) == "MatMul"
    assert operator_of(KERNELS["BiasGelu"]) == "com.microsoft:BiasGelu"
    assert operator_of("OrtGetApiBase") == "OrtGetApiBase"
