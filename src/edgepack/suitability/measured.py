"""Figures that were measured of a target's bundle: a file beside the target's own, which ``benchmarks/targets.py`` writes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from edgepack.toml_schema import read_table

SUFFIX = ".measured.json"
SCHEMA = 1


@dataclass(frozen=True, kw_only=True)
class Made:
    """One bundle, measured."""

    model: str
    recipe: str
    date: str
    machine: str
    command: str
    archive: int
    """Bytes, as every size here."""
    folder: int
    first_visit: int | None = None
    """Of a page, which downloads less than its archive has."""
    parts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Bytes of each part, ``raw`` and under ``zstd``."""
    packages: Mapping[str, int] = field(default_factory=dict)
    """Bytes by form, of those that were made."""
    tokenizer_json: int
    """Bytes of the tokenizer.json that the bundle's tokenizer was compiled of."""
    mean_cosine: float
    min_cosine: float
    memory: int | None = None
    """Of the running program with one short text; ``None``: not measured."""
    times_as_fast: float | None = None
    """Texts in a second of processor time, beside ``beside``; ``None``: not measured."""
    beside: str = ""

    @property
    def download(self) -> int:
        """Bytes that a user downloads."""
        return self.archive if self.first_visit is None else self.first_visit


@dataclass(frozen=True, kw_only=True)
class _File:
    schema: int
    bundles: tuple[Made, ...]


def measured(target_file: Traversable) -> tuple[Made, ...]:
    """The bundles that were measured of a target, that of its own recipe first; none where there is no such file."""
    if not isinstance(target_file, Path):
        return ()
    file = file_of(target_file)
    return (
        tuple(read_table(_File, json.loads(file.read_text(encoding="utf-8"))).bundles)
        if file.is_file()
        else ()
    )


def file_of(target_file: Path) -> Path:
    return target_file.with_suffix("").with_name(target_file.name.removesuffix(".toml") + SUFFIX)


def as_document(bundles: list[Mapping[str, Any]]) -> dict[str, Any]:
    return {"schema": SCHEMA, "bundles": bundles}
