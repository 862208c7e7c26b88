"""The published vulnerabilities of a release, against what was linked into one library."""

from collections.abc import Iterator
from dataclasses import dataclass

from edgepack.foundry.link.composition import Composition
from edgepack.licenses.vulnerabilities import Vulnerability, known_vulnerabilities

NOT_COMPILED, NOT_LINKED, LINKED, NOT_KNOWN = "not compiled", "not linked", "linked", "not known"


@dataclass(frozen=True, kw_only=True)
class Weakness:
    id: str
    summary: str
    code: str
    """``linked``, ``not linked``, ``not compiled`` (no runtime has it), or ``not known``."""
    objects: tuple[str, ...]
    """Those that hold the code and were linked."""


def weaknesses_of(composition: Composition) -> Iterator[Weakness]:
    """Published vulnerabilities of the library's release and of its parts, with what the record of the link says of the code."""
    members = [member.name for member in composition.members if not member.by_linker]
    for known in known_vulnerabilities():
        if known.release == composition.version:
            linked = known.linked(members)
            yield Weakness(
                id=known.id, summary=known.summary, code=_said(known, linked), objects=tuple(linked)
            )


def _said(known: Vulnerability, linked: list[str]) -> str:
    if not known.objects:
        return NOT_COMPILED if known.justification else NOT_KNOWN
    return LINKED if linked else NOT_LINKED
