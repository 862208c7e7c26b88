"""What is in a library and which operator asks for it: exact figures that sum to the file's size."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path

from edgepack.errors import BundleError
from edgepack.files.elf import file_layout
from edgepack.files.store import ENTRY_FILE, Store, listed, sha256_of
from edgepack.foundry.explain.weaknesses import Weakness, weaknesses_of
from edgepack.foundry.link.composition import COMPOSITION, Composition, Member, operator_of, read_composition
from edgepack.foundry.link.search import identifiers
from edgepack.foundry.platform import Form

HEADERS = "ELF headers and section table"
PADDING = "padding between sections"
ALIGNMENT = "alignment within sections"
MERGED = "strings and constants, merged"
DYNAMIC = "relocations, symbols and other tables"
EVERY = "every runtime"
SEVERAL = "several operators"

_AREAS = {
    "onnxruntime_framework": "framework",
    "onnxruntime_session": "session",
    "onnxruntime_graph": "graph",
    "onnxruntime_optimizer": "optimizer",
    "onnxruntime_mlas": "MLAS",
    "onnxruntime_providers": "kernels",
    "onnxruntime_common": "common",
    "onnxruntime_util": "common",
    "onnxruntime_flatbuffers": "flatbuffers",
    "onnxruntime_lora": "LoRA",
    "onnx_proto": "onnx_proto",
    "onnx": "onnx",
    "libprotobuf-lite": "protobuf",
    "libprotobuf": "protobuf",
    "re2": "re2",
    "libcxx": "libc++",
    "libcxxabi": "libc++",
    "libstdc++.a": "libstdc++",
    "libcompiler_rt.a": "compiler runtime",
    "libc_nonshared.a": "compiler runtime",
}

ELF = Form(layout=file_layout, headers=HEADERS, padding=PADDING, alignment=ALIGNMENT)


@dataclass(frozen=True, kw_only=True)
class Row:
    """A line of a table: bytes of the file."""

    name: str
    bytes: int
    members: int = 0


@dataclass(frozen=True, kw_only=True)
class OperatorRow:
    """Bytes of the file that an operator brings in."""

    name: str
    alone: int
    """Of members that no other operator asks for: what the library would lose with it, but for the shared tables."""
    shared: int
    """Of members that other operators ask for too."""


@dataclass(frozen=True, kw_only=True)
class MemberRow:
    """An object of the library. Bytes of the file."""

    name: str
    area: str
    bytes: int
    operators: tuple[str, ...]
    why: tuple[str, ...]
    """From the C API or a kernel's registration to the member, a step each."""


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A library, taken apart. ``sections`` sum to ``bytes``, and so do ``areas`` and ``askers``."""

    library: str
    bytes: int
    about: str
    """Version, kind and toolchain, where they are known."""
    sections: tuple[Row, ...]
    areas: tuple[Row, ...] = ()
    askers: tuple[Row, ...] = ()
    operators: tuple[OperatorRow, ...] = ()
    members: tuple[MemberRow, ...] = ()
    weaknesses: tuple[Weakness, ...] = ()
    """Published vulnerabilities of the release and of what it is built from."""


def explain(library: Path, composition: Composition | None, *, form: Form = ELF) -> Explanation:
    """Take a library apart; without a record of how it was linked by its sections only.

    Raises ``BundleError`` for a file that is no library, and for a record that is another library's.
    """
    size = library.stat().st_size if library.is_file() else 0
    layout = form.layout(library)
    gaps = size - layout.headers - sum(layout.sections.values())
    sections = [Row(name=name, bytes=taken) for name, taken in layout.sections.items() if taken]
    outside = [Row(name=form.padding, bytes=gaps)] if form.padding else []
    outside.append(Row(name=form.headers, bytes=layout.headers))
    if composition is None or not composition.members:
        return Explanation(
            library=library.name,
            bytes=size,
            about=_about(composition) if composition else "",
            sections=(*_largest_first(sections), *outside),
        )
    weights = {member.name: _weight(member, layout.sections) for member in composition.members}
    aligned = sum(layout.sections.values()) - sum(weights.values())
    if aligned < 0:
        raise BundleError(f"the link record of {library.name} belongs to another library")
    rest = [Row(name=form.alignment, bytes=aligned), *outside]
    return Explanation(
        library=library.name,
        bytes=size,
        about=_about(composition),
        sections=(*_largest_first(sections), *outside),
        areas=(*_totals(composition.members, weights, partial(area_of, form=form)), *rest),
        askers=(*_totals(composition.members, weights, partial(_asker_of, form=form)), *rest),
        operators=_operators(composition.members, weights),
        members=_member_rows(composition, weights, form),
        weaknesses=tuple(weaknesses_of(composition)),
    )


def _about(composition: Composition) -> str:
    return f"ONNX Runtime {composition.version}, {composition.kind}, {composition.toolchain}"


def find_composition(library: Path, store: Store) -> Composition | None:
    """The record of a library: beside it, where ``runtime lib`` puts it, or in the store, by the library's digest."""
    if not library.is_file():
        raise BundleError(
            f"there is no library {library}", hint="`edgepack runtime lib` makes one, lib/libonnxruntime.so"
        )
    digest = sha256_of(library)
    for path in (*_beside(library), *_stored(digest, store)):
        composition = read_composition(path)
        if composition.sha256 == digest:
            return composition
    return None


def area_of(member: Member, *, form: Form = ELF) -> str:
    """The part of ONNX Runtime, or the library, that a member belongs to."""
    if member.by_linker:
        return MERGED if member.name.startswith(".rodata") else DYNAMIC
    first = member.name.split("/")[0].split("(")[0]
    return "abseil" if first.startswith("absl_") else form.areas.get(first) or _AREAS.get(first, first)


def short_name(unit: str) -> str:
    """A unit's name for people: without the target, and without what all of upstream's paths begin with."""
    target, _, path = unit.partition("/")
    return path.removeprefix("onnxruntime/onnxruntime/") if target.startswith("onnxruntime_") else unit


def _beside(library: Path) -> Iterator[Path]:
    for folder in (library.parent, library.parent.parent):
        if (folder / COMPOSITION).is_file():
            yield folder / COMPOSITION


def _stored(digest: str, store: Store) -> Iterator[Path]:
    listings = (store.root.glob(f"{kind}/*/{ENTRY_FILE}") for kind in ("runtime*", "program"))
    for listing in sorted(chain.from_iterable(listings)):
        files = listed(listing.parent)
        if digest in files.values() and COMPOSITION in files:
            yield listing.parent / COMPOSITION


def _weight(member: Member, layout: Mapping[str, int]) -> int:
    """Bytes of the file: what a section like .bss holds is none."""
    return sum(size for section, size in member.sections.items() if layout.get(section))


def _asker_of(member: Member, *, form: Form) -> str:
    if member.by_linker:
        return area_of(member, form=form)
    if not member.operators:
        return EVERY
    return member.operators[0] if len(member.operators) == 1 else SEVERAL


def _totals(
    members: Iterable[Member], weights: Mapping[str, int], group_of: Callable[[Member], str]
) -> list[Row]:
    totals: dict[str, list[int]] = defaultdict(list)
    for member in members:
        totals[group_of(member)].append(weights[member.name])
    return _largest_first(
        Row(name=name, bytes=sum(sizes), members=len(sizes)) for name, sizes in totals.items()
    )


def _operators(members: Iterable[Member], weights: Mapping[str, int]) -> tuple[OperatorRow, ...]:
    alone: dict[str, int] = defaultdict(int)
    shared: dict[str, int] = defaultdict(int)
    for member in members:
        for operator in member.operators:
            (alone if len(member.operators) == 1 else shared)[operator] += weights[member.name]
    rows = (
        OperatorRow(name=name, alone=alone[name], shared=shared[name])
        for name in alone.keys() | shared.keys()
    )
    return tuple(sorted(rows, key=lambda row: (-row.alone, -row.shared, row.name)))


def _member_rows(composition: Composition, weights: Mapping[str, int], form: Form) -> tuple[MemberRow, ...]:
    rows = [
        MemberRow(
            name=member.name,
            area=area_of(member, form=form),
            bytes=weights[member.name],
            operators=member.operators,
            why=tuple(_why(composition, member.name)),
        )
        for member in composition.members
        if weights[member.name]
    ]
    return tuple(sorted(rows, key=lambda row: (-row.bytes, row.name)))


def _why(composition: Composition, name: str) -> Iterator[str]:
    chain = composition.chain(name)
    for step in chain:
        asked = "::".join(identifiers(step.symbol))
        yield f"{short_name(step.unit)} needs {asked}" if step.unit else _from_outside(step.symbol)
    if chain:
        yield short_name(name)


def _from_outside(symbol: str) -> str:
    operator = operator_of(symbol)
    if operator != symbol:
        return f"the kernel of {operator}"
    if symbol.startswith("_Z"):
        return f"the program's own code needs {'::'.join(identifiers(symbol)) or symbol}"
    return symbol if symbol.startswith("registration of ") else f"{symbol} of the C API"


def _largest_first(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (-row.bytes, row.name))
