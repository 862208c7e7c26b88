"""A reduced runtime for WebAssembly: the kernel archive's ways, Emscripten's compiler and linker."""

from collections.abc import Sequence
from pathlib import Path

from edgepack.api import BuildContext, Operators, RuntimeArtifact
from edgepack.api.kit import key_of
from edgepack.foundry.compile.archive import KernelArchive, open_archive
from edgepack.foundry.link.composition import COMPOSITION, write_composition
from edgepack.foundry.link.postlink import write_runtime_licenses
from edgepack.foundry.link.reduce import Outside, Reduced, link_reduced
from edgepack.foundry.link.reduced_library import provided
from edgepack.foundry.linkmap import Piece
from edgepack.foundry.patch import ALLOCATION_PLANNER
from edgepack.operators.config import format_config, union
from edgepack_web.foundry.composition import module_pieces, without_names
from edgepack_web.foundry.emscripten import emscripten
from edgepack_web.foundry.kernels import kernel_sources
from edgepack_web.foundry.link import GLUE, MAP, SCHEMA, WASM, link_web, settings
from edgepack_web.foundry.toolchain import WEB_RELEASE, EmscriptenToolchain

THREADS = "threads"
"""The feature of the kernel archive."""
SCRIPTS = (("--pre-js", "onnxruntime/wasm/pre.js"), ("--post-js", "onnxruntime/wasm/js_post_js.js"))


def reduce_web_runtime(needs: Operators, *, threads: bool = False, context: BuildContext) -> RuntimeArtifact:
    """A WebAssembly module and its JavaScript with the kernels and types of ``needs`` and no others; cached in the store.

    With ``threads`` it has as many as the page asks for when it loads it (Emscripten's ``numThreads``): its memory is shared,
    which a page has to be cross-origin isolated for, and objects are of another kernel archive. The artifact's library is
    the module, its companion the script. Raises what ``reduce_runtime`` raises, and ``MissingToolError`` where Emscripten
    cannot be had.
    """
    needs = union([needs])
    toolchain = EmscriptenToolchain(tools=emscripten(context=context), threads=threads)
    features = (THREADS,) if threads else ()
    archive = open_archive(
        kind="minimal", toolchain=toolchain, features=features, release=WEB_RELEASE, context=context
    )
    folder = context.store.cached(
        "runtime-web",
        {
            "archive": archive.identity,
            "link": SCHEMA,
            "settings": repr(sorted(settings(threads=threads).items())),
            "kernels": key_of(kernel_sources()),
            "planner": archive.release.trim(ALLOCATION_PLANNER).change,
            "operators": format_config(needs),
        },
        lambda made: _build(archive, toolchain, needs, made, context),
    )
    module = folder / WASM
    context.note(f"{len(needs)} operators, {module.stat().st_size / 1e6:.2f} MB")
    return RuntimeArtifact(
        library=module,
        companions=(folder / GLUE,),
        version=archive.release.version,
        kind="minimal",
        provides=provided(needs),
        toolchain=archive.toolchain.identity,
        licenses=tuple(sorted((folder / "licenses").iterdir())),
        source_files=archive.source_files,
    )


def _build(
    archive: KernelArchive,
    toolchain: EmscriptenToolchain,
    needs: Operators,
    folder: Path,
    context: BuildContext,
) -> None:
    def link(reduced: Reduced) -> Sequence[Piece]:
        link_web(
            reduced.objects,
            folder,
            emscripten=toolchain.tools,
            scripts=[(option, archive.tree.onnxruntime / path) for option, path in SCRIPTS],
            threads=toolchain.threads,
            log_file=archive.link_log,
            context=context,
        )
        return ()

    outside = Outside(asked=archive.exports, libraries=toolchain.libraries(context=context))
    reduced = link_reduced(archive, archive.request(needs), outside, link, context=context)
    (folder / "required_operators_and_types.config").write_text(format_config(needs))
    linked = _record(reduced, folder)
    write_runtime_licenses(archive, linked, folder / "licenses")


def _record(reduced: Reduced, folder: Path) -> list[str]:
    """Take the names out of the module, and write down what they say; the objects that are in it."""
    module = folder / WASM
    named = module.read_bytes()
    module.write_bytes(without_names(named))
    objects = f"{reduced.reduction.archive.objects}/"
    pieces = module_pieces(named, (folder / MAP).read_text(), objects)
    composition = reduced.composition(pieces, module)
    write_composition(composition, folder / COMPOSITION)
    (folder / MAP).unlink()
    return [member.name for member in composition.members if not member.by_linker]
