"""A reduced runtime for a set of operators: what they change is compiled, what the link asks for is linked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.errors import ToolError
from edgepack.foundry.compile.archive import KernelArchive, compile_units, open_archive, source_of
from edgepack.foundry.compile.generate import (
    MLAS,
    Reduction,
    dispatch_read,
    dispatch_readers,
    generate,
    with_dispatch,
    with_small_runtime,
    without_messages,
)
from edgepack.foundry.compile.symbols import Symbols, check_floor
from edgepack.foundry.link.composition import COMPOSITION, compose, unit_of, write_composition
from edgepack.foundry.link.demand import Closure, close
from edgepack.foundry.link.index import load_index
from edgepack.foundry.link.instructions import check_instructions, is_dispatched
from edgepack.foundry.link.licenses import write_licenses
from edgepack.foundry.link.linker import SCHEMA, HostLibraries, host_libraries, link
from edgepack.foundry.link.linkmap import pieces
from edgepack.foundry.link.search import may_define
from edgepack.foundry.releases.ort_1_21.isa import check_isa, isa_levels, required_flags
from edgepack.foundry.releases.ort_1_21.overlay import asks_for_messages
from edgepack.foundry.sources.pinned import VERSION
from edgepack.foundry.toolchains.choose import choose
from edgepack.foundry.toolchains.libcxx import UNWINDER, needs_whole_runtime
from edgepack.operators.config import format_config, types_by_operator, union
from edgepack.records.operators import Operator, Operators
from edgepack.records.runtime import RuntimeArtifact, RuntimeKind
from edgepack.records.target import Platform

API_SYMBOLS = "onnxruntime/core/providers/cpu/symbols.txt"
MAP = "link.map"
SERVANTS = ("libcxx/", "libcxxabi/", "libprotobuf-lite/", "onnx_proto/")
"""Units that ask for what is cut down only on behalf of others."""


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

    ``glibc`` is the oldest C library that the library itself must run on; by default 2.28, or the platform's where that
    is older.

    Raises ``UnsupportedModelError`` for an operator without a kernel, ``FloorError`` for a library that asks more
    of the device than ``platform`` allows, ``DownloadError``, ``MissingToolError`` or ``ToolError``.
    """
    needs = union([needs])
    isa = tuple(sorted(platform.isa))
    archive = archive_for(needs, platform=platform, kind=kind, sources=sources, glibc=glibc, context=context)
    folder = context.store.cached(
        "runtime",
        {
            "archive": archive.identity,
            "link": SCHEMA,
            "composition": "1",
            "trims": repr(archive.settings["link"]),
            "isa": repr(isa),
            "operators": format_config(needs),
        },
        lambda made: _build(archive, needs, isa, made, context),
    )
    library = folder / library_name()
    check_floor(library, archive.toolchain.glibc)
    context.note(f"{len(needs)} operators, {library.stat().st_size / 1e6:.2f} MB")
    return RuntimeArtifact(
        library=library,
        version=VERSION,
        kind=kind,
        provides=provided(needs),
        toolchain=archive.toolchain.identity,
        licenses=tuple(sorted((folder / "licenses").iterdir())),
        isa=isa_levels(isa, platform.arch),
        requires=required_flags(isa, platform.arch),
    )


def archive_for(
    needs: Operators,
    *,
    platform: Platform,
    kind: RuntimeKind,
    sources: Path | None,
    glibc: str | None,
    context: BuildContext,
) -> KernelArchive:
    """The kernel archive for a platform, with every family of kernels that the operators are of.

    Raises what ``reduce_runtime`` raises.
    """
    check_isa(platform.isa, platform.arch)
    features = ("ml",) if any(kernel.domain == "ai.onnx.ml" for kernel in needs.kernels) else ()
    return open_archive(
        kind=kind,
        toolchain=choose(platform, glibc=glibc, context=context),
        features=features,
        sources=sources,
        context=context,
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


def _build(
    archive: KernelArchive, needs: Operators, isa: tuple[str, ...], folder: Path, context: BuildContext
) -> None:
    exports = (archive.tree.onnxruntime / API_SYMBOLS).read_text().split()
    libraries = host_libraries(archive.toolchain, context=context)
    output = folder / library_name()

    def link_library(closure: Closure, objects: Sequence[Path]) -> None:
        link(
            objects,
            output,
            map_file=folder / MAP,
            log_file=archive.folder / "link.log",
            version=VERSION,
            exports=exports,
            toolchain=archive.toolchain,
            libraries=libraries,
            unwinds=UNWINDER in closure.units,
            context=context,
        )

    reduction, closure = link_reduced(
        archive,
        needs,
        exports,
        link_library,
        isa=isa,
        map_file=folder / MAP,
        libraries=libraries,
        context=context,
    )
    settle(archive, closure, output, below=archive.folder / "objects")
    (folder / "required_operators_and_types.config").write_text(format_config(needs))
    table, readers = dispatch_readers(archive, closure.units)
    composition = compose(
        pieces(folder / MAP),
        closure,
        library=output,
        kernels=reduction.kernels,
        exports=exports,
        roots=reduction.roots,
        table=table,
        readers=readers,
        version=VERSION,
        kind=archive.kind,
        toolchain=archive.toolchain.identity,
    )
    write_composition(composition, folder / COMPOSITION)


def settle(archive: KernelArchive, closure: Closure, output: Path, *, below: Path) -> None:
    """What a linked file still wants: its map without this machine's folders (``below``), its licences, and checks.

    Raises ``FloorError``.
    """
    # What explains a library needs the objects' names only.
    map_file = output.with_name(MAP)
    map_file.write_text(map_file.read_text().replace(f"{below}/", ""))
    output.chmod(0o755)
    check_floor(output, archive.toolchain.glibc)
    if archive.toolchain.family == "zig":
        check_code(archive, closure, output, map_file)
    write_licenses(archive, closure.units, output.with_name("licenses"))


def check_code(archive: KernelArchive, closure: Closure, library: Path, map_file: Path) -> None:
    """Raises ``FloorError`` for code of other sets than every processor's where it is not one of MLAS's kernels."""
    kernels = {name for name in closure.units if is_dispatched(archive.units[name])}
    elsewhere: set[str] = set()
    for name in closure.units:
        if name not in kernels:
            elsewhere |= closure.symbols[name].weak | closure.symbols[name].defines
    check_instructions(
        library,
        [piece for piece in pieces(map_file) if piece.output == ".text"],
        is_kernel=lambda piece: (
            unit_of(piece.file.removeprefix("objects/")) in kernels
            and piece.section.removeprefix(".text.") not in elsewhere
        ),
    )


def link_reduced(
    archive: KernelArchive,
    needs: Operators,
    asked: Collection[str],
    link_objects: Callable[[Closure, Sequence[Path]], None],
    *,
    isa: tuple[str, ...] = (),
    map_file: Path,
    libraries: HostLibraries,
    context: BuildContext,
) -> tuple[Reduction, Closure]:
    """Have the kernels of ``needs`` and all that defines the symbols ``asked`` linked, with no more than they need.

    ``link_objects`` may be called several times; it writes ``map_file``, and the last call's result is the one that counts.
    """
    reduction = replace(generate(archive, needs), isa=isa)

    def linked(changed: Reduction) -> Closure:
        closure = find_closure(archive, changed, asked, libraries, context)
        link_objects(closure, [changed.object_of(archive, name) for name in closure.units])
        return closure

    if archive.toolchain.family == "zig":
        reduction = _cut_down(archive, reduction, asked, libraries, context)
        return reduction, _link_trimmed(archive, reduction, map_file, linked)
    return reduction, linked(reduction)


def _cut_down(
    archive: KernelArchive,
    reduction: Reduction,
    exports: Collection[str],
    libraries: HostLibraries,
    context: BuildContext,
) -> Reduction:
    """With less of the C++ runtime and of protobuf, unless what is linked asks for the rest of them.

    String kernels know locales and wide characters; a runtime for ONNX files reads protobuf.
    """
    small = with_small_runtime(archive, without_messages(archive, reduction))
    closure = find_closure(archive, with_dispatch(archive, small, ()), exports, libraries, context)
    asked = {
        symbol
        for name, found in closure.symbols.items()
        if not name.startswith(SERVANTS)
        for symbol in found.needs
    }
    chosen = reduction if asks_for_messages(asked) else without_messages(archive, reduction)
    lacking = needs_whole_runtime(asked) or [symbol for symbol in closure.external if "St3__1" in symbol]
    return chosen if lacking else with_small_runtime(archive, chosen)


def _link_trimmed(
    archive: KernelArchive, reduction: Reduction, map_file: Path, linked: Callable[[Reduction], Closure]
) -> Closure:
    """Link with MLAS's table of kernels empty, then with the entries that what was linked reads, until that is all."""
    keep: frozenset[str] = frozenset()
    while True:
        closure = linked(with_dispatch(archive, reduction, keep))
        sections = {piece.section for piece in pieces(map_file) if f"/{MLAS}" in piece.file and piece.size}
        read = keep | dispatch_read(archive, live_units(archive, map_file), sections)
        if read == keep:
            return closure
        keep = read


def live_units(archive: KernelArchive, map_file: Path) -> set[str]:
    """The units of which something was linked, other than functions that read nothing."""
    root = f"{archive.folder}/objects/"
    trivial = tuple(archive.settings["link"]["trivial"])
    objects = {
        piece.file.removeprefix(root)
        for piece in pieces(map_file)
        if piece.file.startswith(root) and piece.size and not piece.section.endswith(trivial)
    }
    return {name for name in (unit_of(path) for path in objects) if name in archive.units}


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
            found = {name for name in rest if name.startswith(MLAS)}
        return found

    closure = close(
        reduction.roots,
        exports,
        units=archive.units,
        index=load_index(archive.tree.version, archive.kind, archive.toolchain.arch),
        compile=compile,
        search=search,
        offered=libraries.offered,
        # Some are for types that the whole build is without, and are never asked for.
        expected=reduction.kernels,
    )
    lost = sorted(symbol for symbol in closure.external if "onnxruntime" in symbol or symbol in exports)
    if lost:
        raise ToolError(
            f"no source of ONNX Runtime defines {', '.join(lost[:5])}",
            hint="this is a fault of edgepack: report it",
        )
    return closure
