"""A reduced runtime for WebAssembly: the kernel archive's ways, Emscripten's compiler and linker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.files.store import key_of
from edgepack.foundry.compile.archive import KernelArchive, open_archive, source_of
from edgepack.foundry.compile.generate import (
    Reduction,
    dispatch_readers,
    generate,
    replaced,
    without_messages,
)
from edgepack.foundry.link.composition import COMPOSITION, compose, write_composition
from edgepack.foundry.link.demand import Closure
from edgepack.foundry.link.licenses import write_licenses
from edgepack.foundry.link.linker import HostLibraries
from edgepack.foundry.link.reduce import SERVANTS, find_closure, provided
from edgepack.foundry.releases.ort_1_21.overlay import asks_for_messages
from edgepack.foundry.releases.ort_1_21.planner import CHANGE, with_quick_planner
from edgepack.foundry.sources.pinned import VERSION
from edgepack.foundry.web.api import API, EXPORTS, direct_api
from edgepack.foundry.web.composition import module_pieces, without_names
from edgepack.foundry.web.cxxruntime import with_lean_streams
from edgepack.foundry.web.emscripten import Emscripten, emscripten
from edgepack.foundry.web.kernels import kernel_sources, with_kernels
from edgepack.foundry.web.link import GLUE, MAP, SCHEMA, WASM, link_web, offered_symbols, settings
from edgepack.operators.config import format_config, union
from edgepack.records.operators import Operators
from edgepack.records.runtime import RuntimeArtifact, RuntimeKind

THREADS = "threads"
"""The feature of the kernel archive."""
SCRIPTS = (("--pre-js", "onnxruntime/wasm/pre.js"), ("--post-js", "onnxruntime/wasm/js_post_js.js"))


def reduce_web_runtime(
    needs: Operators,
    *,
    kind: RuntimeKind = "minimal",
    threads: bool = False,
    sources: Path | None = None,
    context: BuildContext,
) -> RuntimeArtifact:
    """A WebAssembly module and its JavaScript with the kernels and types of ``needs`` and no others; cached in the store.

    With ``threads`` it has as many as the page asks for when it loads it (Emscripten's ``numThreads``): its memory is shared,
    which a page has to be cross-origin isolated for, and objects are of another kernel archive. The artifact's library is the module, its companion the script. Raises what ``reduce_runtime`` raises, and
    ``MissingToolError`` where Emscripten cannot be had.
    """
    needs = union([needs])
    tools = emscripten(context=context)
    features = (THREADS,) if threads else ()
    archive = open_archive(
        kind=kind, toolchain=tools.toolchain, features=features, sources=sources, context=context
    )
    folder = context.store.cached(
        "runtime-web",
        {
            "archive": archive.identity,
            "link": SCHEMA,
            "settings": repr(sorted(settings(threads=threads).items())),
            "kernels": key_of(kernel_sources()),
            "planner": CHANGE,
            "operators": format_config(needs),
        },
        lambda made: _build(archive, tools, needs, made, context, threads=threads),
    )
    module = folder / WASM
    context.note(f"{len(needs)} operators, {module.stat().st_size / 1e6:.2f} MB")
    return RuntimeArtifact(
        library=module,
        companions=(folder / GLUE,),
        version=VERSION,
        kind=kind,
        provides=provided(needs),
        toolchain=archive.toolchain.identity,
        licenses=tuple(sorted((folder / "licenses").iterdir())),
    )


def _build(
    archive: KernelArchive,
    tools: Emscripten,
    needs: Operators,
    folder: Path,
    context: BuildContext,
    *,
    threads: bool = False,
) -> None:
    libraries = HostLibraries(files=(), offered=offered_symbols(tools, threads=threads))
    reduction, closure = _reduced(archive, needs, libraries, context)
    link_web(
        [reduction.object_of(archive, name) for name in closure.units],
        folder,
        emscripten=tools,
        scripts=[(option, archive.tree.onnxruntime / path) for option, path in SCRIPTS],
        threads=threads,
        log_file=archive.folder / "link.log",
        context=context,
    )
    (folder / "required_operators_and_types.config").write_text(format_config(needs))
    _record(archive, reduction, closure, folder)
    write_licenses(archive, closure.units, folder / "licenses")


def _record(archive: KernelArchive, reduction: Reduction, closure: Closure, folder: Path) -> None:
    """Take the names out of the module, and write down what they say."""
    module = folder / WASM
    named = module.read_bytes()
    module.write_bytes(without_names(named))
    table, readers = dispatch_readers(archive, closure.units)
    composition = compose(
        module_pieces(named, (folder / MAP).read_text(), f"{archive.folder}/objects/"),
        closure,
        library=module,
        kernels=reduction.kernels,
        exports=EXPORTS,
        roots=reduction.roots,
        table=table,
        readers=readers,
        version=VERSION,
        kind=archive.kind,
        toolchain=archive.toolchain.identity,
    )
    write_composition(composition, folder / COMPOSITION)
    (folder / MAP).unlink()


def _reduced(
    archive: KernelArchive, needs: Operators, libraries: HostLibraries, context: BuildContext
) -> tuple[Reduction, Closure]:
    """What is linked, all of it compiled: with less of libc++ and of protobuf, unless something asks for the rest."""
    reduction = with_kernels(archive, _with_api(archive, generate(archive, needs)))
    reduction = with_quick_planner(archive, reduction)
    lean = without_messages(archive, reduction)
    closure = find_closure(archive, lean, EXPORTS, libraries, context)
    asked = {
        symbol
        for name, found in closure.symbols.items()
        if not name.startswith(SERVANTS)
        for symbol in found.needs
    }
    reduction = with_lean_streams(archive, reduction, asked)
    chosen = reduction if asks_for_messages(asked) else without_messages(archive, reduction)
    return chosen, find_closure(archive, chosen, EXPORTS, libraries, context)


def _with_api(archive: KernelArchive, reduction: Reduction) -> Reduction:
    """The reduction with the functions that JavaScript calls, and nothing else of the C API, as its root."""
    unit = next(name for name in archive.units if name.endswith(f"/{API}"))
    text = direct_api(source_of(archive, archive.units[unit]).read_text())
    job = replaced(archive, unit, "wasm/api.cc", text)
    roots: Sequence[str] = (*reduction.roots, unit)
    return replace(reduction, overrides={**reduction.overrides, unit: job}, roots=tuple(roots))
