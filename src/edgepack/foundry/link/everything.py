"""Everything compiled, not only what one model asks for: for archives that are exported, and for the symbol index."""

import time
from collections.abc import Iterable, Mapping

from edgepack.context import BuildContext
from edgepack.foundry.compile.archive import KernelArchive
from edgepack.foundry.compile.objects import recorded_symbols
from edgepack.foundry.link.index import dump_index
from edgepack.foundry.patch import Patch
from edgepack.foundry.symbols import Symbols

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
            found.update(archive.compile(batch, context=context))
            bar.advance(len(batch))
            time.sleep(PAUSE)
    return found


def make_index(archive: KernelArchive) -> bytes:
    """The symbol index as it is shipped in ``data/symbols-KIND[-ARCH].json.zst``, of what the archive holds.

    A unit that was compiled only in a special form counts as that: an index predicts, it need not be exact.
    """
    brought = _units_of(archive, [patch for patch in archive.toolchain.patches if patch.root])
    known: dict[str, Symbols] = {}
    for name in archive.units:
        place = archive.objects / name
        forms = [place.with_name(f"{place.name}.o"), *sorted(place.parent.glob(f"{place.name}.*.o"))]
        if name in brought:
            # No runtime is linked with the form that upstream has.
            forms.reverse()
        found = next((symbols for form in forms if (symbols := recorded_symbols(form))), None)
        if found:
            known[name] = found
    # What the registrations of every operator ask for says nothing of one model's.
    choosing = _units_of(archive, [patch for patch in archive.release.patches if patch.root])
    return dump_index(known, exports=archive.exports, choosing=choosing)


def _units_of(archive: KernelArchive, patches: Iterable[Patch]) -> set[str]:
    return {name for patch in patches for name in archive.patched_units(patch)}
