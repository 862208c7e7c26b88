"""A program, or a library of one's own, with a reduced runtime linked in: one file, and nothing of the C API but what is called."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.files.store import written_beside
from edgepack.foundry.compile.objects import CompileJob, compile_objects, compiled_already, identity_of
from edgepack.foundry.link.composition import COMPOSITION, write_composition
from edgepack.foundry.link.library import NativeBuild, open_build
from edgepack.foundry.link.settle import MAP
from edgepack.foundry.toolchains.linkmap import Piece
from edgepack.foundry.toolchains.toolchain import Link
from edgepack.operators.config import format_config, union
from edgepack.records.operators import Operators
from edgepack.records.runtime import RuntimeKind
from edgepack.records.target import Platform

SCHEMA = "3"
"""Changes when the same sources are compiled or linked otherwise."""
OBJECTS, PROGRAMS = "objects", "programs"
"""Folders of a kernel archive, as a program's map names them."""
FLAGS = (
    "-std=c++17",
    "-Oz",
    "-DNDEBUG",
    "-Wall",
    "-Wextra",
    "-Wshadow",
    "-Wconversion",
    "-fPIC",
    "-ffunction-sections",
    "-fdata-sections",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-unwind-tables",
    "-fno-asynchronous-unwind-tables",
    "-fvisibility=hidden",
    "-fvisibility-inlines-hidden",
    "-fstack-protector",
)

CXX_ONLY = ("-std=c++", "-fno-rtti", "-fvisibility-inlines", "-fexperimental-relative-c++")
"""What flags of C++ begin with that mean nothing in C."""
LANGUAGES = {".cc": "CXX", ".c": "C"}


@dataclass(frozen=True, kw_only=True)
class ProgramSources:
    """C++ sources of a program; they may include ONNX Runtime's own headers."""

    files: Mapping[str, str]
    """Place, e.g. ``base/json.cc``, → text; headers too. What ends as ``LANGUAGES`` says is compiled; includes are looked for
    from the root.
    """
    output: str
    """Name of the finished file."""
    exports: tuple[str, ...] = ()
    """Symbols of a shared library; none: a program."""

    @property
    def units(self) -> list[str]:
        """What is compiled. By file name, whatever folder it is in: the order in which objects are linked shows in the bytes."""
        found = (name for name in self.files if Path(name).suffix in LANGUAGES)
        return sorted(found, key=lambda name: Path(name).name)


def flags_for(name: str, flags: Iterable[str]) -> list[str]:
    """Those of the flags for C++ that count for a source; of others' there are no warnings."""
    counted = [flag for flag in flags if name.endswith(".cc") or not flag.startswith(CXX_ONLY)]
    return [*counted, "-w"] if name.startswith("third_party/") else counted


def build_program(
    sources: ProgramSources,
    needs: Operators,
    *,
    platform: Platform,
    kind: RuntimeKind = "minimal",
    glibc: str | None = None,
    context: BuildContext,
) -> Path:
    """A folder in the store with the finished file, ``licenses/``, ``link.map`` and the record of what it is made of.

    Raises what ``reduce_runtime`` raises.
    """
    needs = union([needs])
    build = open_build(needs, platform=platform, kind=kind, glibc=glibc, context=context)
    inputs = {
        "schema": SCHEMA,
        "archive": build.archive.identity,
        "composition": "1",
        "isa": repr(build.isa),
        "trims": repr(build.archive.settings["link"]),
        "operators": format_config(needs),
        "sources": json.dumps(dict(sorted(sources.files.items()))),
        "output": f"{sources.output} {' '.join(sources.exports)}",
        "flags": " ".join((*FLAGS, *build.toolchain.cxx_flags)),
        **({"libc": build.toolchain.revision} if build.toolchain.revision else {}),
    }
    return context.store.cached(
        "program", inputs, lambda folder: _build(build, sources, needs, folder, context)
    )


def _build(
    build: NativeBuild, sources: ProgramSources, needs: Operators, folder: Path, context: BuildContext
) -> None:
    own, asked = _compile(build, sources, context)
    link = Link(
        objects=own,
        output=folder / sources.output,
        map_file=folder / MAP,
        log_file=build.archive.link_log,
        exports=sources.exports,
        libraries=build.toolchain.libraries(context=context),
    )
    reduced = build.link(link, needs, asked=asked, below=build.archive.folder, context=context)
    pieces = build.toolchain.pieces(link.map_file)
    write_composition(reduced.composition(_named(pieces), link.output), folder / COMPOSITION)


def _named(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """The archive's objects by their units, as a record wants them, the program's own as ``program/PLACE``, and those that
    a C library begins and ends a program with as ``libc/NAME``: none by a folder of this machine.
    """
    for piece in pieces:
        folder, _, place = piece.file.partition("/")
        if folder == OBJECTS:
            yield replace(piece, file=place)
        elif folder == PROGRAMS:
            yield replace(piece, file=f"program/{place.partition('/')[2]}")
        elif folder or "(" in piece.file:
            yield piece
        else:
            yield replace(piece, file=f"libc/{Path(place).name}")


def _compile(
    build: NativeBuild, sources: ProgramSources, context: BuildContext
) -> tuple[list[Path], list[str]]:
    """The sources' objects, and what they ask of the archive."""
    archive = build.archive
    folder = archive.folder / PROGRAMS / identity_of(json.dumps(dict(sorted(sources.files.items()))))[:16]
    for name, text in sources.files.items():
        if not (folder / name).is_file() or (folder / name).read_text(encoding="utf-8") != text:
            with written_beside(folder / name) as beside:
                beside.write_text(text, encoding="utf-8")
    jobs = [_job(build, folder, name) for name in sources.units]
    found = compiled_already(jobs)
    if found is None:
        with context.store.lock(archive.folder):
            found = compile_objects(
                jobs,
                read=archive.toolchain.symbols,
                log_file=archive.log_file,
                label="compile the program",
                context=context,
            )
    defined = {symbol for each in found.values() for symbol in (*each.defines, *each.weak)}
    needed = {symbol for each in found.values() for symbol in each.needs} - defined
    return [job.object for job in jobs], sorted(needed)


def _job(build: NativeBuild, folder: Path, name: str) -> CompileJob:
    root = build.archive.tree.onnxruntime
    flags = flags_for(name, (*FLAGS, *build.toolchain.cxx_flags))
    command = [*build.toolchain.command(LANGUAGES[Path(name).suffix]), *flags, f"-ffile-prefix-map={folder}="]
    command += [f"-I{folder}", f"-isystem{root}/onnxruntime", f"-isystem{root}/include/onnxruntime"]
    return CompileJob(
        name=name,
        object=folder / f"{name}.o",
        command=(*command, "-c", str(folder / name)),
        identity=identity_of(build.archive.key, folder.name, name, *flags),
    )
