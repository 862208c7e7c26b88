"""What a linked file still wants: a map without this machine's folders, its licences, and checks of the floor."""

from pathlib import Path

from edgepack.foundry.link.composition import unit_of
from edgepack.foundry.link.instructions import check_instructions, is_dispatched
from edgepack.foundry.link.licenses import write_runtime_licenses
from edgepack.foundry.link.reduce import Reduced
from edgepack.foundry.toolchains.linkmap import Piece
from edgepack.foundry.toolchains.symbols import check_floor
from edgepack.foundry.toolchains.toolchain import NativeToolchain

MAP = "link.map"


def settle(reduced: Reduced, toolchain: NativeToolchain, output: Path, *, below: Path) -> None:
    """Finish a file that was linked beside its map, whose objects are then named relative to ``below``.

    Raises ``FloorError``.
    """
    archive = reduced.reduction.archive
    # What explains a library needs the objects' names only.
    map_file = output.with_name(MAP)
    map_file.write_text(map_file.read_text().replace(f"{below}/", ""))
    output.chmod(0o755)
    check_floor(output, toolchain.glibc)
    _check_code(reduced, output, list(toolchain.pieces(map_file)))
    write_runtime_licenses(archive, reduced.demand.units, output.with_name("licenses"))


def _check_code(reduced: Reduced, library: Path, pieces: list[Piece]) -> None:
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
        is_kernel=lambda piece: (
            unit_of(piece.file.removeprefix("objects/")) in kernels
            and piece.section.removeprefix(".text.") not in elsewhere
        ),
    )
