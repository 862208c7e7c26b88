"""A model folder in the Hugging Face layout, read and checked."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgepack.context import BuildContext, Extension
from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.files.store import digest_file
from edgepack.models.convert.fitting_tokenizer import fitting_tokenizer
from edgepack.models.convert.older_tokenizer import tokenizer_file
from edgepack.models.convert.route import routed_folder
from edgepack.models.find.static import read_static_folder
from edgepack.models.graph.onnx_file import (
    output_dimension,
    output_shapes,
    precision_of_file,
    require_external_files,
    vocabulary_rows,
)
from edgepack.models.graph.writer import OUTPUT
from edgepack.models.heads.classification import HeadReading, has_head, read_head
from edgepack.models.heads.setfit import SetFitReading, is_setfit, read_setfit
from edgepack.models.lower.adapt import dimension_of_graph
from edgepack.models.outputs.kinds import kind_of, read_kind
from edgepack.models.outputs.reading import OutputsReading, has_three_heads, read_three_heads
from edgepack.models.read import hub_layout
from edgepack.models.read.architectures import written_by
from edgepack.models.read.card import read_card
from edgepack.models.read.documents import read_optional, size_of
from edgepack.models.read.made_small import read_made_small
from edgepack.models.read.modules import read_modules
from edgepack.models.read.pooling import PoolingReading, read_pooling
from edgepack.models.read.purpose import Evidence, require_embedder
from edgepack.models.read.safetensors import embedding_table, open_tensors
from edgepack.models.read.sentence_transformers import SETTINGS, Prompts, read_max_length, read_prompts
from edgepack.models.read.static import is_static
from edgepack.records.model import FLOAT_PRECISIONS, FULL_PRECISION, Dense, Head, LayerNorm, ModelSource, Unit
from edgepack.records.target import UNSAID, PoolingMode, Reading


def read_folder(
    directory: Path,
    *,
    name: str,
    origin: str,
    context: BuildContext,
    reading: Reading = UNSAID,
    onnx: Path | None = None,
    license: str | None = None,
    known: PoolingMode | None = None,
) -> ModelSource:
    """The model in a folder; with ``onnx``, that graph of it, whose config.json may then be missing.

    ``license`` stands where the folder has no model card, ``known`` is the catalogue's word on the pooling. Raises
    ``ModelError`` or ``UnsupportedModelError``.
    """
    if onnx is None:
        directory = routed_folder(directory, reading.route, context=context)
    names = list_names(directory)
    if onnx is None:
        hub_layout.require_model(names, name)
    config = hub_layout.text_part(read_optional(directory / "config.json"))
    card = read_card(directory / "README.md")
    evidence = Evidence(directory=directory, config=config, card=card, known=known is not None)
    setfit = not reading.treat_as_embedding and onnx is None and is_setfit(directory)
    headed = not setfit and not reading.treat_as_embedding and has_head(directory, config)
    other = headed or setfit or reading.treat_as_embedding
    gives = None if other else kind_of(directory, config, card, name)
    if not headed and gives is None:
        require_embedder(evidence, name, treat=reading.treat_as_embedding)
    if onnx is None and is_static(directory, config):
        return read_static_folder(
            directory, names, config, card, name=name, origin=origin, reading=reading, license=license
        )
    modules = None if headed or gives else read_modules(directory)
    hub_layout.require_tokenizer(names, name)
    if onnx is None:
        hub_layout.require_config(names, name)
    chosen = onnx or directory / hub_layout.choose_weights(names, config, name, context=context)
    is_graph = chosen.suffix == ".onnx"
    tensors, outputs = ({}, output_shapes(chosen)) if is_graph else (open_tensors(chosen).tensors, {})
    evidence = replace(evidence, tensors={each: of.shape for each, of in tensors.items()}, outputs=outputs)
    warnings: tuple[str, ...] = ()
    head = None
    tokenizer = tokenizer_file(directory, config, context=context)
    if headed and not is_graph:
        found = read_head(directory, config, chosen, name)
        head, pools = found.head, _before(found, reading, name)
        context.note(f"{name} is {head.noun}: {_in_words(head)}")
    elif gives and not is_graph:
        pools = _of_outputs(read_kind(gives, directory, config, chosen, tokenizer, name), reading, name)
    else:
        warnings += require_embedder(evidence, name, treat=reading.treat_as_embedding)
        bases = (name, *card.bases, str(config.get("_name_or_path", "")))
        pools = read_pooling(modules, bases, card, known=known, in_graph=OUTPUT in outputs, reading=reading)
    writer = None if is_graph else written_by(config, context)
    reach = writer.max_tokens(config) if writer and writer.max_tokens else None
    max_length, length_files = read_max_length(directory, config, reach=reach, note=context.note)
    prompts = read_prompts(directory)
    if modules is not None and not modules.pools_prompts:
        warnings += _without_prompts({**prompts.texts, **reading.prompts})
    precision, doubts = _precision(chosen, config) if is_graph else (FULL_PRECISION, ())
    weight_files, dimension, rows = (
        _measure_graph(chosen, config, context) if is_graph else _measure_weights(chosen, config)
    )
    if setfit and not is_graph:
        classifier = read_setfit(directory, pools.pooling.dimension(dimension), name)
        head, pools = classifier.head, _before_setfit(classifier, pools)
        context.note(f"{name} is {head.noun}: {_in_words(head)}")
    if pools.outputs is None:
        _require_agreement(pools, dimension)
        if not is_graph and head is None and has_three_heads(directory):
            three, files = read_three_heads(directory, tokenizer, dimension, rows or 0)
            pools = replace(pools, outputs=three, files=(*pools.files, *files))
    if pools.outputs is not None:
        context.note(f"{name} is {pools.outputs.noun}")
    tokenizer = fitting_tokenizer(tokenizer, rows, context=context)
    if pools.outputs is not None and writer is None:
        raise UnsupportedModelError(
            f"{name} is {pools.outputs.noun} of the architecture {config.get('model_type')!r}, whose graph edgepack does not write",
            hint="sparse vectors and vectors of tokens are given of architectures that edgepack or a plugin writes",
        )
    used = {*pools.files, *length_files, *prompts.files}
    used |= {"config.json", "sentence_bert_config.json"} & set(names)
    used |= {path.relative_to(directory).as_posix() for path in weight_files}
    digests = [digest_file(directory / path, relative_to=directory) for path in used]
    digests.append(digest_file(tokenizer, relative_to=tokenizer.parent))
    return ModelSource(
        name=name,
        origin=origin,
        directory=directory,
        weights=None if is_graph else chosen,
        onnx=chosen if is_graph else None,
        tokenizer=tokenizer,
        config=config,
        pooling=pools.pooling,
        max_length=max_length,
        dimension=pools.dimension or pools.pooling.dimension(dimension),
        license=card.license or license,
        files=tuple(sorted(digests, key=lambda file: file.path)),
        # Those of a multi-vector encoder are part of how it reads queries and documents.
        prompts={**(prompts.texts if gives != "colbert" else {}), **reading.prompts},
        pooling_from=pools.origin,
        default_prompt=None if gives == "colbert" else prompts.default,
        reading=reading,
        warnings=tuple(
            dict.fromkeys(
                [*warnings, *pools.warnings, *_default_prompt(prompts), *doubts, *_not_ours(writer)]
            )
        ),
        precision=precision,
        head=head,
        outputs=pools.outputs,
        graph_by=writer.identity if writer else "",
    )


def _before(found: HeadReading, reading: Reading, name: str) -> PoolingReading:
    """The pooling that a head's vector is made by. Raises ``UnsupportedModelError`` where another is asked for."""
    if reading.pooling is not None or reading.normalize is not None:
        raise UnsupportedModelError(
            f"{name} is {found.head.noun}: its pooling is part of its head and cannot be set",
            hint="leave --pooling, --normalize and --no-normalize out",
        )
    return PoolingReading(
        pooling=found.pooling, origin="config.json", token_dimension=None, files=found.files, warnings=()
    )


def _before_setfit(found: SetFitReading, pools: PoolingReading) -> PoolingReading:
    """The encoder's own pooling, and the length that the classifier was trained on."""
    pooling = replace(pools.pooling, normalize=pools.pooling.normalize or found.normalize)
    return replace(pools, pooling=pooling, files=(*pools.files, *found.files))


def _of_outputs(found: OutputsReading, reading: Reading, name: str) -> PoolingReading:
    """How the vector beside the outputs is made. Raises ``UnsupportedModelError`` where another pooling is asked for."""
    if reading.pooling is not None or reading.normalize is not None:
        raise UnsupportedModelError(
            f"{name} is {found.outputs.noun}: its pooling is part of the model and cannot be set",
            hint="leave --pooling, --normalize and --no-normalize out",
        )
    return PoolingReading(
        pooling=found.pooling,
        origin="config.json",
        token_dimension=None,
        files=found.files,
        warnings=(),
        outputs=found.outputs,
        dimension=found.dimension,
    )


def _in_words(head: Head) -> str:
    """Its labels and what activates them, e.g. ``negative, positive (softmax)``."""
    shown = ", ".join(head.labels[:4]) + (f" and {len(head.labels) - 4} more" if len(head.labels) > 4 else "")
    return f"{shown} ({head.activation})"


def _precision(graph: Path, config: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """What the weights of a graph are, and the warnings that come of it or of the model that it was made from."""
    made, precision = read_made_small(config), precision_of_file(graph)
    precision, doubts = (made.precision, made.warnings) if made else (precision, ())
    if precision in FLOAT_PRECISIONS:
        return precision, doubts
    said = f"quantized already ({precision}): compared with this file, not with the full-precision model"
    return precision, (*doubts, said)


def _default_prompt(prompts: Prompts) -> tuple[str, ...]:
    if prompts.default is None:
        return ()
    text = prompts.texts[prompts.default]
    return (
        f"sentence-transformers puts the {prompts.default} prompt {text!r} before each text unasked, a bundle does not",
    )


def _without_prompts(texts: Mapping[str, str]) -> tuple[str, ...]:
    """The warning of a model that leaves prompts out of its pooling. Raises ``UnsupportedModelError`` if it has prompts."""
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


def list_names(directory: Path) -> list[str]:
    """POSIX paths of the files in a folder and in the folders right below it, hidden ones left out."""
    found = [*directory.glob("*"), *directory.glob("*/*")]
    names = (path.relative_to(directory).as_posix() for path in found if path.is_file())
    return sorted(name for name in names if not name.startswith(".") and "/." not in name)


def _measure_weights(file: Path, config: Mapping[str, Any]) -> tuple[tuple[Path, ...], int, int | None]:
    """The files that hold the weights, the dimension of the vectors, and the rows of the embedding table if known."""
    tensors = open_tensors(file)
    dimension, width = (
        size_of(config, next((each for each in keys if each in config), "hidden_size"))
        for keys in (hub_layout.DIMENSION_KEYS, hub_layout.WIDTH_KEYS)
    )
    rows = size_of(config, "vocab_size")
    width = config.get("embedding_size", width)
    table = embedding_table(tensors)
    if table is not None and table != (rows, width):
        raise ModelError(
            f"config.json states {rows} tokens of {width} numbers, {file.name} holds {table[0]} of {table[1]}",
            hint="the two files are of different models",
        )
    return tensors.files, dimension, rows


def _measure_graph(
    file: Path, config: Mapping[str, Any], context: BuildContext
) -> tuple[tuple[Path, ...], int, int | None]:
    """The same of a ready-made graph, which is run where nothing says how long its vectors are."""
    files = (file, *require_external_files(file))
    made = read_made_small(config)
    said = made.dimension if made else hub_layout.dimension_of(config) or output_dimension(file)
    dimension = said or dimension_of_graph(file, context=context)
    vocabulary = config.get("vocab_size")
    return files, dimension, vocabulary if isinstance(vocabulary, int) else vocabulary_rows(file)


def _require_agreement(pools: PoolingReading, dimension: int) -> None:
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
