"""What is published of the pinned components, and what it means for a bundle (VEX)."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

IN_TRIAGE = "in_triage"


@dataclass(frozen=True, kw_only=True)
class Vulnerability:
    """One entry of the data file, which says what its fields mean."""

    id: str
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

    def analysis(self, kind: str | None) -> Mapping[str, str]:
        """CycloneDX's words on it, for a runtime of this kind."""
        if self.kinds and kind not in self.kinds:
            return {
                "state": IN_TRIAGE,
                "detail": f"linked into a runtime of this kind: {', '.join(self.objects)}",
            }
        said = {"state": self.state, "detail": self.detail}
        return said | ({"justification": self.justification} if self.justification else {})


@cache
def known_vulnerabilities() -> tuple[Vulnerability, ...]:
    """All entries, in the file's order."""
    text = (files("edgepack.licenses") / "vulnerabilities.toml").read_text(encoding="utf-8")
    return tuple(
        Vulnerability(
            id=entry["id"],
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
        )
        for entry in tomllib.loads(text)["vulnerability"]
    )
