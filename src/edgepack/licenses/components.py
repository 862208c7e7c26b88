"""What bundles may hold of others: licence, publisher, address, and what it is called in the linker's map."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Known:
    """A component that edgepack knows, whatever its version."""

    name: str
    """What its licence text is filed under."""
    license: str
    """SPDX expression; one that begins with ``LicenseRef-`` is not on SPDX's list."""
    supplier: str
    purl: str
    """Package URL, with ``{version}``."""
    within: tuple[str, ...] = ()
    """The first of these that is in a bundle depends on it."""
    linked: tuple[str, ...] = ()
    """Patterns of what the linker's map names."""
    headers: bool = False
    """Compiled in through its headers wherever ONNX Runtime is."""
    holds: tuple[str, ...] = ()
    """Parts without a version and a text of their own."""


@cache
def known_components() -> Mapping[str, Known]:
    """The table, by name."""
    text = (files("edgepack.licenses") / "components.toml").read_text(encoding="utf-8")
    table: Mapping[str, dict[str, Any]] = tomllib.loads(text)
    return {
        name: Known(
            name=name,
            license=entry["license"],
            supplier=entry["supplier"],
            purl=entry["purl"],
            within=tuple(entry.get("within", ())),
            linked=tuple(entry.get("linked", ())),
            headers=entry.get("headers", False),
            holds=tuple(entry.get("holds", ())),
        )
        for name, entry in table.items()
    }


def linked_component(file: str) -> str | None:
    """The component that a file of the linker's map is of, as ``composition`` names it; ``None``: of none that is known."""
    found = [
        known.name
        for known in known_components().values()
        if any(fnmatchcase(file, pattern) for pattern in known.linked)
    ]
    return found[0] if found else None


def linked_components(files: Iterable[str]) -> frozenset[str]:
    """The known components among what was linked."""
    return frozenset(name for file in files if (name := linked_component(file)))


def header_components() -> frozenset[str]:
    """Components that every ONNX Runtime has compiled in through its headers."""
    return frozenset(known.name for known in known_components().values() if known.headers)
