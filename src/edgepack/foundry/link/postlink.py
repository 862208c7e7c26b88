"""What a linked file still wants: a map without this machine's folders, its licences, and checks of the floor."""

import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path

from edgepack.files.hardening import require_hardened
from edgepack.foundry.compile.archive import KernelArchive
from edgepack.foundry.link.composition import LINKER, member_name, unit_of
from edgepack.foundry.link.instructions import check_instructions, is_dispatched
from edgepack.foundry.link.reduce import Reduced
from edgepack.foundry.linkmap import Piece
from edgepack.foundry.processor import Processor
from edgepack.foundry.symbols import check_floor
from edgepack.foundry.toolchain import NativeToolchain, Toolchain
from edgepack.licenses.components import header_components, known_components, linked_components

MAP = "link.map"
_STORED = {"mp11": "mp11.txt"}
"""Debian's file for mp11 is that of all of Boost, two megabytes: its own licence is kept here instead."""


def settle(reduced: Reduced, toolchain: NativeToolchain, output: Path, *, below: Sequence[Path]) -> None:
    """Finish a file that was linked beside its map, whose objects are then named relative to ``below``.

    Raises ``FloorError``, or ``BundleError`` for a file that is not hardened.
    """
    archive = reduced.reduction.archive
    # What explains a library needs the objects' names only.
    map_file = output.with_name(MAP)
    text = map_file.read_text()
    for folder in below:
        text = text.replace(f"{folder}/", "")
    map_file.write_text(text)
    output.chmod(0o755)
    check_floor(output, toolchain.glibc)
    require_hardened(output, marks=toolchain.marks)
    pieces = list(toolchain.pieces(map_file))
    _check_code(reduced, toolchain.processor, output, pieces)
    # Where the linker's map cannot be read, what was given to the linker.
    linked = list(linked_files(pieces)) or reduced.demand.units
    write_runtime_licenses(archive, linked, output.with_name("licenses"))


def linked_files(pieces: Iterable[Piece]) -> Iterator[str]:
    """Names of the files in the linker's map, as the table of components gives them: objects without the folder that they were compiled in."""
    for name in dict.fromkeys(member_name(piece.file) for piece in pieces if piece.file != LINKER):
        place = Path(name).name if name.startswith("/") else name
        yield place.removeprefix("objects/").removeprefix("runtime/")


def _check_code(reduced: Reduced, processor: Processor, library: Path, pieces: list[Piece]) -> None:
    """Raises ``FloorError`` for code of other sets than every processor's where it is not one of MLAS's kernels."""
    archive, demand = reduced.reduction.archive, reduced.demand
    kernels = {name for name in demand.units if is_dispatched(archive.units[name])}
    elsewhere: set[str] = set()
    for name in demand.units:
        if name not in kernels:
            elsewhere |= demand.symbols[name].weak | demand.symbols[name].defines
    check_instructions(
        library,
        [piece for piece in pieces if piece.output == ".text"],
        processor,
        is_kernel=lambda piece: (
            unit_of(piece.file.removeprefix("objects/")) in kernels
            and piece.section.removeprefix(".text.") not in elsewhere
        ),
    )


def write_runtime_licenses(archive: KernelArchive, linked: Collection[str], folder: Path) -> tuple[Path, ...]:
    """One text a component, named after it with its version; for ONNX Runtime, its headers' and its linked libraries'.

    ``linked``: units, or all that the linker's map names.
    """
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {"onnxruntime", *header_components(), *linked_components(linked)}
    written = [_write(archive, part, folder) for part in sorted(wanted) if part in archive.tree.parts]
    return (*written, *write_toolchain_licenses(archive.toolchain, linked, folder))


def write_toolchain_licenses(toolchain: Toolchain, linked: Collection[str], folder: Path) -> tuple[Path, ...]:
    """The texts of what a toolchain brings; of what the linker's map tells apart, those of what is in it."""
    folder.mkdir(parents=True, exist_ok=True)
    known, found = known_components(), linked_components(linked)
    written = []
    for name, text in toolchain.licenses().items():
        component = known.get(re.sub(r"-\d[\w.]*\.txt$", "", name))
        if component is None or not component.linked or component.name in found:
            shutil.copyfile(text, folder / name)
            written.append(folder / name)
    return tuple(written)


def _write(archive: KernelArchive, name: str, folder: Path) -> Path:
    part = archive.tree.parts[name]
    root = archive.tree.folder / name
    texts = [f"{part.name} {part.version} ({part.license})\n{part.upstream}\n"]
    if name in _STORED:
        texts.append(
            (files("edgepack.foundry.link") / "data/licenses" / _STORED[name]).read_text(encoding="utf-8")
        )
    else:
        found = (root / file for file in part.license_files if (root / file).is_file())
        texts += [file.read_text(encoding="utf-8", errors="replace") for file in found]
    target = folder / f"{name}-{part.version}.txt"
    target.write_text("\n".join(texts), encoding="utf-8")
    return target
