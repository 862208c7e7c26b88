"""What a manifest says of a model as it was found: all of this is known from the source alone, so that whoever has the source can compare it."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from edgepack.records.model import FULL_PRECISION, Head, ModelSource
from edgepack.records.outputs import Outputs, Side

HEAD = "model/head.bin"
"""A reranker's or a classifier's last layer: float32, little-endian, weight [labels, dimension], then bias [labels]."""

PURPOSES: Mapping[str, tuple[str, ...]] = {
    "query": ("query", "search_query", "retrieval.query", "s2p_query"),
    "passage": ("passage", "document", "search_document", "retrieval.passage", "corpus"),
}
"""What models call the two purposes that ``embed --prefix`` knows, the most usual name first."""

NAMED = ("name", "origin", "license", "source_precision", "graph_by")
"""Keys that say which model it is."""


def source_section(source: ModelSource) -> dict[str, Any]:
    """The keys of the manifest's ``model`` that derive from the source."""
    return {
        "name": source.name,
        "origin": source.origin,
        "license": source.license,
        **({"source_precision": source.precision} if source.precision != FULL_PRECISION else {}),
        **({"graph_by": source.graph_by} if source.graph_by else {}),
        "dimension": source.dimension,
        "max_length": source.max_length,
        "pooling": "+".join(source.pooling.modes),
        "pooling_from": source.pooling_from,
        **({"vectors": source.pooling.describe()} if not source.pooling.plain else {}),
        "normalize": source.pooling.unit,
        **({"default_prompt": source.default_prompt} if source.default_prompt else {}),
        **({"set": source.reading.said} if source.reading.said else {}),
        "warnings": list(source.warnings),
        **(_head_section(source.head) if source.head else {}),
        **({"outputs": outputs_section(source.outputs)} if source.outputs else {}),
        "prefixes": prefixes(source),
        "matryoshka": shortening(source),
        "source_files": [
            {"path": file.path, "size": file.size, "sha256": file.sha256}
            for file in sorted(source.files, key=lambda file: file.path)
        ],
    }


def usage_of(source: ModelSource) -> tuple[dict[str, str], dict[str, Any] | None]:
    """Prompts of queries and passages, and to which dimensions vectors may be cut."""
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


def _head_section(head: Head) -> dict[str, Any]:
    """Section of a reranker or a classifier: the file of its last layer, and what its scores are called and made by."""
    return {"task": head.task, "head": HEAD, "labels": list(head.labels), "activation": head.activation}


def outputs_section(outputs: Outputs) -> dict[str, Any]:
    """Outputs beside, or in the place of, one vector a text, in the form that the program reads."""
    said: dict[str, Any] = {"dense": outputs.dense}
    if sparse := outputs.sparse:
        of = "vocabulary" if sparse.vocabulary else "tokens"
        said["sparse"] = {"of": of, "size": sparse.size, "skip": list(sparse.skip)}
    if vectors := outputs.multi_vector:
        sides = {"query": _side_section(vectors.query), "document": _side_section(vectors.document)}
        said["multi_vector"] = {"dimension": vectors.dimension, "first": vectors.first, **sides}
    return said


def _side_section(side: Side) -> dict[str, Any]:
    """Settings of one side, queries or documents, that differ from the usual ones."""
    said = {name: value for name, value in asdict(side).items() if value != getattr(Side(), name)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in said.items()}
