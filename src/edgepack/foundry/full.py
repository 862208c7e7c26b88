"""Everything compiled, not only what one model asks for: for archives that travel, and for the symbol index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.foundry.archive import KernelArchive, compile_units, open_archive
from edgepack.foundry.elf import Symbols
from edgepack.foundry.index import dump_index
from edgepack.foundry.reduce import API_SYMBOLS
from edgepack.foundry.toolchain import choose
from edgepack.records import Platform, RuntimeKind

BATCH = 16


def complete_archive(
    *,
    platform: Platform,
    kind: RuntimeKind = "minimal",
    features: Sequence[str] = (),
    sources: Path | None = None,
    glibc: str | None = None,
    context: BuildContext,
) -> KernelArchive:
    """The kernel archive with every object that any reduced runtime may ask for; most of an hour on two processors."""
    toolchain = choose(platform, glibc=glibc, context=context)
    archive = open_archive(
        kind=kind, toolchain=toolchain, features=features, sources=sources, context=context
    )
    compile_everything(archive, context=context)
    return archive


def compile_everything(archive: KernelArchive, *, context: BuildContext) -> Mapping[str, Symbols]:
    """All units, in the form that no model has changed; other builds are let in between batches."""
    names = sorted(archive.units)
    found: dict[str, Symbols] = {}
    with context.progress("compile everything", len(names), unit="files") as bar:
        for start in range(0, len(names), BATCH):
            batch = names[start : start + BATCH]
            found.update(compile_units(archive, batch, context=context))
            bar.advance(len(batch))
    return found


def make_index(archive: KernelArchive, *, context: BuildContext) -> bytes:
    """The symbol index of a release and kind, as it is shipped in ``data/symbols-VERSION-KIND.json.zst``."""
    exports = (archive.tree.onnxruntime / API_SYMBOLS).read_text().split()
    return dump_index(compile_everything(archive, context=context), exports=exports)
