"""glibc, of the floor: zig's stubs to link against, and what runs before ``main``."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.files.elf import version_key
from edgepack.foundry.processor import Processor
from edgepack.foundry.symbols import archive_symbols, symbols
from edgepack.foundry.toolchain import HostLibraries

SCHEMA = "5"
"""Changes when other stubs are made."""
_WORK = "@WORK@"
_START = "Scrt1.o"
_STUBS = ("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "libld.so.2")


KNOWS_RELR = "2.36"
"""The first glibc whose loader knows packed relative relocations."""


@dataclass(frozen=True, kw_only=True)
class Glibc:
    """The devices' glibc, which a program is linked against."""

    glibc: str
    revision: str = field(default="", init=False)
    ends_threads: bool = field(default=True, init=False)

    @property
    def defines(self) -> tuple[str, ...]:
        return (f"__GLIBC_MINOR__={self.glibc.split('.')[1]}",)

    @property
    def packs_relocations(self) -> bool:
        return version_key(self.glibc) >= version_key(KNOWS_RELR)

    def platform(self, processor: Processor) -> str:
        return f"{processor.triple}.{self.glibc}"

    def headers(self, processor: Processor) -> tuple[str, ...]:
        return (f"libc/include/{processor.triple}", "libc/include/generic-glibc")

    def libraries(self, zig: Path, platform: str, *, identity: str, context: BuildContext) -> HostLibraries:
        return host_libraries(zig, platform, identity=identity, context=context)

    def start(self, zig: Path, platform: str, *, identity: str, context: BuildContext) -> Path:
        return program_start(zig, platform, identity=identity, context=context)

    def library_start(
        self, zig: Path, platform: str, *, identity: str, context: BuildContext
    ) -> tuple[Path, ...]:
        return ()

    def program_flags(self, processor: Processor) -> tuple[str, ...]:
        return ("-pie", "-dynamic-linker", processor.loader)

    def library_flags(self, processor: Processor) -> tuple[str, ...]:
        return ("-shared",)

    def licenses(self, zig: Path, version: str) -> Mapping[str, Path]:
        return {f"glibc-start-{version}.txt": Path(__file__).parent / "data/glibc-start.txt"}


def host_libraries(zig: Path, platform: str, *, identity: str, context: BuildContext) -> HostLibraries:
    """zig's stubs of the platform's glibc, from the store. ``identity`` is the toolchain's."""
    folder = context.store.cached(
        "libc-stubs",
        {"toolchain": identity, "schema": SCHEMA},
        lambda made: _make_stubs(zig, platform, made, context),
    )
    shared = [folder / name for name in _STUBS]
    offered = frozenset().union(
        *(symbols(path, dynamic=True).defines | symbols(path, dynamic=True).weak for path in shared)
    )
    static = (folder / "libc_nonshared.a", folder / "libcompiler_rt.a")
    offered |= frozenset().union(*map(archive_symbols, static))
    return HostLibraries(files=(*shared, *static), offered=offered)


def program_start(zig: Path, platform: str, *, identity: str, context: BuildContext) -> Path:
    """Start code that runs before ``main``: zig's for the platform's glibc, from the store."""
    folder = context.store.cached(
        "libc-start",
        {"toolchain": identity, "schema": SCHEMA},
        lambda made: _make_start(zig, platform, made, context),
    )
    return folder / _START


def zig_environment(cache: Path) -> Mapping[str, str]:
    """Environment in which zig keeps the C library stubs that it makes."""
    return {"ZIG_GLOBAL_CACHE_DIR": str(cache), "ZIG_LOCAL_CACHE_DIR": str(cache)}


def _make_start(zig: Path, platform: str, folder: Path, context: BuildContext) -> None:
    """Have zig link an empty program, and keep what it began it with."""
    text = "int main(void) { return 0; }\n"
    words = zig_links(zig, platform, ["build-exe", "-fPIE"], text, context)
    shutil.copyfile(next(word for word in words if word.endswith(f"/{_START}")), folder / _START)


def _make_stubs(zig: Path, platform: str, folder: Path, context: BuildContext) -> None:
    """Have zig link an empty library, and keep what it linked it against."""
    text = "int edgepack_empty(void) { return 0; }\n"
    words = zig_links(zig, platform, ["build-lib", "-dynamic"], text, context)
    for name in (*_STUBS, "libc_nonshared.a", "libcompiler_rt.a"):
        path = next(word for word in words if word.endswith(f"/{name}"))
        shutil.copyfile(path, folder / name)
    runtime = folder / "libcompiler_rt.a"
    runtime.write_bytes(_without_string_functions(runtime.read_bytes()))


def zig_links(zig: Path, platform: str, action: Sequence[str], text: str, context: BuildContext) -> list[str]:
    """The words of the link that zig makes of a C source."""
    work = context.work_dir / f"zig-{action[0]}"
    work.mkdir(exist_ok=True)
    (work / "empty.c").write_text(text)
    command: list[str | Path] = [zig, *action, "-target", platform, "-OReleaseSmall", "-lc"]
    log = work / "link.log"
    # It is added to, and another platform's link may have been made here before.
    log.unlink(missing_ok=True)
    context.run(
        [*command, "--name", "empty", "empty.c", "--verbose-link"],
        cwd=work,
        env=zig_environment(work / "cache"),
        log_file=log,
    )
    # zig quotes nothing, and the user's folder for temporary files may have a space in its name.
    words = log.read_text().replace(str(work), _WORK).split()
    return [word.replace(_WORK, str(work)) for word in words]


def _without_string_functions(archive: bytes) -> bytes:
    """zig's compiler runtime with other names for its memcpy and the like.

    The runtime is one object: who needs its 128-bit division gets its plain loops in the place of the C library's
    vector code too, and MiniLM a fifth slower.
    """
    for name in (b"memcpy", b"memmove", b"memset", b"memcmp", b"bcmp", b"strlen"):
        # Names share their ends in a string table, so what comes before may be anything.
        archive = archive.replace(name + b"\0", b"_" + name[1:] + b"\0")
    return archive
