"""Which of the models that give something else than one vector a text a folder holds, told before its weights are fetched."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from edgepack.models.outputs.colbert import is_colbert, read_colbert
from edgepack.models.outputs.reading import OutputsReading
from edgepack.models.outputs.splade import is_splade, read_splade
from edgepack.models.read.card import Card

Kind = Literal["splade", "colbert"]


def kind_of(directory: Path, config: Mapping[str, Any], card: Card, name: str) -> Kind | None:
    """The kind of a model that has no vector for a text beside its outputs."""
    names = (name, str(config.get("_name_or_path", "")))
    if is_splade(directory, config, card, names):
        return "splade"
    return "colbert" if is_colbert(directory, config) else None


def read_kind(
    kind: Kind, directory: Path, config: Mapping[str, Any], weights: Path, tokenizer: Path, name: str
) -> OutputsReading:
    """Raises ``ModelError`` or ``UnsupportedModelError``."""
    if kind == "splade":
        return read_splade(directory, config, weights, name)
    return read_colbert(directory, config, weights, tokenizer, name)
