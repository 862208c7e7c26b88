"""A program, or a library of one's own, with a reduced runtime linked in: one file, and nothing of the C API but what is called."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.files.store import written_beside
from edgepack.foundry.compile.archive import KernelArchive
from edgepack.foundry.compile.objects import Job, compile_objects, identity_of
from edgepack.foundry.link.demand import Closure
from edgepack.foundry.link.linker import host_libraries, link_program, program_start
from edgepack.foundry.link.reduce import MAP, archive_for, link_reduced, settle
from edgepack.foundry.toolchains.choose import compiler
from edgepack.foundry.toolchains.libcxx import UNWINDER
from edgepack.operators.config import format_config, union
from edgepack.records.operators import Operators
from edgepack.records.runtime import RuntimeKind
from edgepack.records.target import Platform

SCHEMA = "1"
"""Changes when the same sources are compiled or linked otherwise."""
FLAGS = (
    "-std=c++17",
    "-Oz",
    "-DNDEBUG",
    "-Wall",
    "-fPIC",
    "-ffunction-sections",
    "-fdata-sections",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-unwind-tables",
    "-fno-asynchronous-unwind-tables",
    "-fvisibility=hidden",
    "-fvisibility-inlines-hidden",
)
ZIG_FLAGS = ("-fexperimental-relative-c++-abi-vtables",)
"""As the kernel archive is compiled."""


@dataclass(frozen=True, kw_only=True)
class ProgramSources:
    """C++ sources of a program; they may include ONNX Runtime's own headers."""

    files: Mapping[str, str]
    """Name → text, headers too; ``*.cc`` is compiled."""
    output: str
    """Name of the finished file."""
    exports: tuple[str, ...] = ()
    """Symbols of a shared library; none: a program."""


def build_program(
    sources: ProgramSources,
    needs: Operators,
    *,
    platform: Platform,
    kind: RuntimeKind = "minimal",
    tree: Path | None = None,
    glibc: str | None = None,
    context: BuildContext,
) -> Path:
    """A folder in the store with the finished file, ``licenses/`` and ``link.map``.

    ``tree`` is the user's own folder of ONNX Runtime's sources. Raises what ``reduce_runtime`` raises.
    """
    needs = union([needs])
    isa = tuple(sorted(platform.isa))
    archive = archive_for(needs, platform=platform, kind=kind, sources=tree, glibc=glibc, context=context)
    inputs = {
        "schema": SCHEMA,
        "archive": archive.identity,
        "isa": repr(isa),
        "trims": repr(archive.settings["link"]),
        "operators": format_config(needs),
        "sources": json.dumps(dict(sorted(sources.files.items()))),
        "output": f"{sources.output} {' '.join(sources.exports)}",
        "flags": " ".join((*FLAGS, *ZIG_FLAGS)),
    }
    return context.store.cached(
        "program", inputs, lambda folder: _build(archive, sources, needs, isa, folder, context)
    )


def _build(
    archive: KernelArchive,
    sources: ProgramSources,
    needs: Operators,
    isa: tuple[str, ...],
    folder: Path,
    context: BuildContext,
) -> None:
    libraries = host_libraries(archive.toolchain, context=context)
    start = program_start(archive.toolchain, context=context)
    own, asked = _compile(archive, sources, context)
    output = folder / sources.output

    def link_objects(closure: Closure, objects: Sequence[Path]) -> None:
        link_program(
            [*own, *objects],
            output,
            map_file=folder / MAP,
            exports=sources.exports,
            start=start,
            toolchain=archive.toolchain,
            libraries=libraries,
            unwinds=UNWINDER in closure.units,
            log_file=archive.folder / "link.log",
            context=context,
        )

    _, closure = link_reduced(
        archive,
        needs,
        asked,
        link_objects,
        isa=isa,
        map_file=folder / MAP,
        libraries=libraries,
        context=context,
    )
    settle(archive, closure, output, below=archive.folder)


def _compile(
    archive: KernelArchive, sources: ProgramSources, context: BuildContext
) -> tuple[list[Path], list[str]]:
    """The sources' objects, and what they ask of the archive."""
    folder = archive.folder / "programs" / identity_of(json.dumps(dict(sorted(sources.files.items()))))[:16]
    for name, text in sources.files.items():
        if not (folder / name).is_file() or (folder / name).read_text(encoding="utf-8") != text:
            with written_beside(folder / name) as beside:
                beside.write_text(text, encoding="utf-8")
    jobs = [_job(archive, folder, name) for name in sorted(sources.files) if name.endswith(".cc")]
    with context.store.lock(archive.folder):
        found = compile_objects(jobs, log_file=archive.log_file, context=context, label="compile the program")
    defined = {symbol for each in found.values() for symbol in (*each.defines, *each.weak)}
    needed = {symbol for each in found.values() for symbol in each.needs} - defined
    if archive.toolchain.family == "gcc":
        # gcc finds the C++ runtime itself.
        needed = {symbol for symbol in needed if "OrtApis" in symbol}
    return [job.object for job in jobs], sorted(needed)


def _job(archive: KernelArchive, folder: Path, name: str) -> Job:
    root = archive.tree.onnxruntime
    flags = [*FLAGS, *(ZIG_FLAGS if archive.toolchain.family == "zig" else ())]
    command = [*compiler(archive.toolchain, "CXX"), *flags, f"-ffile-prefix-map={folder}="]
    command += [f"-I{folder}", f"-I{root}/onnxruntime", f"-I{root}/include/onnxruntime"]
    return Job(
        name=name,
        object=folder / f"{name}.o",
        command=(*command, "-c", str(folder / name)),
        identity=identity_of(archive.key, folder.name, name, *flags),
    )
