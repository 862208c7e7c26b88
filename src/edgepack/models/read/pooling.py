"""How a model pools: as the user, its own files or the catalogue say it, else as its card or its family makes likely."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from edgepack.models.read.card import ModelCard
from edgepack.models.read.modules import Modules
from edgepack.records.model import Head, Pooling, PoolingOrigin
from edgepack.records.outputs import Outputs
from edgepack.records.target import PoolingMode, Reading

LAST_TOKEN = r"qwen3-embedding|e5-mistral|gte-qwen2|bge-en-icl|bge-multilingual-gemma"
"""Names of decoders that were trained to embed."""
FAMILIES: Mapping[str, PoolingMode] = {
    LAST_TOKEN: "last",
    r"(?<![a-z])bge[-_]|gte-[\w-]*v1\.5|gte-multilingual|gte-modernbert|mxbai-embed|arctic-embed|granite-embedding|labse": "cls",
    r"(?<![a-z])(gte|e5)-|minilm|mpnet|nomic-embed|modernbert-embed|jina-embeddings-v2|distilroberta|contriever": "mean",
}
"""Names of models → how they pool, as their authors' own files say it. The first that fits counts."""


@dataclass(frozen=True, kw_only=True)
class VectorReading:
    """How a text's vector is made, what comes beside or behind it, and how that is known."""

    pooling: Pooling
    files: tuple[str, ...]
    """Those that say it, beside config.json."""
    origin: PoolingOrigin = "config.json"
    token_dimension: int | None = None
    warnings: tuple[str, ...] = ()
    head: Head | None = None
    outputs: Outputs | None = None
    """What the model gives beside, or in the place of, that vector."""
    dimension: int | None = None
    """Numbers in a text's vector, where not the pooling decides them."""

    @property
    def noun(self) -> str:
        """Kind of model, if it gives more than vectors; else empty."""
        special = self.head or self.outputs
        return special.noun if special else ""


def read_pooling(
    modules: Modules | None,
    names: Iterable[str],
    card: ModelCard,
    *,
    known: PoolingMode | None,
    in_graph: bool,
    reading: Reading,
) -> VectorReading:
    """``known`` is what the catalogue says; ``names`` are what the model and those that it was made from are called.

    With ``in_graph`` the graph itself gives one vector a text.
    """
    origin: PoolingOrigin = "modules.json"
    if modules is not None:
        pooling, files = modules.pooling, modules.files
        warnings = _contradictions(pooling, reading)
    else:
        mode, origin, why = _likely(names, card, known, in_graph)
        pooling, files = Pooling(mode=mode), ("README.md",) if origin == "model card" else ()
        warnings = _guesses(pooling, origin, why, reading)
    if reading.normalize is not None:
        pooling = replace(pooling, normalize=reading.normalize)
    if reading.pooling is not None:
        pooling, origin = replace(pooling, mode=reading.pooling), "set"
    return VectorReading(
        pooling=pooling,
        origin=origin,
        token_dimension=modules.token_dimension if modules else None,
        files=files,
        warnings=warnings,
    )


def _likely(
    names: Iterable[str], card: ModelCard, known: PoolingMode | None, in_graph: bool
) -> tuple[PoolingMode, PoolingOrigin, str]:
    """Mode, what says so, and why, in words."""
    if known is not None:
        return known, "catalogue", ""
    if in_graph:
        return "mean", "graph", ""
    if card.pooling is not None:
        return card.pooling, "model card", "as the code in its README.md does it"
    for name in names:
        for pattern, mode in FAMILIES.items():
            if found := re.search(pattern, name.lower()):
                return mode, "family", f"as the {found.group().strip('-_')} family does it"
    return "mean", "guess", "as most models do it"


def _guesses(pooling: Pooling, origin: PoolingOrigin, why: str, reading: Reading) -> tuple[str, ...]:
    """Guesses in the reading, on which the model says nothing; the catalogue's word is no guess."""
    guessed = []
    if reading.pooling is None and why:
        guessed.append(f"{pooling.mode} pooling ({why})")
    if reading.normalize is None and origin != "catalogue":
        guessed.append("L2 normalisation")
    verb = "are guesses" if len(guessed) == 2 else "is a guess"
    how = "say --pooling and --normalize or --no-normalize, or give it the modules.json"
    return (f"no modules.json: {' and '.join(guessed)} {verb}; {how}",) if guessed else ()


def _contradictions(pooling: Pooling, reading: Reading) -> tuple[str, ...]:
    """Contradictions between the user's settings and modules.json."""
    found = []
    if reading.pooling not in (None, pooling.mode):
        found.append(f"{reading.pooling} pooling is set, modules.json says {pooling.mode}")
    if reading.normalize not in (None, pooling.normalize):
        words = {True: "L2 normalisation", False: "no L2 normalisation"}
        found.append(f"{words[reading.normalize]} is set, modules.json says {words[pooling.normalize]}")
    return tuple(found)
