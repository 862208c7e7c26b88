"""A program, or a library of one's own, with a reduced runtime linked in: one file, and nothing of the C API but what is called."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.foundry.compile.objects import compile_objects, compiled_already
from edgepack.foundry.link.composition import COMPOSITION, write_composition
from edgepack.foundry.link.postlink import MAP
from edgepack.foundry.link.reduced_library import NativeBuild, open_build
from edgepack.foundry.link.sources import (
    FLAGS,
    PROGRAMS,
    RuntimeHeaders,
    flags_for,
    objects_folder,
    source_jobs,
)
from edgepack.foundry.linkmap import Piece
from edgepack.foundry.toolchain import Link
from edgepack.foundry.units import ProgramSources
from edgepack.operators.config import format_config, union
from edgepack.records.operators import Operators
from edgepack.records.runtime import RuntimeKind
from edgepack.records.target import Platform

SCHEMA = "3"
"""Changes when the same sources are compiled or linked otherwise."""
OBJECTS = "objects"
"""Folder of a kernel archive, as a program's map names it."""


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
    room = objects_folder(build.toolchain, context=context)
    own, asked = _compile(build, sources, room, context)
    link = Link(
        objects=own,
        output=folder / sources.output,
        map_file=folder / MAP,
        log_file=build.archive.link_log,
        exports=sources.exports,
        libraries=build.toolchain.libraries(context=context),
    )
    reduced = build.link(link, needs, asked=asked, below=(build.archive.folder, room), context=context)
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
    build: NativeBuild, sources: ProgramSources, room: Path, context: BuildContext
) -> tuple[list[Path], list[str]]:
    """The sources' objects, below ``room``, and what they ask of the archive."""
    archive = build.archive
    root = archive.tree.onnxruntime
    jobs = source_jobs(
        sources,
        room / PROGRAMS,
        command=build.toolchain.command,
        flags=lambda name: flags_for(name, (*FLAGS, *build.toolchain.cxx_flags)),
        headers=RuntimeHeaders(
            folders=(root / "onnxruntime", root / "include/onnxruntime"), identity=archive.key
        ),
        identity=build.toolchain.identity,
    )
    found = compiled_already(jobs)
    if found is None:
        with context.store.lock(room):
            found = compile_objects(
                jobs,
                read=build.toolchain.symbols,
                log_file=room / "compile.log",
                label="compile the program",
                context=context,
            )
    defined = {symbol for each in found.values() for symbol in (*each.defines, *each.weak)}
    needed = {symbol for each in found.values() for symbol in each.needs} - defined
    return [job.object for job in jobs], sorted(needed)
