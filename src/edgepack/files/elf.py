"""What ELF files ask of the system that loads them: shared libraries, and how new a C library."""

import posixpath
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from mmap import mmap
from pathlib import Path, PurePosixPath

from edgepack.errors import BundleError
from edgepack.files.elf_reader import (
    DF_1_PIE,
    DT_FLAGS_1,
    DT_NEEDED,
    DT_RELR,
    DT_RPATH,
    DT_RUNPATH,
    DT_SONAME,
    MACHINES,
    MAGIC,
    PT_INTERP,
    SHT_DYNSYM,
    SHT_NOBITS,
    SHT_NULL,
    STB_WEAK,
    UNDEFINED,
    Elf,
    ElfError,
    opened_elf,
    read_elf,
)

SYSTEM_LIBRARIES = frozenset(
    {
        "libc.so.6",
        "libdl.so.2",
        "libm.so.6",
        "libpthread.so.0",
        "librt.so.1",
    }
)
"""What a bundle may take from a device: the C library and its parts, beside its loader."""

_LOADER = re.compile(r"ld-linux(?:-[\w-]+)?\.so\.\d|ld-musl-\w+\.so\.1")
_MUSL = re.compile(r"libc\.so|libc\.musl-\w+\.so\.1|ld-musl-\w+\.so\.1")
"""What programs for musl need: of zig's and gcc's making, and Alpine's."""

UNSOUND_HINT = (
    "if it is a shared library or a program for Linux, it is damaged or was cut short: copy it again"
)

LIBRARY_NAME = re.compile(rb"(?<=\0)lib[A-Za-z][\w+-]*\.so(?:\.\d+)*(?=\0)")


@dataclass(frozen=True, kw_only=True)
class Needs:
    """Requirements of one ELF file."""

    libraries: tuple[str, ...] = ()
    """``DT_NEEDED`` in file order, e.g. ``("libm.so.6", "libc.so.6")``."""
    versions: frozenset[str] = frozenset()
    """Symbol versions it asks of them, e.g. ``{"GLIBC_2.17", "CXXABI_1.3"}``."""
    packed_relocations: bool = False
    """``DT_RELR``, which glibc before 2.36 does not know; not every linker says so by a symbol version. Static programs
    apply their own."""


def is_system_library(name: str) -> bool:
    """Whether every device has a library of this name: a part of its C library."""
    return name in SYSTEM_LIBRARIES or bool(_LOADER.fullmatch(name) or _MUSL.fullmatch(name))


def c_library(path: Path) -> str | None:
    """The C library that an ELF file was linked against, ``glibc`` or ``musl``; None: neither, it is static or needs none.

    By the loader that a program names, the libraries that it needs, and the versions of their symbols. Raises ``BundleError``.
    """
    with sound_elf(path) as file:
        loaders = [
            file.content[at.offset : at.offset + at.in_file] for at in file.segments if at.kind == PT_INTERP
        ]
        named = [loader.rstrip(b"\0").decode(errors="replace").rpartition("/")[2] for loader in loaders]
        named += file.dynamic_texts(DT_NEEDED)
        versions = {version.name for version in file.needed_versions()}
    if any(_MUSL.fullmatch(name) for name in named):
        return "musl"
    of_glibc = "libc.so.6" in named or any(_LOADER.fullmatch(name) for name in named)
    return "glibc" if of_glibc or any(name.startswith("GLIBC_") for name in versions) else None


def interpreter(path: Path) -> str | None:
    """The loader that an ELF program names, e.g. ``/lib64/ld-linux-x86-64.so.2``; None for a static one. Raises ``BundleError``."""
    with sound_elf(path) as file:
        for at in file.segments:
            if at.kind == PT_INTERP:
                return file.content[at.offset : at.offset + at.in_file].rstrip(b"\0").decode(errors="replace")
    return None


def is_static(path: Path) -> bool:
    """Whether a file is an ELF file that is linked against no C library. Raises ``BundleError`` for a damaged one."""
    return is_elf(path) and c_library(path) is None


def is_elf(path: Path) -> bool:
    """Whether a file is an ELF file."""
    with path.open("rb") as stream:
        return stream.read(4) == MAGIC


def architecture(path: Path) -> str | None:
    """The processor that an ELF file is for, as ``platform.machine()`` says it; None for others and other files."""
    with path.open("rb") as stream:
        head = stream.read(20)
    name, _ = MACHINES.get(int.from_bytes(head[18:20], "little"), (None, 0))
    return name if head.startswith(MAGIC) else None


def elf_files(folder: Path) -> Iterator[Path]:
    """All ELF files below a folder, sorted; symbolic links are left out."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and is_elf(path):
            yield path


@contextmanager
def sound_elf(path: Path) -> Iterator[Elf[mmap]]:
    """A file to be read. Raises ``BundleError`` for one that cannot be read, is no ELF file, or is damaged."""
    try:
        with opened_elf(path) as file:
            yield file
    except OSError as error:
        raise BundleError(f"{path} cannot be read: {error.strerror}") from error
    except ElfError as error:
        raise BundleError(f"{path} is not a valid ELF file: {error}", hint=UNSOUND_HINT) from error


def read_needs(path: Path) -> Needs:
    """Requirements of an ELF file on its system; a static one has none. Raises ``BundleError`` for a damaged file."""
    with sound_elf(path) as file:
        return Needs(
            libraries=tuple(file.dynamic_texts(DT_NEEDED)),
            versions=frozenset(version.name for version in file.needed_versions()),
            packed_relocations=any(tag == DT_RELR for tag, _ in file.dynamic()) and not _is_static(file),
        )


def _is_static(file: Elf[mmap]) -> bool:
    """Whether it is a program (static-pie) that no loader loads."""
    is_program = any(tag == DT_FLAGS_1 and flags & DF_1_PIE for tag, flags in file.dynamic())
    return is_program and all(segment.kind != PT_INTERP for segment in file.segments)


def needed_libraries(path: Path) -> tuple[str, ...]:
    """The shared libraries that a file names (``DT_NEEDED``), in file order."""
    return read_needs(path).libraries


def soname(path: Path) -> str | None:
    """The name that a shared library goes by for others (``DT_SONAME``), or None. Raises ``BundleError``."""
    with sound_elf(path) as file:
        return next(iter(file.dynamic_texts(DT_SONAME)), None)


def unused_libraries(path: Path, *, among: Collection[str]) -> tuple[str, ...]:
    """Libraries in ``among`` that a file names, but that it imports no symbol of; in file order.

    Which library a symbol is of is what its version says, so all symbols of the libraries in ``among`` must have one: a
    library that versions none of them would look unused. Raises ``BundleError``.
    """
    with sound_elf(path) as file:
        imported = set(file.symbol_versions())
        used = {version.library for version in file.needed_versions() if version.number in imported}
        return tuple(name for name in file.dynamic_texts(DT_NEEDED) if name in among and name not in used)


def opened_libraries(path: Path) -> tuple[str, ...]:
    """Libraries that a file may open by itself (``dlopen``): names of libraries among its bytes that it does not need; sorted."""
    found = {name.decode() for name in LIBRARY_NAME.findall(path.read_bytes())}
    known = {*needed_libraries(path), soname(path), path.name}
    return tuple(sorted(name for name in found - known if not is_system_library(name)))


def run_paths(path: Path) -> tuple[str, ...]:
    """Folders in which a file's libraries are looked for before the system's (``DT_RPATH``, ``DT_RUNPATH``), e.g. ``$ORIGIN``."""
    with sound_elf(path) as file:
        texts = [*file.dynamic_texts(DT_RPATH), *file.dynamic_texts(DT_RUNPATH)]
    return tuple(folder for text in texts if text for folder in text.split(":"))


def foreign_run_paths(path: Path, folder: Path) -> tuple[str, ...]:
    """Run paths of a file below a folder that lead out of it; an empty one is the folder where a program is started."""
    place = path.relative_to(folder).parent.as_posix()

    def leads_out(run_path: str) -> bool:
        begin, rest = re.fullmatch(r"(\$ORIGIN|\$\{ORIGIN\})?(.*)", run_path, re.DOTALL).groups()  # type: ignore[union-attr]
        if begin is None or not (rest.startswith("/") or not rest):
            return True
        return PurePosixPath(posixpath.normpath(f"{place}{rest}")).parts[:1] == ("..",)

    return tuple(each for each in run_paths(path) if leads_out(each))


def foreign_libraries(folder: Path) -> dict[Path, tuple[str, ...]]:
    """For each ELF file below a folder, what it needs that is neither the C library's nor in the folder."""
    files = list(elf_files(folder))
    inside = {path.name for path in files}
    foreign = {
        path: tuple(
            name for name in needed_libraries(path) if not is_system_library(name) and name not in inside
        )
        for path in files
    }
    return {path: names for path, names in foreign.items() if names}


def glibc_floor(path: Path) -> str | None:
    """The oldest glibc that a file loads on, e.g. ``"2.28"``: its highest ``GLIBC_`` symbol version; or None.

    Packed relocations (``GLIBC_ABI_DT_RELR``), which glibc before 2.36 cannot load, count as 2.36.
    """
    needs = read_needs(path)
    floors = [floor for name in needs.versions if (floor := _floor_of_version(name))]
    floors += ["2.36"] if needs.packed_relocations else []
    return max(floors, key=version_key, default=None)


def _floor_of_version(name: str) -> str | None:
    if name == "GLIBC_ABI_DT_RELR":
        return "2.36"
    found = re.fullmatch(r"GLIBC_(\d+(?:\.\d+)+)", name)
    return found[1] if found else None


def version_key(version: str) -> tuple[int, ...]:
    """A dotted version as something that sorts: ``2.9`` before ``2.17``."""
    return tuple(int(part) for part in version.split("."))


def floor_of(folder: Path) -> str | None:
    """The oldest glibc that every ELF file below a folder loads on, or None when none asks for a versioned symbol."""
    floors = [floor for path in elf_files(folder) if (floor := glibc_floor(path))]
    return max(floors, key=version_key, default=None)


def undefined_symbols(path: Path, *, versions: tuple[str, ...]) -> set[str]:
    """Names of the symbols that a file asks of others under versions that begin with one of ``versions``."""
    with sound_elf(path) as file:
        wanted = {version.number for version in file.needed_versions() if version.name.startswith(versions)}
        indices = file.symbol_versions()
        return {
            name
            for (name, _, _), index in zip(file.symbols(SHT_DYNSYM), indices, strict=bool(indices))
            if index in wanted
        }


def rename_needed(path: Path, old: str, new: str) -> None:
    """Let a file ask for another library; the name must be as long, so that nothing in the file moves."""
    content = path.read_bytes()
    before, after = (b"\0" + name.encode() + b"\0" for name in (old, new))
    if len(before) != len(after) or content.count(before) != 1:
        raise BundleError(f"{path} does not name {old} just once, or {new} is not as long")
    path.write_bytes(content.replace(before, after))


def weaken_undefined(path: Path, *, prefix: str) -> None:
    """Make undefined dynamic symbols whose names begin with ``prefix`` weak: a loader lets them be missing."""
    content = bytearray(path.read_bytes())
    file = read_elf(content)
    table = file.section(".dynsym")
    if table is None:
        raise BundleError(f"{path} has no dynamic symbols")
    info_at = 4 if file.bits == 64 else 12  # st_info in Elf64_Sym, in Elf32_Sym
    for index, (name, info, section) in enumerate(file.symbols(SHT_DYNSYM)):
        if name.startswith(prefix) and section == UNDEFINED:
            content[table.offset + index * file.format.symbol.size + info_at] = STB_WEAK << 4 | info & 0xF
    path.write_bytes(content)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Layout of an ELF file in bytes; what is in no section and no header is padding."""

    headers: int
    """ELF header, program headers and section table."""
    sections: dict[str, int]
    """Section → bytes in the file: none for sections like ``.bss``. Sections of one name are counted together."""


def file_layout(path: Path) -> Layout:
    """How an ELF file is laid out. Raises ``BundleError`` for other files and damaged ones."""
    with sound_elf(path) as file:
        sections: dict[str, int] = {}
        for section in file.sections:
            if section.kind != SHT_NULL:
                taken = section.size if section.kind != SHT_NOBITS else 0
                sections[section.name] = sections.get(section.name, 0) + taken
        tables = len(file.segments) * file.format.segment.size + len(file.sections) * file.format.section.size
        return Layout(headers=file.format.header.size + tables, sections=sections)
