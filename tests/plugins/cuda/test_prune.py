"""Pruned libraries: smaller, loadable, the same in memory but for the code that went, and understood again."""

import ctypes
import hashlib
import shutil
import subprocess
import sys
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from tests.support.cuda_libraries import UNITS, Unit, library
from tests.support.recording_cudart import assert_registered, compile_recorder, registrations

from edgepack.api import BundleError, TargetError
from edgepack.files.elf_reader import ELF64, SHF_ALLOC, SHT_NOBITS
from edgepack_cuda.fatbin import ENTRY, NO_CODE, Fatbin, fatbin_bytes, read_fatbins
from edgepack_cuda.image import memory_of, punch, read_image
from edgepack_cuda.inspect import inspect_device_code
from edgepack_cuda.lists import select_units
from edgepack_cuda.prune import blobs_of, device_code, prune, runs_on

pytestmark = pytest.mark.tools("gcc", "strip", "python")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return library(tmp_path_factory.mktemp("whole"))


def cubins(content: bytes) -> dict[tuple[int, str], str]:
    """SHA-256 of each unpacked piece of code, by unit and architecture."""
    _, code, fatbins = device_code(read_image(content, "it"), "it")
    return {
        (fatbin.index, each.architecture): hashlib.sha256(each.content(code)).hexdigest()
        for fatbin in fatbins
        for each in fatbin.codes
    }


def test_only_the_wanted_architecture_stays_as_it_was(whole: Path) -> None:
    before = cubins(whole.read_bytes())
    made = prune(whole.read_bytes(), whole.name, architectures=["86"])
    after = cubins(made.content)
    assert {architecture for _, architecture in after} == {"86"}
    assert after == {key: digest for key, digest in before.items() if key[1] == "86"}
    assert (made.units, made.units_before) == (3, 4)
    assert len(made.content) < 0.55 * whole.stat().st_size


def test_only_the_wanted_units_stay(whole: Path) -> None:
    made = prune(whole.read_bytes(), whole.name, architectures=["86"], units={0, 2})
    assert set(cubins(made.content)) == {(0, "86"), (2, "86")}
    _, _, fatbins = device_code(read_image(made.content, "it"), "it")
    assert [len(fatbin.codes) for fatbin in fatbins] == [1, 0, 1, 0], "units that went are empty, not absent"


def test_it_loads_and_points_at_what_was_kept(whole: Path, tmp_path: Path) -> None:
    """In a process of its own, all symbols bound at once: what each relocation points at is the fat binary it was."""
    content = whole.read_bytes()
    made = prune(content, whole.name, architectures=["86"], units={0, 2})
    path = tmp_path / "pruned.so"
    path.write_bytes(made.content)
    script = (
        "import ctypes, sys\n"
        "loaded = ctypes.CDLL(sys.argv[1], mode=2)  # RTLD_NOW\n"
        "loaded.fatbin_of.restype = ctypes.c_void_p\n"
        "assert loaded.answer() == 42\n"
        "for index, size in enumerate(map(int, sys.argv[2:])):\n"
        "    print(ctypes.string_at(loaded.fatbin_of(index), size).hex())\n"
    )
    _, code, fatbins = device_code(read_image(content, "it"), "it")
    kept = [
        replace(
            fatbin,
            codes=tuple(c for c in fatbin.codes if c.architecture == "86" and fatbin.index in (0, 2)),
        )
        for fatbin in fatbins
    ]
    expected = [fatbin_bytes(code, fatbin) for fatbin in kept]
    sizes = [str(len(each)) for each in expected]
    done = subprocess.run(
        [sys.executable, "-c", script, path, *sizes], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [each.hex() for each in expected]


def test_punching_changes_no_byte_in_memory_and_no_relocation(whole: Path) -> None:
    content = whole.read_bytes()
    image = read_image(content, "it")
    section = image.section(".nv_fatbin")
    assert section is not None
    start = image.offset_of(section.address) + 20_000
    image.content[start : start + 400_000] = bytes(400_000)
    small = read_image(punch(image), "it")
    assert memory_of(small)[ELF64.header.size :] == memory_of(image)[ELF64.header.size :]
    assert relocations(small.content) == relocations(image.content) != []
    assert len(small.content) < len(image.content) - 380_000


def relocations(content: bytes | bytearray) -> list[object]:
    """Those with an addend, read by other code than edgepack's."""
    section = ELFFile(BytesIO(content)).get_section_by_name(".rela.dyn")
    assert isinstance(section, RelocationSection)
    return [each.entry for each in section.iter_relocations()]


def test_what_has_no_zeros_is_as_large_as_it_was(whole: Path) -> None:
    image = read_image(whole.read_bytes(), "it")
    assert len(punch(image)) == pytest.approx(len(image.content), abs=8192)


def test_pruning_again_gives_the_same(whole: Path) -> None:
    once = prune(whole.read_bytes(), "it", architectures=["86"])
    again = prune(once.content, "it", architectures=["86"])
    assert cubins(again.content) == cubins(once.content)
    assert again.code_bytes == once.code_bytes


def test_cubins_among_the_constants_go_with_their_architecture(whole: Path) -> None:
    assert [each[2] for each in blobs_of(read_image(whole.read_bytes(), "it"))] == ["80", "90"]
    kept = prune(whole.read_bytes(), "it", architectures=["86"])
    assert [each[2] for each in blobs_of(read_image(kept.content, "it"))] == ["80"], "8.0 runs on 8.6"
    assert kept.blobs_dropped == 1
    assert prune(whole.read_bytes(), "it", architectures=["86"], blobs=False).blobs_dropped == 2


def test_the_nearest_code_is_taken_and_ptx_where_there_is_none(tmp_path: Path) -> None:
    units = (
        Unit(kernels=("_Z1a",), architectures=("80",), ptx="80"),
        Unit(kernels=("_Z1b",), architectures=("80", "86", "89")),
        Unit(kernels=("_Z1c",), architectures=("75",), ptx="75"),
    )
    path = library(tmp_path, units)
    made = prune(path.read_bytes(), path.name, architectures=["89"])
    assert set(cubins(made.content)) == {(0, "80"), (1, "89"), (2, "75")}
    _, _, fatbins = device_code(read_image(made.content, "it"), "it")
    assert [each.kind for fatbin in fatbins for each in fatbin.codes] == ["cubin", "cubin", "ptx"]


def test_several_architectures(whole: Path) -> None:
    made = prune(whole.read_bytes(), "it", architectures=["86", "90"])
    assert {architecture for _, architecture in cubins(made.content)} == {"86", "90a"}
    assert made.architectures == ("86", "90a")


@pytest.mark.parametrize(
    ("code", "device", "expected"),
    [
        ("80", "86", True),
        ("86", "80", False),
        ("90a", "90", True),
        ("90a", "100", False),
        ("90", "100", False),
    ],
)
def test_binary_compatibility(code: str, device: str, expected: bool) -> None:
    assert runs_on(code, device) is expected


def test_an_architecture_without_code(whole: Path) -> None:
    with pytest.raises(
        TargetError, match=r"libkernels.so has no code that runs on compute capability 12.0"
    ) as info:
        prune(whole.read_bytes(), whole.name, architectures=["120"])
    assert info.value.hint is not None
    assert "8.0, 8.6, 9.0a" in info.value.hint
    assert "9.0a on 9.0 alone" in info.value.hint
    with pytest.raises(TargetError, match="'sm_86' is not an architecture") as caught:
        prune(whole.read_bytes(), whole.name, architectures=["sm_86"])
    assert caught.value.hint is not None and "e.g. 8.6" in caught.value.hint


def test_a_library_without_device_code(tmp_path: Path) -> None:
    path = tmp_path / "libplain.so"
    subprocess.run(["gcc", "-shared", "-x", "c", "-o", path, "-"], input="int a;", text=True, check=True)
    with pytest.raises(BundleError, match=r"libplain.so holds no device code"):
        prune(path.read_bytes(), path.name, architectures=["86"])


@pytest.mark.parametrize("left", [0, 10, 100, 5000, 0.5])
def test_a_library_that_is_cut_short(whole: Path, left: float) -> None:
    content = whole.read_bytes()
    size = int(left if isinstance(left, int) else len(content) * left)
    with pytest.raises(
        BundleError, match=r"libkernels.so (is not a valid ELF file|is truncated|is not an ELF file)"
    ):
        prune(content[:size], whole.name, architectures=["86"])


def test_what_is_no_library(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="is not an ELF file"):
        prune(b"MZ" + bytes(500), "kernels.dll", architectures=["86"])


@pytest.mark.parametrize(
    ("at", "content"),
    [(4, b"\x01"), (5, b"\x02"), (16, b"\x02\x00"), (18, b"\xb7\x00"), (18, b"\xbe\x00")],
    ids=["32 bits", "big-endian", "a program", "aarch64", "a cubin"],
)
def test_a_library_for_another_machine(whole: Path, at: int, content: bytes) -> None:
    changed = bytearray(whole.read_bytes())
    changed[at : at + len(content)] = content
    with pytest.raises(BundleError, match=r"libkernels.so is not a shared library for x86-64"):
        prune(changed, whole.name, architectures=["86"])


OLD = 0x2000
"""How CUDA before 12.4 marks what it packed, in a way of its own."""


def test_code_that_is_packed_in_another_way(tmp_path: Path) -> None:
    """It stays as it is; only names are not known, so that no unit can be chosen by them."""
    packed_otherwise = Unit(kernels=("_Z1a",), architectures=("80", "86"), packing=OLD)
    path = library(tmp_path, (packed_otherwise, UNITS[0]))
    content = path.read_bytes()
    made = prune(content, path.name, architectures=["86"])
    _, code, fatbins = device_code(read_image(made.content, "it"), "it")
    assert [each.architecture for fatbin in fatbins for each in fatbin.codes] == ["86", "86"]
    with pytest.raises(BundleError, match="compression of older CUDA versions"):
        fatbins[0].codes[0].content(code)
    notes: list[str] = []
    assert select_units(content, "it", "1.31.1", ["Add"], architectures=["86"], note=notes.append) is None
    assert (
        "the kernels' names cannot be read (the device code uses a compression of older CUDA versions"
        in notes[0]
    )
    assert inspect_device_code(path).units[0].kernels == ()
    assert inspect_device_code(path).units[1].kernels


def test_a_library_without_section_headers(whole: Path) -> None:
    content = bytearray(whole.read_bytes())
    content[40:48] = bytes(8)
    content[58:64] = bytes(6)
    with pytest.raises(BundleError, match="has no section headers"):
        prune(content, whole.name, architectures=["86"])


def test_a_stripped_library_is_as_good(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / whole.name
    shutil.copy(whole, path)
    subprocess.run(["strip", path], check=True)
    assert {a for _, a in cubins(prune(path.read_bytes(), path.name, architectures=["86"]).content)} == {"86"}


@pytest.mark.parametrize("at", [0, 4, 6, 8, 16, 20, 24])
def test_damaged_device_code_is_no_device_code(at: int) -> None:
    content = bytearray(UNITS[0].fatbin())
    content[at : at + 4] = b"\xff\xff\xff\x7f"
    with pytest.raises(BundleError, match=r"unknown kind|truncated"):
        read_fatbins(bytes(content))


def test_code_that_changed_is_noticed(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof compares what was written with what should have been."""
    from edgepack_cuda import prune as module

    def careless(image: object) -> bytes:
        content = bytearray(punch(image))  # type: ignore[arg-type]
        again = read_image(content, "it")
        section = again.section(".nv_fatbin")
        assert section is not None
        content[again.offset_of(section.address) + 100] ^= 1
        return bytes(content)

    monkeypatch.setattr(module, "punch", careless)
    with pytest.raises(BundleError, match="changed"):
        prune(whole.read_bytes(), "it", architectures=["86"])


def test_the_loader_really_maps_zeros_where_the_file_has_none(whole: Path, tmp_path: Path) -> None:
    made = prune(whole.read_bytes(), "it", architectures=["86"], units={0})
    path = tmp_path / "pruned.so"
    path.write_bytes(made.content)
    loaded = ctypes.CDLL(str(path))
    loaded.fatbin_of.restype = ctypes.c_void_p
    _, _, fatbins = device_code(read_image(whole.read_bytes(), "it"), "it")
    dead = ctypes.string_at(loaded.fatbin_of(1), fatbins[1].size)
    assert dead[16:].startswith(NO_CODE)
    assert dead[16 + len(NO_CODE) :] == bytes(len(dead) - 16 - len(NO_CODE))


def test_the_runtime_is_given_just_what_was_kept(whole: Path, tmp_path: Path) -> None:
    """What each unit's constructor registers, in memory, and whether every kernel that it names is there."""
    content = whole.read_bytes()
    made = prune(content, whole.name, architectures=["86"], units={0, 2})
    path = tmp_path / "pruned.so"
    path.write_bytes(made.content)
    found = registrations(compile_recorder(tmp_path), path, record=tmp_path / "record")
    before = registrations(compile_recorder(tmp_path), whole, record=tmp_path / "record")
    assert_registered(found, path.read_bytes(), kept={0, 2})
    assert [unit.kernels for unit in found] == [unit.kernels for unit in before]


def test_what_is_left_of_a_unit_is_code_for_another_gpu() -> None:
    (fatbin,) = read_fatbins(fatbin_bytes(b"", Fatbin(index=0, offset=0, size=10_000, codes=())))
    assert fatbin.codes == ()
    _, _, head, size, _, _, _, architecture, _, _ = ENTRY.unpack_from(NO_CODE)
    assert (architecture, head + size) == (110, len(NO_CODE))
    cubin = ELFFile(BytesIO(NO_CODE[head:]))
    assert cubin["e_machine"] == "EM_CUDA"
    assert [section.name for section in cubin.iter_sections()] == ["", ".shstrtab"]


def test_a_unit_that_is_smaller_than_that_is_left_without_any_entry() -> None:
    small = Fatbin(index=0, offset=0, size=100, codes=())
    assert len(fatbin_bytes(b"", small)) == 16


def test_a_library_that_chooses_its_code_itself_keeps_lower_capabilities(tmp_path: Path) -> None:
    """As cuBLAS does, which fails where only the nearest is left."""
    path = library(tmp_path, (Unit(kernels=("_Z1a",), architectures=("75", "80", "86", "89", "90")),))
    made = prune(path.read_bytes(), path.name, architectures=["86"], nearest=False)
    assert {architecture for _, architecture in cubins(made.content)} == {"80", "86"}


def test_tools_that_go_by_sections_find_nothing_beyond_the_file(whole: Path) -> None:
    """NVIDIA's cuobjdump refuses a file of which a section reaches beyond the end, whatever segments say."""
    content = prune(whole.read_bytes(), "it", architectures=["86"], units={0, 2}).content
    image = read_image(content, "it")
    in_file = [each for each in image.sections if each.kind not in (0, SHT_NOBITS)]
    assert max(each.offset + each.size for each in in_file) <= len(content)
    for each in in_file:
        if each.flags & SHF_ALLOC:
            piece = content[each.offset : each.offset + each.size]
            assert piece == image.memory(each.address, each.size), each.name
