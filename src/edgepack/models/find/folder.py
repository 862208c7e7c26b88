"""A model folder in the Hugging Face layout, read and checked."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from edgepack.context import BuildContext, Extension
from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.convert.agreeing_tokenizer import require_agreement
from edgepack.models.convert.fitting_tokenizer import fitting_tokenizer
from edgepack.models.convert.older_tokenizer import tokenizer_file
from edgepack.models.convert.route import routed_folder
from edgepack.models.convert.typed_tokenizer import typed_tokenizer
from edgepack.models.find.decide import Decision, ModelRequest, decide
from edgepack.models.find.digests import digests_of
from edgepack.models.find.static import read_static_folder
from edgepack.models.find.weights import Size, Weights, open_weights, size_of_weights
from edgepack.models.graph.writer import OUTPUT
from edgepack.models.heads.classification import read_head
from edgepack.models.heads.setfit import with_setfit
from edgepack.models.outputs.colbert import read_colbert
from edgepack.models.outputs.reading import has_three_heads, with_three_heads
from edgepack.models.outputs.splade import read_splade
from edgepack.models.read import hub_layout
from edgepack.models.read.architectures import written_by
from edgepack.models.read.model_folder import CONFIG, LENGTH_FILES, SETTINGS, ModelFolder
from edgepack.models.read.modules import require_no_arguments
from edgepack.models.read.pooling import VectorReading, read_pooling
from edgepack.models.read.purpose import require_embedder
from edgepack.models.read.sentence_transformers import (
    read_max_length,
    read_prompts,
    unread_settings,
)
from edgepack.records.layers import Dense, LayerNorm, Unit
from edgepack.records.model import Head, ModelSource


def read_folder(directory: Path, asked: ModelRequest, *, context: BuildContext) -> ModelSource:
    """The model in a folder. Raises ``ModelError`` or ``UnsupportedModelError``."""
    folder = ModelFolder(directory=directory)
    if not asked.graph:
        folder = routed_folder(folder, asked.reading.route, context=context)
        hub_layout.require_model(folder.names, asked.name)
    decision = decide(folder, asked)
    if decision.kind == "static":
        return read_static_folder(folder, decision.evidence.card, asked)
    require_no_arguments(folder)
    chosen = hub_layout.weights_of(
        folder.names, folder.config, asked.name, graph=asked.graph, place=str(directory), context=context
    )
    weights = open_weights(folder, folder.directory / chosen)
    tokenizer = tokenizer_file(folder, context=context)
    pairs = decision.kind == "head"
    warnings = require_agreement(folder, tokenizer, pairs=pairs)
    tokenizer = typed_tokenizer(folder, tokenizer, pairs=pairs, context=context)
    if weights.is_graph or decision.kind in ("vector", "setfit"):
        evidence = weights.added_to(decision.evidence)
        warnings += require_embedder(evidence, asked.name, treat=asked.reading.treat_as_embedding)
        made = _pooled(decision, weights, asked)
    else:
        made = _of_tensors(decision, weights, tokenizer, asked)
    size = size_of_weights(weights, folder.config, context)
    vector = _with_more(made, decision, weights, size, tokenizer, asked.name)
    if vector.noun:
        labels = f": {_in_words(vector.head)}" if vector.head else ""
        context.note(f"{asked.name} is {vector.noun}{labels}")
    tokenizer = fitting_tokenizer(tokenizer, size.rows, context=context)
    writer = None if weights.is_graph else written_by(folder.config, context)
    if vector.outputs is not None and writer is None:
        raise _unwritten(folder, vector, asked.name)
    reach = writer.max_tokens(folder.config) if writer and writer.max_tokens else None
    tried = partial(weights.longest_text, context=context)
    max_length, length_files = read_max_length(folder, reach=reach, tried=tried, note=context.note)
    prompts = read_prompts(folder)
    warnings += _without_prompts(decision, {**prompts.texts, **asked.reading.prompts}, asked.name)
    warnings += unread_settings(folder)
    warnings += (*vector.warnings, *prompts.warnings, *size.warnings, *_not_ours(writer))
    # The prompts of a multi-vector encoder are part of how it reads queries and documents.
    own = decision.kind != "colbert"
    used = {
        *vector.files,
        *length_files,
        *prompts.files,
        *({CONFIG, LENGTH_FILES[0], folder.transformer_file} & set(folder.names)),
    }
    used |= {path.relative_to(folder.directory).as_posix() for path in size.files}
    digests = digests_of((folder.directory / path for path in used), directory=folder.directory)
    digests += digests_of([tokenizer], directory=tokenizer.parent)
    return ModelSource(
        name=asked.name,
        origin=asked.origin,
        directory=folder.directory,
        weights=None if weights.is_graph else weights.file,
        onnx=weights.file if weights.is_graph else None,
        tokenizer=tokenizer,
        config=folder.config,
        pooling=vector.pooling,
        max_length=max_length,
        dimension=vector.dimension or vector.pooling.dimension(size.dimension),
        license=decision.evidence.card.license or asked.license,
        files=tuple(sorted(digests, key=lambda file: file.path)),
        prompts={**(prompts.texts if own else {}), **asked.reading.prompts},
        pooling_from=vector.origin,
        default_prompt=prompts.default if own else None,
        reading=asked.reading,
        warnings=tuple(dict.fromkeys(warnings)),
        precision=size.precision,
        head=vector.head,
        outputs=vector.outputs,
        graph_by=writer.identity if writer else "",
        graph_package=_own_package(writer),
    )


def _own_package(writer: Extension | None) -> str:
    """The package of an architecture that one of edgepack's own plugins brings."""
    return "" if writer is None or writer.identity or writer.package == "edgepack" else writer.package


def _pooled(decision: Decision, weights: Weights, asked: ModelRequest) -> VectorReading:
    """The vectors of an encoder, or of a graph. Raises ``ModelError`` or ``UnsupportedModelError``."""
    folder, card = decision.evidence.folder, decision.evidence.card
    return read_pooling(
        decision.modules,
        (asked.name, *card.bases, str(folder.config.get("_name_or_path", ""))),
        card,
        known=asked.known,
        in_graph=OUTPUT in weights.outputs,
        reading=asked.reading,
    )


def _of_tensors(decision: Decision, weights: Weights, tokenizer: Path, asked: ModelRequest) -> VectorReading:
    """The vectors of the kinds that have something of their own behind the encoder. Raises as ``_pooled`` does."""
    folder, name = decision.evidence.folder, asked.name
    if decision.kind == "head":
        found = read_head(folder, weights.file, name)
    elif decision.kind == "splade":
        found = read_splade(folder, weights.file, name)
    else:
        found = read_colbert(folder, weights.file, tokenizer, name)
    if asked.reading.pooling is None and asked.reading.normalize is None:
        return found
    of = "its head" if found.head else "the model"
    raise UnsupportedModelError(
        f"{name} is {found.noun}: its pooling is part of {of} and cannot be set",
        hint="leave --pooling, --normalize and --no-normalize out",
    )


def _with_more(
    found: VectorReading, decision: Decision, weights: Weights, size: Size, tokenizer: Path, name: str
) -> VectorReading:
    """The same vectors, with what further files put behind or beside them. Raises as ``_pooled`` does."""
    folder = decision.evidence.folder
    if found.outputs is not None:
        return found
    if decision.kind == "setfit":
        _require_tensors(weights, name)
        found = with_setfit(found, folder, size.dimension, name)
    _require_agreement(found, size.dimension)
    if weights.is_graph or found.head or not has_three_heads(folder):
        return found
    return with_three_heads(found, folder, tokenizer, size.dimension, size.rows or 0)


def _require_tensors(weights: Weights, name: str) -> None:
    """Raise ``UnsupportedModelError`` for a classifier behind a graph: programs have classifiers behind encoders that edgepack writes."""
    if weights.is_graph:
        raise UnsupportedModelError(
            f"{name} is a classifier (model_head.pkl) behind {weights.file.name}, which a bundle cannot hold",
            hint="put the encoder's model.safetensors beside it; --treat-as-embedding takes the encoder alone",
        )


def _unwritten(folder: ModelFolder, vector: VectorReading, name: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"{name} is {vector.noun} of the architecture {folder.config.get('model_type')!r}, whose graph edgepack does not write",
        hint="sparse vectors and vectors of tokens are given of architectures that edgepack or a plugin writes",
    )


def _in_words(head: Head) -> str:
    """Its labels and what activates them, e.g. ``negative, positive (softmax)``."""
    shown = ", ".join(head.labels[:4]) + (f" and {len(head.labels) - 4} more" if len(head.labels) > 4 else "")
    return f"{shown} ({head.activation})"


def _without_prompts(decision: Decision, texts: Mapping[str, str], name: str) -> tuple[str, ...]:
    """The warning of a model that leaves prompts out of its pooling. Raises ``UnsupportedModelError`` if it has prompts.

    The files of hkunlp/instructor-large and its like do not say so: sentence-transformers knows them by their names.
    """
    said = decision.modules is None or decision.modules.pools_prompts
    if said or (said is None and "instructor" not in name.lower()):
        return ()
    if texts:
        raise UnsupportedModelError(
            "the model leaves its prompts out of the pooling (include_prompt), which bundles do not support",
            hint=f"remove the prompts from {SETTINGS} and leave --prompt out; texts then get no prompt",
        )
    return (
        "the model leaves prompts out of the pooling (include_prompt): an instruction written before a text is pooled by a bundle",
    )


def _not_ours(writer: Extension | None) -> tuple[str, ...]:
    if writer is None or not writer.identity:
        return ()
    return (
        f"its graph is written by a plugin ({writer.identity}), and the bundle is compared with that graph",
    )


def _require_agreement(pools: VectorReading, dimension: int) -> None:
    """Each step takes vectors as long as the one before makes them."""
    layers = [_takes(each) for each in pools.pooling.dense if not isinstance(each, Unit)]
    pooled = dimension * len(pools.pooling.modes)
    made = dimension
    first = ("1_Pooling", pools.token_dimension or made, pooled)
    for where, said, makes in (first, *layers):
        if said != made:
            raise ModelError(
                f"{where}/config.json takes vectors of {said} numbers, the model makes {made}",
                hint="the files are of different models",
            )
        made = makes


def _takes(layer: Dense | LayerNorm) -> tuple[str, int, int]:
    """Its folder, and the length of the vectors that it takes and makes."""
    sizes = (layer.size, layer.size) if isinstance(layer, LayerNorm) else (layer.inputs, layer.outputs)
    return layer.file.parent.name, *sizes
