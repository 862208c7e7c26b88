"""ONNX Runtime's tables of operator kernels, reduced to what is needed.

Upstream's method (tools/ci_build/reduce_op_kernels.py): rows of kernels that are not needed are left out of the two
registration sources, which unlinks their code; for the others, the types that they must handle are written into an
include file of the kernel sources. Here it works on copies, and the archive's source tree stays as it is.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from edgepack.errors import UnsupportedModelError
from edgepack.foundry.patch import Patch, RuntimeRequest
from edgepack.foundry.releases.ort_1_21.type_filter import TypeFilter, filter_for
from edgepack.operators.config import union
from edgepack.operators.domains import DOMAINS
from edgepack.records.operators import Operator, Operators

_ADDED = "onnxruntime/core/optimizer/layout_transformation/layout_transformation_potentially_added_ops.h"
_ROW = re.compile(
    r"BuildKernelCreateInfo<\s*(?:class\s+)?ONNX_OPERATOR_(?P<form>[A-Z_]*?)KERNEL_CLASS_NAME\((?P<arguments>[^()]*)\)\s*>\s*,?"
)


@dataclass(frozen=True, kw_only=True)
class Registration:
    """One row: a kernel for a range of versions of an operator, perhaps for certain types only."""

    domain: str
    name: str
    start: int
    end: int | None
    """Inclusive; ``None``: until further notice."""
    types: tuple[str, ...]
    symbol: str
    """The function that the row refers to, mangled."""

    def serves(self, operator: Operator) -> bool:
        """Whether this is a kernel for the operator's version."""
        return (
            (self.domain, self.name) == (operator.domain, operator.name)
            and self.start <= operator.since
            and (self.end is None or operator.since <= self.end)
        )


def possible_operators(onnxruntime: Path, kind: str, needs: Operators) -> Operators:
    """The needs, with the operators that optimizers may put into a model when it is loaded; minimal builds have none."""
    if kind == "minimal":
        return needs
    return union([needs, added_by_optimizers((onnxruntime / _ADDED).read_text())])


def added_by_optimizers(header: str) -> Operators:
    """Operators that an extended minimal build's optimizers may put into a model when it is loaded.

    ``header`` is upstream's layout_transformation_potentially_added_ops.h, which marks them.
    """
    region = re.search(
        r"@@region_begin\(extended_minimal_build_required_kernels\)@@(.*?)@@region_end", header, re.S
    )
    rows = re.findall(
        r'OpIdentifierWithStringViews\{(\w+),\s*"(\w+)",\s*(\d+)\}', region[1] if region else ""
    )
    return Operators(
        kernels=frozenset(
            Operator(domain=DOMAINS[constant], name=name, since=int(since)) for constant, name, since in rows
        )
    )


def registrations(source: str) -> Iterator[tuple[re.Match[str], Registration]]:
    """The rows of a registration source, each with its place in the text."""
    contrib = "namespace contrib" in source
    for match in _ROW.finditer(_without_comments(source)):
        if row := _registration(
            match["form"], [word.strip() for word in match["arguments"].split(",")], contrib
        ):
            yield match, row


def reduce_registrations(
    source: str, needs: Operators, types: TypeFilter | None
) -> tuple[str, list[Registration]]:
    """The source without the rows that are not needed, and the rows that stayed."""
    wanted: dict[tuple[str, str], list[Operator]] = {}
    for kernel in needs.kernels:
        wanted.setdefault((kernel.domain, kernel.name), []).append(kernel)
    source = _without_comments(source)
    pieces: list[str] = []
    kept: list[Registration] = []
    position = 0
    for match, row in registrations(source):
        if _is_needed(row, wanted.get((row.domain, row.name), ()), types):
            kept.append(row)
            continue
        pieces.append(source[position : match.start()])
        # A row's line breaks stay, so that messages name the lines of upstream's file.
        pieces.append("\n" * source.count("\n", match.start(), match.end()))
        position = match.end()
    pieces.append(source[position:])
    return "".join(pieces), kept


def kernels_in(sources: Iterable[str], needs: Operators) -> tuple[str, ...]:
    """Symbols of the kernels that reduced sources name. Raises ``UnsupportedModelError`` for an operator without one."""
    rows = [row for source in sources for _, row in registrations(source)]
    require_kernels(needs, rows)
    return tuple(row.symbol for row in rows)


def registration_patch(file: str) -> Patch:
    """One of the sources that name all kernels, reduced; it is linked in any case."""
    return Patch(
        name=f"rows of {file.rpartition('/')[2]}",
        file=file,
        units=f"onnxruntime_providers/onnxruntime/onnxruntime/{file}",
        must_find=(_ROW,),
        rewrite=_reduced,
        root=True,
    )


def _reduced(source: str, request: RuntimeRequest) -> str:
    return reduce_registrations(source, request.possible, filter_for(request, request.possible))[0]


def require_kernels(needs: Operators, rows: Iterable[Registration]) -> None:
    """Raises ``UnsupportedModelError`` for an operator that no kernel of this ONNX Runtime implements."""
    by_operator: dict[tuple[str, str], list[Registration]] = {}
    for row in rows:
        by_operator.setdefault((row.domain, row.name), []).append(row)
    lacking = sorted(
        f"{kernel.domain}:{kernel.name}({kernel.since})"
        for kernel in needs.kernels
        if not any(row.serves(kernel) for row in by_operator.get((kernel.domain, kernel.name), ()))
    )
    if lacking:
        raise UnsupportedModelError(
            f"ONNX Runtime's CPU provider has no kernel for {', '.join(lacking)}",
            hint="convert the model with another opset, or leave out the pass that makes these operators",
        )


def _without_comments(source: str) -> str:
    """Lines that are nothing but comment, emptied: some hold rows."""
    return re.sub(r"^[ \t]*//[^\n]*", "", source, flags=re.M)


def _is_needed(row: Registration, operators: Iterable[Operator], types: TypeFilter | None) -> bool:
    if not any(row.serves(operator) for operator in operators):
        return False
    if not row.types or types is None:
        return True
    return types.is_typed_registration_needed(row.domain, row.name, ", ".join(row.types))


def _registration(form: str, arguments: list[str], contrib: bool) -> Registration | None:
    """Read a row's macro: (provider, domain, start[, end][, type[, type]], name)."""
    provider, constant, *rest, name = arguments
    domain = DOMAINS.get(constant)
    if domain is None:
        return None
    start = int(rest[0])
    versioned = "VERSIONED" in form
    end = int(rest[1]) if versioned else None
    types = tuple(rest[2:] if versioned else rest[1:])
    versions = f"{start}_{end}" if versioned else f"{start}"
    kernel = "_".join([provider, name, constant, f"ver{versions}", *types])
    # Declared in onnxruntime or in onnxruntime::contrib, which the mangled name's back references count.
    scope, back = ("11onnxruntime7contrib", "S0_") if contrib else ("11onnxruntime", "S_")
    info = "S_16KernelCreateInfoEv" if contrib else "NS_16KernelCreateInfoEv"
    symbol = f"_ZN{scope}21BuildKernelCreateInfoIN{back}{len(kernel)}{kernel}EEE" + (
        f"N{info}" if contrib else info
    )
    return Registration(domain=domain, name=name, start=start, end=end, types=types, symbol=symbol)
