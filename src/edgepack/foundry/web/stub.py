"""A module without the code of functions that are never entered: they trap instead."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from edgepack.foundry.web.binary import CODE, Section, assemble, bodies, code_section, sections

TRAP = bytes([0, 0x00, 0x0B])
"""No locals, ``unreachable``, ``end``."""


@dataclass(frozen=True, kw_only=True)
class Stubbed:
    """A module that has been pruned."""

    module: bytes
    functions: int
    """How many it has of its own."""
    kept: int
    """How many of them have their code."""


def stub_wasm(module: bytes, keep: Collection[int]) -> Stubbed:
    """The module in which functions other than ``keep`` trap. Raises ``WasmError``, ``ValueError`` for no such function.

    Functions are counted without the imported ones. Types, tables, exports and indices stay as they are; so do
    functions that are no longer than the trap, and custom sections but those that describe the code that is gone.
    """
    parts = sections(module)
    code = bodies(parts)
    if strangers := sorted(index for index in keep if not 0 <= index < len(code)):
        raise ValueError(f"there is no function {strangers[0]}: the module has {len(code)}")
    chosen = frozenset(keep)
    pruned = [body if index in chosen or len(body) <= len(TRAP) else TRAP for index, body in enumerate(code)]
    kept = sum(1 for before, after in zip(code, pruned, strict=True) if before is after)
    new = code_section(pruned)
    remaining: list[Section] = [
        new if part.id == CODE else part for part in parts if not _describes_code(part)
    ]
    return Stubbed(module=assemble(remaining), functions=len(code), kept=kept)


def _describes_code(part: Section) -> bool:
    """Debug information and source maps speak of places in the code."""
    return part.name.startswith(".debug_") or part.name in ("sourceMappingURL", "metadata.code.branch_hint")
