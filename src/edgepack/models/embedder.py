"""Which embedder a bundle is: an id that two bundles share when an index that one has made serves the other.

The id is a digest of what decides the vectors, not of vectors: however coarsely numbers are rounded, two that agree may lie on
either side of a border. Two things are not digested where they change nothing. The recipe is left out when none of its passes
rounds more than to float16, and the golden vectors are those of the full-precision model: of coarser weights, a few texts do not tell for all. The runtime and the processor are left out when no activation is rounded to integers:
then releases and processors differ by some 1e-7.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgepack.context import BuildContext
from edgepack.files.store import digest_file, key_of, sha256_of
from edgepack.models.graph.onnx_file import external_locations
from edgepack.models.read.tokenizer import minimal_json
from edgepack.models.reference import cached_reference
from edgepack.records.model import ModelSource, PreparedModel
from edgepack.records.recipe import PREPARE_SCHEMA
from edgepack.records.runtime import ONNX_RUNTIME, RuntimeArtifact
from edgepack.records.target import Target

AGREE = 0.9999
"""The lowest cosine, text by text, of vectors that are the same to 1e-4."""
EXACT = frozenset({"pool", "table", "fuse", "merge-projections", "fp32", "fp16", "half", "half-fused"})
"""What a recipe may consist of whose vectors are near enough for every text; another pass, or one with parameters, is not known to be."""
DIGITS = 32
ROUNDED = (
    "QuantizeLinear",
    "DynamicQuantize",
    "MatMulInteger",
    "QLinear",
    "QAttention",
    "QGemm",
    "ConvInteger",
)
"""What the names of operators begin with that round activations to integers, or compute with such."""
_WORDS = (".json", ".md", ".txt")
"""Files of a model that say how it is read: what they say counts, not how they say it."""
_IDLE = ("_name_or_path", "transformers_version", "torch_dtype", "dtype")
"""Keys of config.json that no vector depends on."""


def embedder_id(
    source: ModelSource,
    model: PreparedModel,
    runtime: RuntimeArtifact | None,
    target: Target,
    golden: tuple[Sequence[str], Sequence[Sequence[float]]],
    *,
    passes: Mapping[str, str],
    exact: str = "",
    context: BuildContext,
) -> str:
    """The id of a bundle of these parts, 32 hexadecimal digits.

    ``source`` is the model as it was found, ``golden`` texts and vectors, ``passes`` those of plugins with their revisions, ``exact`` the
    name of an arithmetic that is the same everywhere.
    """
    decides = _of_source(source, model.source)
    if not EXACT.issuperset(model.recipe.split(", ")) or not _is_full_precision(source, golden, context):
        decides |= _of_recipe(model, target, passes)
    if _rounds(model, runtime):
        assert runtime is not None
        provider = runtime.provider.name if runtime.provider else ""
        decides["arithmetic"] = f"{runtime.name} {runtime.version} {target.platform.arch} {provider}"
    elif exact:
        decides["arithmetic"] = exact
    return key_of(decides)[:DIGITS]


def _of_source(source: ModelSource, shipped: ModelSource) -> dict[str, str]:
    """Weights, tokenizer, and how the model is read. ``shipped`` has another tokenizer where a pass took tokens away."""
    named = (source.onnx or source.weights,)
    files = source.files or tuple(digest_file(path, relative_to=path.parent) for path in named if path)
    digests = {file.path: file.sha256 for file in files}
    config = {name: value for name, value in source.config.items() if name not in _IDLE}
    read = (source.pooling, source.outputs, source.head)
    graph = source.onnx
    # Whatever they are called.
    beside = (
        {_place(graph.parent / each, source.directory) for each in external_locations(graph)}
        if graph
        else set()
    )
    return {
        # In the order of their paths: of two that change places each is still there.
        "weights": " ".join(
            digests[path] for path in sorted(digests) if path in beside or Path(path).suffix not in _WORDS
        ),
        "config": json.dumps(config, sort_keys=True),
        "tokenizer": minimal_json(shipped),
        "read": json.dumps([_said(each, source.directory, digests) for each in read], sort_keys=True),
        "dimension": str(source.dimension),
        "length": str(source.max_length),
        "prompts": json.dumps(dict(source.prompts), sort_keys=True),
        **({"module": source.module.sha256} if source.module else {}),
    }


def _place(file: Path, directory: Path) -> str:
    return file.relative_to(directory).as_posix() if file.is_relative_to(directory) else ""


def _said(value: Any, directory: Path, digests: Mapping[str, str]) -> Any:
    """All that a record says, but for defaults; a file by its content, as layers with weights of their own may change places."""
    if isinstance(value, Path):
        return digests.get(_place(value, directory))
    if isinstance(value, tuple):
        return [_said(each, directory, digests) for each in value]
    if not is_dataclass(value):
        return value
    said = {
        each.name: getattr(value, each.name)
        for each in fields(value)
        if getattr(value, each.name) != each.default
    }
    return [type(value).__name__, {name: _said(each, directory, digests) for name, each in said.items()}]


def _is_full_precision(
    source: ModelSource, golden: tuple[Sequence[str], Sequence[Sequence[float]]], context: BuildContext
) -> bool:
    texts, rows = golden
    vectors, exact = np.asarray(rows, np.float64), cached_reference(source, texts, context=context)
    if vectors.shape != exact.shape:
        return False
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(exact, axis=1)
    return bool((np.einsum("td,td->t", vectors, exact) >= AGREE * lengths).all())


def _of_recipe(model: PreparedModel, target: Target, passes: Mapping[str, str]) -> dict[str, str]:
    """Key of what was made of the weights; edgepack's own passes have one revision."""
    calibration = target.model.calibration
    return {
        "recipe": model.recipe,
        "revisions": json.dumps([PREPARE_SCHEMA, dict(passes)], sort_keys=True),
        "isa": " ".join(sorted(target.platform.isa)),
        "calibration": sha256_of(calibration) if calibration else "",
    }


def _rounds(model: PreparedModel, runtime: RuntimeArtifact | None) -> bool:
    """Whether another release or processor may round an activation the other way; where it is not known, it may."""
    if runtime is None:
        return False
    if runtime.provider or runtime.name != ONNX_RUNTIME or model.needs is None:
        return True
    return any(kernel.name.startswith(ROUNDED) for kernel in model.needs.kernels)
