"""The model's part of the bill of materials: what it is, what it was made of, and what its vectors were held to."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from edgepack.bundles.components import MODEL, revision
from edgepack.bundles.sbom import sha256_hash
from edgepack.records.figures import LIMITS
from edgepack.records.model import FULL_PRECISION, FileDigest, ModelSource, PreparedModel
from edgepack.records.target import ModelOptions


def model_card(
    model: PreparedModel, options: ModelOptions, shipped: Iterable[Mapping[str, Any]]
) -> dict[str, Any]:
    """Model card of CycloneDX, but for its name, version and licence.

    ``shipped``: the bundle's files that hold it, as the manifest lists them.
    """
    source = model.source
    family = str(source.config.get("model_type", "")) or "unknown"
    vectors = f"float32 [{source.pooling.dimension(source.dimension)}], {source.pooling.describe()}"
    return {
        "hashes": [sha256_hash(file["sha256"]) for file in shipped],
        "properties": [
            {"name": f"edgepack:model:{name}", "value": str(value)}
            for name, value in (
                ("recipe", model.recipe),
                ("precision", model.precision),
                ("format", model.format),
                ("max_length", source.max_length),
            )
        ],
        "pedigree": {
            "ancestors": [_ancestor(source)],
            "notes": f"{model.recipe}; {model.precision}, as {model.format}",
        },
        "modelCard": {
            "modelParameters": {
                "task": "feature-extraction",
                "architectureFamily": family,
                "inputs": [{"format": "text"}],
                "outputs": [{"format": vectors}],
            },
            "quantitativeAnalysis": {"performanceMetrics": _held_to(options)},
            **(
                {"considerations": {"technicalLimitations": list(source.warnings)}} if source.warnings else {}
            ),
        },
    }


def _held_to(options: ModelOptions) -> list[dict[str, str]]:
    """The limits of the gate. What was measured is another on another machine: it is in the report."""
    if options.gate == "off":
        return []
    full = options.gate == "full"
    unasked = ModelOptions()
    return [
        {"type": words, "value": str(getattr(options, limit))}
        for limit, words in LIMITS.items()
        if getattr(options, limit) != getattr(unasked, limit) and (full or not limit.startswith("max_"))
    ]


def _ancestor(source: ModelSource) -> dict[str, Any]:
    """The model as it was found."""
    return {
        "type": MODEL,
        "name": source.name,
        "version": revision(source),
        **({"purl": purl} if (purl := _purl(source)) else {}),
        "description": f"{source.precision or FULL_PRECISION}, from {source.origin}",
        "components": [_file(file) for file in sorted(source.files, key=lambda file: file.path)],
    }


def _purl(source: ModelSource) -> str:
    """Package URL of a model of the hub at a known revision, or of a package of the index."""
    if hub := re.fullmatch(r"hf:([\w.-]+/[\w.-]+)@([0-9a-f]{40})", source.origin):
        return f"pkg:huggingface/{hub[1]}@{hub[2]}"
    if package := re.fullmatch(r"pypi:([\w.-]+)==([\w.+!]+)", source.origin):
        return f"pkg:pypi/{package[1].lower()}@{package[2]}"
    return ""


def _file(file: FileDigest) -> dict[str, Any]:
    return {"type": "file", "name": file.path, "hashes": [sha256_hash(file.sha256)]}
