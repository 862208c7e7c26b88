"""What is published of the components of runtimes, and what it means for one (VEX).

The data lies in the room of each release that is built, and in one file for those whose wheels are shipped.
"""

import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any

FILE = "vulnerabilities.toml"
IN_TRIAGE = "in_triage"
NOT_SEARCHED = "not searched"
REDUCED = ("minimal", "minimal-extended", "full")
"""Kinds of runtimes that hold the kernels of their operators and no others."""


@dataclass(frozen=True, kw_only=True)
class Vulnerability:
    """One entry of a data file, which says what its fields mean."""

    id: str
    release: str
    """The version of ONNX Runtime that the file is for."""
    component: str
    versions: tuple[str, ...]
    source: str
    seen: str
    summary: str
    state: str
    detail: str
    justification: str | None = None
    objects: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()

    def analysis(self, kind: str | None, operators: Collection[str] | None = None) -> Mapping[str, str]:
        """CycloneDX's words on it, for a runtime of this kind.

        ``operators``: those that it has, ``DOMAIN:NAME``; ``None``: that is not known.
        """
        if self.may_be_linked(kind, operators):
            return {
                "state": IN_TRIAGE,
                "detail": f"may be linked into this runtime: {', '.join(self.objects)}",
            }
        said = {"state": self.state, "detail": self.detail}
        return said | ({"justification": self.justification} if self.justification else {})

    def may_be_linked(self, kind: str | None, operators: Collection[str] | None) -> bool:
        """Whether a runtime is of those that *not affected* is not said of."""
        if self.kinds and kind not in self.kinds:
            return True
        if not self.operators:
            return False
        known = kind in REDUCED and operators is not None
        return not known or not set(self.operators).isdisjoint(operators or ())

    def linked(self, members: Collection[str]) -> list[str]:
        """Objects of a library, as the linker's map names them, that hold the code."""
        return [name for name in members if any(fnmatchcase(name, pattern) for pattern in self.objects)]


@cache
def known_vulnerabilities() -> tuple[Vulnerability, ...]:
    """All entries, release by release, in their files' order."""
    return tuple(
        Vulnerability(
            id=entry["id"],
            release=_release(table),
            component=entry["component"],
            versions=tuple(entry["versions"]),
            source=entry["source"],
            seen=entry["seen"],
            summary=entry["summary"],
            state=entry["state"],
            detail=entry["detail"],
            justification=entry.get("justification"),
            objects=tuple(entry.get("objects", ())),
            kinds=tuple(entry.get("kinds", ())),
            operators=tuple(entry.get("operators", ())),
        )
        for table in _tables()
        for entry in table.get("vulnerability", ())
    )


def searched(component: str, version: str) -> str:
    """When the vulnerabilities of a component's version were looked for, ``2026-11-22``, or that nobody has."""
    for table in _tables():
        for entry in table["searched"]:
            if (entry["component"], entry["version"]) == (component, version):
                return str(entry["seen"])
    return NOT_SEARCHED


def _release(table: Mapping[str, Any]) -> str:
    return next(str(entry["version"]) for entry in table["searched"] if entry["component"] == "onnxruntime")


def _tables() -> Iterator[Mapping[str, Any]]:
    releases = files("edgepack.foundry.releases")
    rooms = sorted((room for room in releases.iterdir() if room.is_dir()), key=lambda room: room.name)
    for file in (*(room / "data" / FILE for room in rooms), releases / FILE):
        if file.is_file():
            yield tomllib.loads(file.read_text(encoding="utf-8"))
