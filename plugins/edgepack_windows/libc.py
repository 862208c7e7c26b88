"""musl on kernel32: musl's sources, as zig has them, with what they ask of Linux answered by Windows."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from edgepack.api import BuildContext
from edgepack.api.axes import Processor
from edgepack.api.kit import HostLibraries, archive_symbols, load_toml, zig_links
from edgepack_musl.api import Musl

SCHEMA = "2"
"""Changes when it is made otherwise."""
TARGET = "x86_64-linux-musl"
FLAGS = (
    # Windows keeps no thread pointer in a register that Linux' code could read.
    "-femulated-tls",
    "-mstack-protector-guard=global",
    # Windows writes below the stack's end when it tells of an exception, and makes its stack page by page.
    "-mno-red-zone",
    "-fstack-clash-protection",
)
"""For every object."""
MUSL_FLAGS = (
    *("-std=gnu99", "-Os", "-g0", "-fPIC", "-ffreestanding", "-fno-builtin", "-fno-strict-aliasing"),
    *("-frounding-math", "-ffp-contract=off", "-fno-stack-protector", "-fomit-frame-pointer", "-w"),
    *("-ffunction-sections", "-fdata-sections", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables"),
    "-D_XOPEN_SOURCE=700",
)
"""As zig compiles musl."""
START, LIBC, RUNTIME = "own-start.c.o", "libc.a", "libcompiler_rt.a"
LIBRARY = "library"
"""Folder of the objects that every library has in the place of the program's."""
IN_LIBRARIES = (
    *("clock", "errors", "exports", "files", "imports", "kernel", "library", "mapping", "realpath"),
    *("signals", "status", "text", "thread_local", "threads"),
)
"""The sources of those, compiled with ``LIBRARY`` defined."""
IN_LIBRARIES_ONLY = ("exports", "library")
FROM_MUSL_PLUGIN = ("malloc.c", "memory.c")
"""What the plugin for musl under Linux has in the place of musl's own."""
PART = 24
"""Sources that one run of the compiler is given."""


@dataclass(frozen=True)
class Win32Musl(Musl):
    """musl on kernel32, in every program that is linked: what it asks of compilers is musl's."""

    @cached_property
    def revision(self) -> str:
        texts = sorted(path.read_text(encoding="utf-8") for path in _own_files())
        words = (SCHEMA, *MUSL_FLAGS, *FLAGS, *texts)
        return hashlib.sha256("\0".join(words).encode()).hexdigest()[:16]

    def libraries(self, zig: Path, platform: str, *, identity: str, context: BuildContext) -> HostLibraries:
        folder = self._made(zig, platform, identity, context)
        libraries = (folder / LIBC, folder / RUNTIME)
        return HostLibraries(files=libraries, offered=frozenset().union(*map(archive_symbols, libraries)))

    def start(self, zig: Path, platform: str, *, identity: str, context: BuildContext) -> Path:
        return self._made(zig, platform, identity, context) / START

    def program_flags(self, processor: Processor) -> tuple[str, ...]:
        return ("-static", "-pie", "--no-dynamic-linker", "-z", "text", "-z", "separate-code")

    def library_start(
        self, zig: Path, platform: str, *, identity: str, context: BuildContext
    ) -> tuple[Path, ...]:
        folder = self._made(zig, platform, identity, context) / LIBRARY
        return tuple(folder / f"own-{name}.c.o" for name in IN_LIBRARIES)

    def library_flags(self, processor: Processor) -> tuple[str, ...]:
        """Windows' loader knows no symbols of ELF: ``pe`` reads what is exported off a table, and all is linked as a program is."""
        return self.program_flags(processor)

    def _made(self, zig: Path, platform: str, identity: str, context: BuildContext) -> Path:
        return context.store.cached(
            "musl-win32",
            {"toolchain": identity, "revision": self.revision},
            lambda folder: _make(zig, platform, folder, context),
        )


def _own_files() -> Iterator[Traversable]:
    """Everything that decides what is made, but for musl itself."""
    package = files("edgepack_windows")
    yield package / "musl.toml"
    for folder in (package / "csrc", package / "csrc/arch"):
        yield from sorted((path for path in folder.iterdir() if path.is_file()), key=lambda path: path.name)
    for name in FROM_MUSL_PLUGIN:
        yield files("edgepack_musl") / "csrc" / name


def _make(zig: Path, platform: str, folder: Path, context: BuildContext) -> None:
    """Compile everything; what runs first lies beside the library."""
    work = context.work_dir / "musl-win32"
    own = _lay_own(work / "own")
    musl = zig.parent / "lib/libc/musl"
    sources = [path for path in own if path.stem not in IN_LIBRARIES_ONLY]
    objects = _compile(zig, [*_musl_sources(musl), *sources], work, context)
    (folder / LIBRARY).mkdir()
    wanted = [path for path in own if path.stem in IN_LIBRARIES]
    for each in _compile(zig, wanted, work, context, "-DLIBRARY"):
        each.replace(folder / LIBRARY / each.name)
    start = next(path for path in objects if path.name == START)
    start.replace(folder / START)
    context.run([zig, "ar", "rcsD", folder / LIBC, *(path for path in objects if path != start)], cwd=work)
    words = zig_links(zig, platform, ["build-exe", "-fPIE"], "int main(void) { return 0; }\n", context)
    runtime = next(word for word in words if word.endswith(f"/{RUNTIME}"))
    (folder / RUNTIME).write_bytes(Path(runtime).read_bytes())


def _lay_own(folder: Path) -> list[Path]:
    """The plugin's own sources, written out; those that are compiled."""
    (folder / "arch").mkdir(parents=True)
    for file in _own_files():
        place = folder / ("arch" if file.name.endswith("_arch.h") else ".") / file.name
        place.write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    return sorted(folder.glob("*.c"))


def _musl_sources(musl: Path) -> list[Path]:
    """Those that musl.toml names; of a source the processor's own, where there is one."""
    found = []
    for folder, names in sorted(load_toml(files("edgepack_windows") / "musl.toml")["sources"].items()):
        place = musl / "src" / folder
        left_out = {name[1:] for name in names if name.startswith("-")}
        wanted = [name for name in names if name != "*" and not name.startswith("-")]
        if "*" in names:
            wanted += sorted(path.stem for path in place.glob("*.c") if path.stem not in left_out)
        for name in wanted:
            special = [place / "x86_64" / f"{name}{suffix}" for suffix in (".c", ".s", ".S")]
            found.append(next((path for path in special if path.is_file()), place / f"{name}.c"))
    return found


def _compile(zig: Path, sources: Sequence[Path], work: Path, context: BuildContext, *more: str) -> list[Path]:
    """The objects of these sources, named after folder and source; ``more``: flags."""
    library = zig.parent / "lib"
    musl = library / "libc/musl"
    includes = [
        *(work / "own", work / "own/arch", musl / "arch/x86_64", musl / "arch/generic"),
        *(musl / "src/include", musl / "src/internal"),
        *(library / "libc/include" / TARGET, library / "libc/include/generic-musl", library / "include"),
    ]
    command: list[str | Path] = [zig, "clang", "-target", TARGET, *FLAGS, *MUSL_FLAGS, *more, "-nostdinc"]
    command += [f"-I{folder}" for folder in includes]

    def compile(part: tuple[int, Sequence[Path]]) -> list[Path]:
        folder = work / f"{'-'.join(more)}{part[0]}"
        folder.mkdir()
        made = []
        for source in part[1]:
            made.append(folder / f"{source.parent.name}-{source.name}.o")
            context.run([*command, "-c", source, "-o", made[-1]], cwd=folder)
        return made

    parts = [sources[start : start + PART] for start in range(0, len(sources), PART)]
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        return [path for made in workers.map(compile, enumerate(parts)) for path in made]
