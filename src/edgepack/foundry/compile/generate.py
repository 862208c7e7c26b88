"""What is special about a runtime: copies of sources, reduced for its operators, compiled in the place of upstream's."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgepack.files.store import written_beside
from edgepack.foundry.compile.archive import KernelArchive, job_of, source_of
from edgepack.foundry.compile.objects import Job, identity_of
from edgepack.foundry.releases.ort_1_21 import registrations
from edgepack.foundry.releases.ort_1_21.dispatch import (
    assigned_kernels,
    dispatch_entries,
    entries_read,
    inline_readers,
    trim_dispatch,
)
from edgepack.foundry.releases.ort_1_21.isa import restrict_isa
from edgepack.foundry.releases.ort_1_21.overlay import MESSAGES, lean_messages
from edgepack.foundry.releases.ort_1_21.typecontrol import OVERRIDES, controlled_units, relevant_lines
from edgepack.foundry.toolchains.libcxx import FLAGS, LOCALE, small_locale
from edgepack.operators.config import union
from edgepack.records.operators import Operators

PROVIDERS = "onnxruntime_providers/onnxruntime/"
MLAS = "onnxruntime_mlas/"
DISPATCH = "core/mlas/lib/platform.cpp"
ADDED_BY_OPTIMIZERS = (
    "onnxruntime/core/optimizer/layout_transformation/layout_transformation_potentially_added_ops.h"
)


@dataclass(frozen=True, kw_only=True)
class Reduction:
    """The objects that a runtime's operators and types change."""

    overrides: Mapping[str, Job]
    """Unit → how it is compiled for this runtime."""
    roots: tuple[str, ...]
    kernels: tuple[str, ...]
    """Symbols of the kernels that stayed."""
    isa: tuple[str, ...] = ()
    """Instruction sets that the device is known to have."""

    def object_of(self, archive: KernelArchive, name: str) -> Path:
        """The object of a unit, in its special form where it has one."""
        return (self.overrides.get(name) or job_of(archive, archive.units[name])).object


def generate(archive: KernelArchive, needs: Operators) -> Reduction:
    """Write the reduced registrations and the type control, and say what has to be compiled with them.

    Raises ``UnsupportedModelError`` for an operator that has no kernel.
    """
    types = registrations.type_filter(needs, exact=archive.kind == "minimal")
    rows_for, row_types = needs, types
    if archive.kind != "minimal":
        header = archive.tree.onnxruntime / ADDED_BY_OPTIMIZERS
        rows_for = union([needs, registrations.added_by_optimizers(header.read_text())])
        row_types = registrations.type_filter(rows_for, exact=False)
    overrides: dict[str, Job] = {}
    kept: list[registrations.Registration] = []
    sources: Sequence[str] = archive.settings["units"]["registrations"]
    for source in sources:
        text = (archive.tree.onnxruntime / source).read_text()
        text, rows = registrations.reduce_registrations(text, rows_for, row_types)
        kept += rows
        overrides[PROVIDERS + source] = replaced(
            archive, PROVIDERS + source, source.removeprefix("onnxruntime/"), text
        )
    registrations.require_kernels(needs, kept)
    overrides |= _type_controlled(archive, types.get_cpp_entries() if types else [])
    return Reduction(
        overrides=overrides,
        roots=tuple(PROVIDERS + source for source in sources),
        kernels=tuple(row.symbol for row in kept),
    )


def with_dispatch(archive: KernelArchive, reduction: Reduction, keep: Collection[str]) -> Reduction:
    """The reduction with MLAS's table of kernels cut down to some entries, and to the device's instruction sets."""
    unit = _dispatch_unit(archive)
    source = source_of(archive, archive.units[unit]).read_text()
    text = restrict_isa(trim_dispatch(source, keep), reduction.isa, archive.toolchain.arch)
    return replace(
        reduction, overrides={**reduction.overrides, unit: replaced(archive, unit, DISPATCH, text)}
    )


def with_small_runtime(archive: KernelArchive, reduction: Reduction) -> Reduction:
    """The reduction with libc++ cut down to what serves characters and numbers."""
    overrides = dict(reduction.overrides)
    for name, unit in archive.units.items():
        if name == LOCALE:
            text = small_locale(source_of(archive, unit).read_text())
            folder = generated_folder(archive, text, LOCALE)
            overrides[name] = job_of(
                archive, unit, generated=folder, replaced=LOCALE, flags=FLAGS, content=text
            )
        elif name.startswith("libcxx/"):
            overrides[name] = job_of(archive, unit, flags=FLAGS)
    return replace(reduction, overrides=overrides)


def without_messages(archive: KernelArchive, reduction: Reduction) -> Reduction:
    """The reduction with protobuf messages that cannot be read or written."""
    name = next(name for name in archive.units if name.endswith(f"/{MESSAGES}"))
    text = lean_messages(source_of(archive, archive.units[name]).read_text())
    return replace(
        reduction, overrides={**reduction.overrides, name: replaced(archive, name, MESSAGES, text)}
    )


def dispatch_read(
    archive: KernelArchive, live: Collection[str], sections: Collection[str] = ()
) -> frozenset[str]:
    """The entries of MLAS's table that these units read, of which these sections were linked."""
    unit = _dispatch_unit(archive)
    table = source_of(archive, archive.units[unit])
    source = table.read_text()
    # Headers are counted as read: their inline functions may be anywhere.
    texts = [path.read_text() for path in sorted(table.parent.rglob("*.h"))]
    readers = (name for name in live if name.startswith(MLAS) and name != unit)
    texts += [source_of(archive, archive.units[name]).read_text() for name in readers]
    read = entries_read([*texts, trim_dispatch(source, ())], dispatch_entries(source))
    told: Mapping[str, Sequence[str]] = archive.settings["link"]["readers"]
    unread = {
        entry
        for entry, names in told.items()
        if not any(name in section for name in names for section in sections)
    }
    return frozenset(read - unread)


def dispatch_readers(archive: KernelArchive, units: Collection[str]) -> tuple[str, dict[str, frozenset[str]]]:
    """The unit of MLAS's table, and those of these units that call kernels through it → the names of the kernels."""
    table = _dispatch_unit(archive)
    path = source_of(archive, archive.units[table])
    kernels = assigned_kernels(path.read_text())
    headers = [header.read_text() for header in sorted(path.parent.glob("*.h"))]
    by_function = inline_readers(headers, kernels)
    readers: dict[str, frozenset[str]] = {}
    for name in units:
        if name.startswith(MLAS) and name != table:
            source = source_of(archive, archive.units[name]).read_text()
            read = entries_read([source], kernels)
            for function, entries in by_function.items():
                if function in source:
                    read |= entries
            readers[name] = frozenset().union(*(kernels[entry] for entry in read))
    return table, readers


def _dispatch_unit(archive: KernelArchive) -> str:
    return next(name for name in archive.units if name.startswith(MLAS) and name.endswith(DISPATCH))


def _type_controlled(archive: KernelArchive, lines: Sequence[str]) -> dict[str, Job]:
    """The units that the type restrictions change, each compiled against only the lines that concern it.

    So a kernel is compiled once for each restriction of its own operators, however many models share that.
    """
    root = archive.tree.onnxruntime / "onnxruntime"
    include = (root / OVERRIDES).read_text()
    sources = {
        name: source_of(archive, unit)
        for name, unit in archive.units.items()
        if name.startswith("onnxruntime_")
    }
    jobs: dict[str, Job] = {}
    for name, operators in controlled_units(sources, root).items():
        if relevant := relevant_lines(lines, operators):
            text = registrations.type_control(include, relevant)
            folder = generated_folder(archive, text, OVERRIDES)
            jobs[name] = job_of(archive, archive.units[name], generated=folder, content=text)
    return jobs


def replaced(archive: KernelArchive, unit: str, path: str, text: str) -> Job:
    """The unit, compiled from a text of our own."""
    folder = generated_folder(archive, text, path)
    return job_of(archive, archive.units[unit], generated=folder, replaced=path, content=text)


def generated_folder(archive: KernelArchive, text: str, path: str) -> Path:
    """Write a generated file; the folder, of this content's own, that it lies below."""
    folder = archive.folder / "generated" / identity_of(text)[:16]
    file = folder / path
    if not file.is_file() or file.read_text() != text:
        with written_beside(file) as beside:
            beside.write_text(text)
    return folder
