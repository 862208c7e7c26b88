"""How a bundle's model may be used beyond the plain vector: prefixes and shorter vectors, as the manifest says them."""

from collections.abc import Mapping
from typing import Any

from edgepack.records.model import ModelSource

PURPOSES: Mapping[str, tuple[str, ...]] = {
    "query": ("query", "search_query", "retrieval.query", "s2p_query"),
    "passage": ("passage", "document", "search_document", "retrieval.passage", "corpus"),
}
"""What models call the two purposes that ``embed --prefix`` knows, the most usual name first."""


def usage_of(source: ModelSource) -> tuple[dict[str, str], dict[str, Any] | None]:
    """What goes before queries and passages, and to which dimensions vectors may be cut."""
    return prefixes(source), shortening(source)


def prefixes(source: ModelSource) -> dict[str, str]:
    """``query`` and ``passage`` → what goes before such a text; empty where the model names neither.

    A model that names one of the two wants nothing before the other, as BGE for passages.
    """
    found = {
        kind: next((source.prompts[name] for name in names if name in source.prompts), "")
        for kind, names in PURPOSES.items()
    }
    return found if any(found.values()) else {}


def shortening(source: ModelSource) -> dict[str, Any] | None:
    """Dimensions, ascending, that vectors may be cut to, and whether a layer normalisation comes before; None for none."""
    listed = source.matryoshka or source.config.get("matryoshka_dimensions")
    if not isinstance(listed, list | tuple) or not all(type(entry) is int for entry in listed):
        return None
    dimensions = sorted({entry for entry in listed if 0 < entry <= source.dimension})
    # https://huggingface.co/nomic-ai/nomic-embed-text-v1.5, "Adjusting dimensionality"
    layer_norm = source.config.get("model_type") == "nomic_bert"
    return {"dimensions": dimensions, "layer_norm": layer_norm} if dimensions else None
