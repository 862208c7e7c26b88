"""What a folder's documents say that its model is: decided here alone, before its weights are fetched or opened."""

from dataclasses import dataclass
from typing import Literal

from edgepack.models.heads.classification import has_head, labels_of
from edgepack.models.heads.setfit import is_setfit
from edgepack.models.outputs.colbert import is_colbert
from edgepack.models.outputs.splade import is_splade
from edgepack.models.read.card import ModelCard, read_card
from edgepack.models.read.model_folder import ModelFolder
from edgepack.models.read.modules import Modules, read_modules, require_own_modules, require_plain_transformer
from edgepack.models.read.purpose import Evidence, require_embedder
from edgepack.models.read.static import is_static
from edgepack.records.target import UNSAID, PoolingMode, Reading

Kind = Literal["vector", "static", "setfit", "head", "splade", "colbert"]


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """Request for a model: what is said of it from outside its folder."""

    name: str
    origin: str = ""
    reading: Reading = UNSAID
    graph: str = ""
    """The .onnx file of the folder that is to be taken, whose config.json may then be missing; empty: what the layout says."""
    license: str | None = None
    """Stands where the folder has no model card."""
    known: PoolingMode | None = None
    """The catalogue's word on the pooling."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The kind of a model, and the evidence that it rests on."""

    kind: Kind
    evidence: Evidence
    modules: Modules | None
    """How modules.json says that vectors are made; ``None`` without one, and for kinds that are not made so."""


def decide(folder: ModelFolder, asked: ModelRequest) -> Decision:
    """Raises ``ModelError``; ``UnsupportedModelError`` for a model of another purpose, or one that a bundle cannot hold."""
    card = read_card(folder)
    kind = _kind_of(folder, card, asked)
    evidence = Evidence(folder=folder, card=card, known=asked.known is not None)
    if kind == "head":
        labels_of(folder.config, asked.name)
    elif kind not in ("splade", "colbert"):
        require_embedder(evidence, asked.name, treat=asked.reading.treat_as_embedding)
    modules = read_modules(folder) if kind in ("vector", "setfit") else None
    if folder.modules is not None:
        require_own_modules(folder, kind)
        if kind != "static":
            require_plain_transformer(folder, kind)
    return Decision(kind=kind, evidence=evidence, modules=modules)


def _kind_of(folder: ModelFolder, card: ModelCard, asked: ModelRequest) -> Kind:
    if not asked.graph and is_static(folder):
        return "static"
    if asked.reading.treat_as_embedding:
        return "vector"
    if is_setfit(folder):
        return "setfit"
    if has_head(folder):
        return "head"
    if is_splade(folder, card, (asked.name, str(folder.config.get("_name_or_path", "")))):
        return "splade"
    return "colbert" if is_colbert(folder) else "vector"
