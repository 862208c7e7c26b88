"""The final link: only what is reachable from outside, identical code folded, nothing visible but what is exported."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.errors import ToolError
from edgepack.files.store import key_of, require_space
from edgepack.foundry.toolchain import CLibrary, Link, NativeToolchain
from edgepack.foundry.toolchains.libcxx import UNWINDER
from edgepack.foundry.units import OBJECT

_MARKS = {"shstk": ("-z", "shstk"), "bti": ("-z", "force-bti")}
"""What lld is told to mark. Forced: assembly and the C library's parts do not say it of themselves."""


def link_with_lld(
    zig: Path,
    link: Link,
    toolchain: NativeToolchain,
    libc: CLibrary,
    *,
    start: Sequence[Path],
    context: BuildContext,
) -> None:
    """Have zig's lld link it. ``start`` is what of the C library begins it. Raises ``ToolError``."""
    processor = toolchain.processor
    command = [str(zig), "ld.lld", "-m", processor.emulation, "-o", str(link.output)]
    if link.output.suffix == OBJECT:
        inputs = (*start, *link.objects, *link.libraries.files)
        run_linker([*command, *_object_flags(link), *map(str, inputs)], link, context)
        return
    flags = [*link_flags(link, context), "--icf=all"]
    for mark in sorted(toolchain.marks & _MARKS.keys()):
        flags += _MARKS[mark]
    if any(f"/{UNWINDER}." in path.as_posix() for path in link.objects):
        flags.append("--eh-frame-hdr")
    if libc.packs_relocations:
        flags.append("--pack-dyn-relocs=relr")
    kind = libc.library_flags(processor) if link.exports else libc.program_flags(processor)
    command += [*kind, *map(str, start), *flags]
    command += [*map(str, link.objects), "--as-needed", *map(str, link.libraries.files)]
    run_linker(command, link, context)


def _object_flags(link: Link) -> Iterator[str]:
    """Flags for one object of all that is reachable. No group of it is left: another's with the same name would take its place."""
    yield from (
        "-r",
        "--gc-sections",
        "--force-group-allocation",
        "--strip-debug",
        "-Map",
        str(link.map_file),
    )
    for name in (*link.exports, *link.required):
        yield from ("-u", name)


def link_flags(link: Link, context: BuildContext) -> list[str]:
    """Flags for every linker, in the words that lld and GNU ld have in common."""
    flags = ["--gc-sections", "-O2", "--hash-style=gnu", "--build-id=sha1", "-z", "now", "-z", "relro"]
    flags += ["-z", "noexecstack", "--no-undefined", "-s", "-Map", str(link.map_file)]
    if link.exports:
        script = context.work_dir / f"exports-{key_of({'output': str(link.output)})[:12]}.map"
        names = " ".join(f"{name};" for name in link.exports)
        script.write_text(f"{link.symbol_version} {{ global: {names} local: *; }};\n".lstrip())
        flags += ["-soname", link.soname or link.output.name, "--version-script", str(script)]
    for name in link.required:
        flags += ["-u", name]
    return flags


def run_linker(command: Sequence[str], link: Link, context: BuildContext) -> None:
    """Run a linker. Raises ``ToolError`` or ``DiskFullError``."""
    try:
        context.run(command, log_file=link.log_file)
    except ToolError as error:
        if "signal 7" in error.message:
            # lld writes through a mapping: on a full disk the system ends it (SIGBUS), without a word of why.
            require_space(link.output, sum(path.stat().st_size for path in link.objects))
        raise
