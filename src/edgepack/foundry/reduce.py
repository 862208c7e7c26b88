"""A reduced runtime for a set of operators: registrations and types generated, what they change compiled, linked."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.errors import ToolError
from edgepack.foundry import registrations
from edgepack.foundry.archive import KernelArchive, compile_units, job_of, open_archive, source_of
from edgepack.foundry.closure import Closure, close
from edgepack.foundry.elf import Symbols, check_floor
from edgepack.foundry.index import load_index
from edgepack.foundry.licenses import write_licenses
from edgepack.foundry.link import SCHEMA, HostLibraries, host_libraries, link
from edgepack.foundry.objects import Job, identity_of
from edgepack.foundry.operators import format_config, types_by_operator, union
from edgepack.foundry.search import may_define
from edgepack.foundry.sources import VERSION
from edgepack.foundry.toolchain import choose
from edgepack.foundry.typecontrol import OVERRIDES, controlled_units, relevant_lines
from edgepack.records import Operator, Operators, Platform, RuntimeArtifact, RuntimeKind
from edgepack.store import written_beside

PROVIDERS = "onnxruntime_providers/onnxruntime/"
API_SYMBOLS = "onnxruntime/core/providers/cpu/symbols.txt"


@dataclass(frozen=True, kw_only=True)
class Reduction:
    """What is special about a runtime: the objects that its operators and types change."""

    overrides: Mapping[str, Job]
    roots: tuple[str, ...]
    kernels: tuple[str, ...]
    """Symbols of the kernels that stayed."""


def reduce_runtime(
    needs: Operators,
    *,
    platform: Platform,
    kind: RuntimeKind = "minimal",
    sources: Path | None = None,
    glibc: str | None = None,
    context: BuildContext,
) -> RuntimeArtifact:
    """A runtime library that has the kernels and types of ``needs`` and no others; cached in the store.

    Raises ``UnsupportedModelError`` for an operator without a kernel, ``FloorError`` for a library that asks more
    of the device than ``platform`` allows, ``DownloadError``, ``MissingToolError`` or ``ToolError``.
    """
    needs = union([needs])
    toolchain = choose(platform, glibc=glibc, context=context)
    features = ("ml",) if any(kernel.domain == "ai.onnx.ml" for kernel in needs.kernels) else ()
    archive = open_archive(
        kind=kind, toolchain=toolchain, features=features, sources=sources, context=context
    )
    folder = context.store.cached(
        "runtime",
        {"archive": archive.key, "link": SCHEMA, "operators": format_config(needs)},
        lambda made: _build(archive, needs, made, context),
    )
    library = folder / library_name()
    check_floor(library, toolchain.glibc)
    context.note(f"{len(needs)} operators, {library.stat().st_size / 1e6:.2f} MB")
    return RuntimeArtifact(
        library=library,
        version=VERSION,
        kind=kind,
        provides=provided(needs),
        toolchain=toolchain.identity,
        licenses=tuple(sorted((folder / "licenses").iterdir())),
    )


def library_name(version: str = VERSION) -> str:
    """As upstream names it."""
    return f"libonnxruntime.so.{version}"


def provided(needs: Operators) -> Operators:
    """What a runtime that was built for these operators holds: type control does not tell versions apart."""
    merged = types_by_operator(needs)
    return Operators(
        kernels=frozenset(
            Operator(
                domain=kernel.domain,
                since=kernel.since,
                name=kernel.name,
                types=merged[kernel.domain, kernel.name],
            )
            for kernel in needs.kernels
        ),
        globally_allowed_types=needs.globally_allowed_types,
    )


def _build(archive: KernelArchive, needs: Operators, folder: Path, context: BuildContext) -> None:
    reduction = generate(archive, needs)
    exports = (archive.tree.onnxruntime / API_SYMBOLS).read_text().split()
    libraries = host_libraries(archive.toolchain, context=context)
    closure = find_closure(archive, reduction, exports, libraries, context)
    objects = [object_of(archive, reduction, name) for name in closure.units]
    output = folder / library_name()
    map_file = link(
        objects,
        output,
        version=VERSION,
        exports=exports,
        toolchain=archive.toolchain,
        libraries=libraries,
        context=context,
    )
    # The map names folders of this machine; what explains a library needs the objects' names only.
    text = map_file.read_text().replace(f"{archive.folder}/objects/", "")
    map_file.write_text(text)
    output.chmod(0o755)
    check_floor(output, archive.toolchain.glibc)
    (folder / "required_operators_and_types.config").write_text(format_config(needs))
    write_licenses(archive, closure.units, folder / "licenses")


def generate(archive: KernelArchive, needs: Operators) -> Reduction:
    """Write the reduced registrations and the type control, and say what has to be compiled with them."""
    onnxruntime = archive.tree.onnxruntime
    types = registrations.type_filter(needs)
    overrides: dict[str, Job] = {}
    kept: list[registrations.Registration] = []
    for source in archive.settings["units"]["registrations"]:
        unit = archive.units[PROVIDERS + source]
        text, rows = registrations.reduce_registrations((onnxruntime / source).read_text(), needs, types)
        kept += rows
        below = source.removeprefix("onnxruntime/")
        folder = _generated(archive, text, below)
        overrides[unit.name] = job_of(archive, unit, generated=folder, replaced=below, content=text)
    registrations.require_kernels(needs, kept)
    overrides |= _type_controlled(archive, types.get_cpp_entries() if types else [])
    return Reduction(
        overrides=overrides,
        roots=tuple(PROVIDERS + source for source in archive.settings["units"]["registrations"]),
        kernels=tuple(row.symbol for row in kept),
    )


def find_closure(
    archive: KernelArchive,
    reduction: Reduction,
    exports: Collection[str],
    libraries: HostLibraries,
    context: BuildContext,
) -> Closure:
    """Compile what the link asks for. Raises ``ToolError`` when a kernel or a part of the C API cannot be found."""
    texts: dict[str, str] = {}

    def compile(names: Collection[str]) -> Mapping[str, Symbols]:
        return compile_units(archive, names, overrides=reduction.overrides, context=context)

    def search(symbols: Collection[str], rest: Collection[str]) -> Collection[str]:
        candidates = {name: source_of(archive, archive.units[name]) for name in rest}
        found = may_define(symbols, candidates, texts=texts)
        if not found and any(symbol.startswith("Mlas") for symbol in symbols):
            # Assembly sources make up names by macros.
            found = {name for name in rest if name.startswith("onnxruntime_mlas/")}
        return found

    closure = close(
        reduction.roots,
        [*exports, *reduction.kernels],
        units=archive.units,
        index=load_index(archive.tree.version, archive.kind),
        compile=compile,
        search=search,
        offered=libraries.offered,
    )
    lost = sorted(symbol for symbol in closure.external if "onnxruntime" in symbol or symbol in exports)
    if lost:
        raise ToolError(
            f"no source of ONNX Runtime defines {', '.join(lost[:5])}",
            hint="this is a fault of edgepack: report it",
        )
    return closure


def object_of(archive: KernelArchive, reduction: Reduction, name: str) -> Path:
    """The object of a unit, in its special form where it has one."""
    if name in reduction.overrides:
        return reduction.overrides[name].object
    return job_of(archive, archive.units[name]).object


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
            folder = _generated(archive, text, OVERRIDES)
            jobs[name] = job_of(archive, archive.units[name], generated=folder, content=text)
    return jobs


def _generated(archive: KernelArchive, text: str, path: str) -> Path:
    """Write a generated file; the folder, of this content's own, that it lies below."""
    folder = archive.folder / "generated" / identity_of(text)[:16]
    file = folder / path
    if not file.is_file() or file.read_text() != text:
        with written_beside(file) as beside:
            beside.write_text(text)
    return folder
