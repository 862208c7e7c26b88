"""The final link: only what is reachable from the C API, identical code folded, nothing but the C API visible."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.errors import ToolError
from edgepack.files.store import key_of, require_space
from edgepack.foundry.compile.symbols import archive_symbols, symbols
from edgepack.foundry.toolchains.choose import Toolchain, zig_environment

SONAME = "libonnxruntime.so.1"
SCHEMA = "5"
"""Changes when the same objects are linked otherwise."""
OF_THE_LINKER = frozenset(
    {"__dso_handle", "__start___lcxx_override", "__stop___lcxx_override", "_GLOBAL_OFFSET_TABLE_"}
)
_EMULATION = {"x86_64": "elf_x86_64", "aarch64": "aarch64linux"}
_LOADER = {"x86_64": "/lib64/ld-linux-x86-64.so.2", "aarch64": "/lib/ld-linux-aarch64.so.1"}
_START = "Scrt1.o"
_STUBS = ("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "libld.so.2")


@dataclass(frozen=True, kw_only=True)
class HostLibraries:
    """What the C library of the floor offers to link against."""

    files: tuple[Path, ...]
    offered: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class ProgramStart:
    """What runs before ``main``."""

    object: Path
    loader: str
    """The dynamic loader's place on the device."""


def host_libraries(toolchain: Toolchain, *, context: BuildContext) -> HostLibraries:
    """zig's stubs of the floor's glibc, from the store; with gcc nothing: it finds the system's libraries itself."""
    if toolchain.family == "gcc":
        return HostLibraries(files=(), offered=frozenset())
    folder = context.store.cached(
        "libc-stubs",
        {"toolchain": toolchain.identity, "schema": SCHEMA},
        lambda made: _make_stubs(toolchain, made, context),
    )
    shared = [folder / name for name in _STUBS]
    offered = frozenset().union(
        *(symbols(path, dynamic=True).defines | symbols(path, dynamic=True).weak for path in shared)
    )
    static = (folder / "libc_nonshared.a", folder / "libcompiler_rt.a")
    offered |= frozenset().union(*map(archive_symbols, static))
    return HostLibraries(files=(*shared, *static), offered=offered | OF_THE_LINKER)


def link(
    objects: Sequence[Path],
    output: Path,
    *,
    map_file: Path,
    log_file: Path,
    version: str,
    exports: Sequence[str],
    toolchain: Toolchain,
    libraries: HostLibraries,
    unwinds: bool = False,
    context: BuildContext,
) -> None:
    """Link ``output``, stripped, named as upstream names it, and write the linker's map. Raises ``ToolError``.

    ``unwinds`` says that exceptions are thrown in it.
    """
    script = context.work_dir / f"exports-{key_of({'output': str(output)})[:12]}.map"
    script.write_text(f"VERS_{version} {{ global: {' '.join(f'{name};' for name in exports)} local: *; }};\n")
    flags = [
        "--gc-sections",
        "-O2",
        "--hash-style=gnu",
        "--build-id=none",
        "-z",
        "now",
        "-z",
        "relro",
        "-z",
        "noexecstack",
    ]
    flags += ["-soname", SONAME, "--version-script", str(script), "--no-undefined", "-s"]
    for name in exports:
        flags += ["-u", name]
    if toolchain.family == "gcc":
        command = _with_gcc(toolchain, objects, output, [*flags, "-Map", str(map_file)])
    else:
        flags += ["--icf=all", "-Map", str(map_file), *(["--eh-frame-hdr"] if unwinds else [])]
        if _relr(toolchain):
            flags.append("--pack-dyn-relocs=relr")
        command = [
            str(toolchain.program),
            "ld.lld",
            "-m",
            _EMULATION[toolchain.arch],
            "-shared",
            "-o",
            str(output),
        ]
        command += [*flags, *map(str, objects), "--as-needed", *map(str, libraries.files)]
    _run(command, objects, output, log_file, context)


def link_program(
    objects: Sequence[Path],
    output: Path,
    *,
    map_file: Path,
    log_file: Path,
    exports: Sequence[str],
    start: ProgramStart,
    toolchain: Toolchain,
    libraries: HostLibraries,
    unwinds: bool = False,
    context: BuildContext,
) -> None:
    """Link a program, or with ``exports`` a shared library, stripped; write the linker's map. Raises ``ToolError``."""
    flags = ["--gc-sections", "-O2", "--hash-style=gnu", "--build-id=none", "-z", "now", "-z", "relro"]
    flags += ["-z", "noexecstack", "--no-undefined", "-s", "-Map", str(map_file)]
    if exports:
        script = context.work_dir / f"exports-{key_of({'output': str(output)})[:12]}.map"
        script.write_text(f"{{ global: {' '.join(f'{name};' for name in exports)} local: *; }};\n")
        flags += ["-soname", output.name, "--version-script", str(script)]
    if toolchain.family == "gcc":
        kind = ["-shared", "-fPIC"] if exports else ["-pie"]
        words = [str(toolchain.program), *kind, "-static-libstdc++", "-static-libgcc", "-o", str(output)]
        words += [f"-Wl,{flag}" for flag in _joined(flags)]
        command = [*words, *map(str, objects), "-lm", "-lpthread", "-ldl"]
    else:
        flags += [
            "--icf=all",
            *(["--eh-frame-hdr"] if unwinds else []),
            *(["--pack-dyn-relocs=relr"] if _relr(toolchain) else []),
        ]
        kind = ["-shared"] if exports else ["-pie", "-dynamic-linker", start.loader, str(start.object)]
        command = [str(toolchain.program), "ld.lld", "-m", _EMULATION[toolchain.arch], "-o", str(output)]
        command += [*kind, *flags, *map(str, objects), "--as-needed", *map(str, libraries.files)]
    _run(command, objects, output, log_file, context)


def _run(
    command: Sequence[str], objects: Sequence[Path], output: Path, log_file: Path, context: BuildContext
) -> None:
    try:
        context.run(command, log_file=log_file)
    except ToolError as error:
        if "signal 7" in error.message:
            # lld writes through a mapping: on a full disk the system ends it (SIGBUS), without a word of why.
            require_space(output, sum(path.stat().st_size for path in objects))
        raise


def program_start(toolchain: Toolchain, *, context: BuildContext) -> ProgramStart:
    """zig's start code for the floor's glibc, from the store; gcc brings its own."""
    if toolchain.family == "gcc":
        return ProgramStart(object=Path(), loader="")
    folder = context.store.cached(
        "libc-start",
        {"toolchain": toolchain.identity, "schema": SCHEMA},
        lambda made: _make_start(toolchain, made, context),
    )
    return ProgramStart(object=folder / _START, loader=_LOADER[toolchain.arch])


def _make_start(toolchain: Toolchain, folder: Path, context: BuildContext) -> None:
    """Have zig link an empty program, and keep what it began it with."""
    words = _zig_links(toolchain, "build-exe", ["-fPIE"], "int main(void) { return 0; }\n", context)
    shutil.copyfile(next(word for word in words if word.endswith(f"/{_START}")), folder / _START)


def _with_gcc(toolchain: Toolchain, objects: Sequence[Path], output: Path, flags: Sequence[str]) -> list[str]:
    words = [
        str(toolchain.program),
        "-shared",
        "-fPIC",
        "-static-libstdc++",
        "-static-libgcc",
        "-o",
        str(output),
    ]
    words += [f"-Wl,{flag}" for flag in _joined(flags)]
    return [*words, *map(str, objects), "-lm", "-lpthread", "-ldl"]


def _joined(flags: Sequence[str]) -> list[str]:
    """``-z now`` as ``-z,now``, for the compiler's ``-Wl,``."""
    joined: list[str] = []
    for flag in flags:
        if joined and joined[-1] in ("-z", "-u", "-soname", "--version-script", "-Map"):
            joined[-1] += f",{flag}"
        else:
            joined.append(flag)
    return joined


def _relr(toolchain: Toolchain) -> bool:
    """Whether the floor's loader knows packed relative relocations (glibc 2.36)."""
    return tuple(int(number) for number in toolchain.glibc.split(".")) >= (2, 36)


def _make_stubs(toolchain: Toolchain, folder: Path, context: BuildContext) -> None:
    """Have zig link an empty library, and keep what it linked it against."""
    text = "int edgepack_empty(void) { return 0; }\n"
    words = _zig_links(toolchain, "build-lib", ["-dynamic"], text, context)
    for name in (*_STUBS, "libc_nonshared.a", "libcompiler_rt.a"):
        path = next(word for word in words if word.endswith(f"/{name}"))
        shutil.copyfile(path, folder / name)
    runtime = folder / "libcompiler_rt.a"
    runtime.write_bytes(_without_string_functions(runtime.read_bytes()))


def _zig_links(
    toolchain: Toolchain, action: str, flags: Sequence[str], text: str, context: BuildContext
) -> list[str]:
    """The words of the link that zig makes of a C source."""
    work = context.work_dir / f"zig-{action}"
    work.mkdir(exist_ok=True)
    (work / "empty.c").write_text(text)
    target = f"{toolchain.arch}-linux-gnu.{toolchain.glibc}"
    command: list[str | Path] = [
        toolchain.program,
        action,
        *flags,
        "-target",
        target,
        "-OReleaseSmall",
        "-lc",
    ]
    log = work / "link.log"
    context.run(
        [*command, "--name", "empty", "empty.c", "--verbose-link"],
        cwd=work,
        env=zig_environment(work / "cache"),
        log_file=log,
    )
    return log.read_text().split()


def _without_string_functions(archive: bytes) -> bytes:
    """zig's compiler runtime with other names for its memcpy and the like.

    The runtime is one object: who needs its 128-bit division gets its plain loops in the place of the C library's
    vector code too, and MiniLM a fifth slower.
    """
    for name in (b"memcpy", b"memmove", b"memset", b"memcmp", b"bcmp", b"strlen"):
        # Names share their ends in a string table, so what comes before may be anything.
        archive = archive.replace(name + b"\0", b"_" + name[1:] + b"\0")
    return archive
