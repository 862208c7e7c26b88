"""Everything compiled, not only what one model asks for: for archives that travel, and for the symbol index."""

from __future__ import annotations

import time
from collections.abc import Mapping

from edgepack.context import BuildContext
from edgepack.foundry.compile.archive import KernelArchive, compile_units
from edgepack.foundry.compile.generate import PROVIDERS
from edgepack.foundry.compile.objects import recorded_symbols
from edgepack.foundry.compile.symbols import Symbols
from edgepack.foundry.link.index import dump_index
from edgepack.foundry.link.reduce import API_SYMBOLS
from edgepack.foundry.web.api import API, EXPORTS

BATCH = 16
PAUSE = 0.2
"""Seconds; those who wait for a lock look for it twenty times a second."""


def compile_everything(archive: KernelArchive, *, context: BuildContext) -> Mapping[str, Symbols]:
    """All units, in the form that no model has changed; other builds are let in between batches."""
    names = sorted(archive.units)
    found: dict[str, Symbols] = {}
    with context.progress("compile everything", len(names), unit="files") as bar:
        for start in range(0, len(names), BATCH):
            batch = names[start : start + BATCH]
            found.update(compile_units(archive, batch, context=context))
            bar.advance(len(batch))
            time.sleep(PAUSE)
    return found


def make_index(archive: KernelArchive) -> bytes:
    """The symbol index as it is shipped in ``data/symbols-VERSION-KIND[-ARCH].json.zst``, of what the archive holds.

    A unit that was compiled only in a special form counts as that: an index predicts, it need not be exact.
    """
    web = archive.toolchain.family == "emscripten"
    exports = EXPORTS if web else (archive.tree.onnxruntime / API_SYMBOLS).read_text().split()
    known: dict[str, Symbols] = {}
    for name in archive.units:
        place = archive.folder / "objects" / name
        forms = [place.with_name(f"{place.name}.o"), *sorted(place.parent.glob(f"{place.name}.*.o"))]
        if web and name.endswith(f"/{API}"):
            # As upstream has it, it leads to all of the C API; no runtime is linked with that form.
            forms.reverse()
        found = next((symbols for form in forms if (symbols := recorded_symbols(form))), None)
        if found:
            known[name] = found
    # What the registrations of every operator ask for says nothing of one model's.
    choosing = {PROVIDERS + source for source in archive.settings["units"]["registrations"]}
    return dump_index(known, exports=exports, choosing=choosing)
