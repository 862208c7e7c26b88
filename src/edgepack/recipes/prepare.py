"""From a source to the file that is shipped: export, the recipe's passes, conversion, and what the result needs."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import onnx

from edgepack.context import BuildContext
from edgepack.errors import ModelError, TargetError, UnsupportedModelError
from edgepack.files.store import digest_of_code
from edgepack.models.export.source_key import digests_of, source_key
from edgepack.models.fuse.fusion import fused_operators
from edgepack.models.graph.external_weights import LARGEST_MODEL, gathered, load_graph, weight_bytes
from edgepack.models.graph.precision import is_batch_dependent, left_whole, precision_of, quantized_by
from edgepack.models.graph.writer import OUTPUT
from edgepack.models.lower.opset import lower_opset
from edgepack.models.ort.convert import convert_to_ort
from edgepack.models.reference import exported_model
from edgepack.operators.config import operators_of_ort_model, union
from edgepack.quantization.calibration import read_texts, takes_pairs
from edgepack.quantization.token_ranks import characters_of
from edgepack.recipes.registry import apply, key_of_passes, passes_for
from edgepack.recipes.word_lists import word_list, words_of
from edgepack.records.model import ModelSource, PreparedModel
from edgepack.records.operators import Operators
from edgepack.records.recipe import Advance, Material
from edgepack.records.target import FORMATS, ModelOptions, Pass, Platform
from edgepack.terminal_text import did_you_mean

MAKERS = ("models", "operators", "passes", "quantization", "recipes")
"""Whose code makes a prepared model, as far as it is edgepack's own."""
FACTS = "facts.json"
FIXED = "all.ort"
"""The same model with every optimization applied, for formats that a device optimizes further."""
UNOPTIMIZED = "none.ort"
TOKENIZER = "tokenizer.json"
"""The tokenizer, when a pass changed it."""


def prepare_model(
    source: ModelSource,
    *,
    options: ModelOptions,
    platform: Platform | None = None,
    whole_runtime: bool = False,
    kept: dict[str, object] | None = None,
    context: BuildContext,
) -> PreparedModel:
    """Make a model small by its target's recipe and convert it to its target's format.

    ``needs`` are those of the finished file. Made once for the same source, recipe and versions; the same inputs give
    the same bytes. With ``whole_runtime`` an ONNX model may have operators that the installed ONNX Runtime lacks: the device's, which is
    not reduced, has them; what it needs is not known then. ``platform`` lets passes know the device's instruction sets. Raises ``TargetError`` for an unknown
    recipe, pass, parameter or format, ``UsageError`` for calibration texts that cannot be read, ``ModelError`` and
    ``UnsupportedModelError`` for a model that cannot be taken.
    """
    if options.format not in FORMATS:
        raise TargetError(
            f"unknown model format {options.format!r}{did_you_mean(options.format, FORMATS)}",
            hint=f"formats: {', '.join(FORMATS)}; a builder makes one of its own of what is prepared in one of these",
        )
    passes = passes_for(source, options, context)
    isa = platform.isa if platform else ()
    texts = read_texts(options.calibration) if options.calibration else ()

    def make(folder: Path) -> None:
        material = Material(
            source=source,
            texts=texts,
            isa=isa,
            words=partial(words_of, context=context),
            kept={} if kept is None else kept,
            progress=partial(_progress, context),
        )
        _make(source, passes, options.format, material, folder, whole_runtime=whole_runtime, context=context)

    inputs = {
        **source_key(source),
        "passes": key_of_passes(passes, context),
        "format": options.format,
        "isa": " ".join(isa),
        "texts": json.dumps(texts),
        **texts_of(passes),
        "edgepack": version("edgepack"),
        "by": digest_of_code(*MAKERS),
        **({"runtime": "whole"} if whole_runtime else {}),
        **({"calibration": "pairs"} if takes_pairs(source) else {}),
        **({"ranks": "characters by themselves"} if _ranks_characters(source, passes) else {}),
    }
    corpora = {f"corpus {number}": Path(each) for number, each in enumerate(corpora_of(passes))}
    folder = context.store.cached("prepared", inputs, make, unchanged=digests_of(source), files=corpora)
    facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    prepared = _describe(folder, source, options.format, facts)
    context.note(summary(prepared, facts))
    return prepared


def _make(
    source: ModelSource,
    passes: tuple[Pass, ...],
    model_format: str,
    material: Material,
    folder: Path,
    *,
    whole_runtime: bool,
    context: BuildContext,
) -> None:
    notes: list[str] = []
    model, passes = _passed(source, passes, material, notes, whole_runtime=whole_runtime, context=context)
    if passes and (left := left_whole(model)):
        notes.append(left)
    model = in_one_file(model, source)
    try:
        _write(model, model_format, folder)
    except (ModelError, UnsupportedModelError) as error:
        if model_format == "onnx" and whole_runtime:
            notes.append(f"not converted: {error.message}")
        elif whole_runtime:
            raise type(error)(
                error.message, hint="--set model.format=onnx: the stock runtime reads it"
            ) from error
        else:
            raise
    for name, content in material.files.items():
        (folder / name).write_bytes(content)
    facts = {
        "precision": precision_of(model),
        "batch_dependent": is_batch_dependent(model),
        "fused": bool(fused_operators(model)),
        "inputs": [each.name for each in model.graph.input],
        "passes": [pass_in_words(step) for step in passes],
        "notes": notes,
    }
    (folder / FACTS).write_text(json.dumps(facts), encoding="utf-8")


def _passed(
    source: ModelSource,
    passes: tuple[Pass, ...],
    material: Material,
    notes: list[str],
    *,
    whole_runtime: bool,
    context: BuildContext,
) -> tuple[onnx.ModelProto, tuple[Pass, ...]]:
    """The exported graph after the passes, and those that were applied; of one that is quantized already as it is, none."""
    model = load_graph(exported_model(source, context=context))
    if source.onnx is not None and not whole_runtime:
        lower_opset(model, source.onnx)  # refuses what was left in an opset that is not compiled
    if quantized_by(model):
        # Scales that were learnt in training are better than any that could be found here.
        notes.append("quantized already, taken as it is: no recipe is applied")
        return model, ()
    for step in passes:
        with context.progress(f"pass {step.name}"):
            model = apply(step, model, notes.append, material, context)
        material = _with_its_tokenizer(material, context)
    return model, passes


def _with_its_tokenizer(material: Material, context: BuildContext) -> Material:
    """Later passes cut texts up as the model that they are given takes them, where an earlier one has made another tokenizer."""
    content = material.files.get(TOKENIZER)
    if material.source is None or content is None:
        return material
    place = context.work_dir / "tokenizers" / sha256(content).hexdigest() / TOKENIZER
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    return replace(material, source=replace(material.source, tokenizer=place))


def try_passes(
    source: ModelSource,
    passes: tuple[Pass, ...],
    judge: Callable[[onnx.ModelProto], object] | None = None,
    *,
    key: str = "",
    whole_runtime: bool = False,
    context: BuildContext,
) -> None:
    """Apply passes to a model and have the graph judged, to learn before a build whether they take it: passes without calibration, which
    take seconds. Without a judge ONNX Runtime is, unless it is a whole one of another release.

    Done once where nothing is refused; ``key`` says whose judgement it is. Raises what passes and judge raise, and
    ``UnsupportedModelError`` for an opset that is not compiled.
    """

    def make(folder: Path) -> None:
        words = partial(words_of, context=context)
        material = Material(source=source, words=words, progress=partial(_progress, context))
        model, _ = _passed(source, passes, material, [], whole_runtime=whole_runtime, context=context)
        if judge is not None:
            judge(model)
        elif not whole_runtime:
            convert_to_ort(in_one_file(model, source), folder / UNOPTIMIZED, level="none")
            (folder / UNOPTIMIZED).unlink()
        (folder / "taken").touch()

    inputs = {
        **source_key(source),
        "passes": key_of_passes(passes, context),
        "judge": key,
        "longest": str(source.max_length),
        "runtime": "whole" if whole_runtime else "",
        "edgepack": version("edgepack"),
        "by": digest_of_code(*MAKERS),
    }
    context.store.cached("taken", inputs, make, unchanged=digests_of(source))


@contextmanager
def _progress(context: BuildContext, what: str, count: int) -> Iterator[Advance]:
    with context.progress(what, count) as shown:
        yield shown.advance


def in_one_file(model: onnx.ModelProto, source: ModelSource) -> onnx.ModelProto:
    """The model with no weights set aside. Raises ``UnsupportedModelError`` where they are too many for that."""
    if (size := weight_bytes(model)) > LARGEST_MODEL:
        raise UnsupportedModelError(
            f"{source.name} has {size / 1e9:.1f} GB of weights by this recipe; one file holds 2 GB",
            hint="choose a recipe that makes weights smaller, e.g. --recipe int8",
        )
    return gathered(model)


def _write(model: onnx.ModelProto, model_format: str, folder: Path) -> None:
    if model_format == "ort":
        convert_to_ort(model, folder / "model.ort")
        return
    if model_format == "ort-runtime-opt":
        convert_to_ort(model, folder / "model.ort", runtime_optimizations=True)
    else:
        (folder / "model.onnx").write_bytes(model.SerializeToString(deterministic=True))
        convert_to_ort(model, folder / UNOPTIMIZED, level="none")
    convert_to_ort(model, folder / FIXED)


def _needs(folder: Path) -> Operators | None:
    """Operators of every form that the model takes on the device, from the file's own to the fully optimized one; of one that was not
    converted it is not known."""
    files = sorted(folder.glob("*.ort"))
    return union(map(operators_of_ort_model, files)) if files else None


def _describe(
    folder: Path, source: ModelSource, model_format: str, facts: Mapping[str, Any]
) -> PreparedModel:
    tokenizer = folder / TOKENIZER
    return PreparedModel(
        file=folder / ("model.onnx" if model_format == "onnx" else "model.ort"),
        format=model_format,
        precision=facts["precision"],
        recipe=", ".join(["pool", *facts["passes"]]),
        needs=_needs(folder),
        source=replace(source, tokenizer=tokenizer) if tokenizer.exists() else source,
        inputs=tuple(facts["inputs"]),
        output=OUTPUT,
        batch_dependent=facts["batch_dependent"],
    )


def _ranks_characters(source: ModelSource, passes: tuple[Pass, ...]) -> bool:
    """Whether rows of a table are taken for rare or common otherwise than by their order."""
    ranks = any(step.parameters.get(name) for step in passes for name in ("weighed", "rarity"))
    return ranks and bool(characters_of(source.tokenizer))


def texts_of(passes: tuple[Pass, ...]) -> dict[str, str]:
    """Key of the texts that passes read, of which their parameters have the names alone."""
    lists = word_lists_of(passes)
    corpora = json.dumps([read_texts(Path(corpus)) for corpus in corpora_of(passes)])
    return {"corpora": corpora, **({"words": " ".join(lists)} if lists else {})}


def corpora_of(passes: tuple[Pass, ...]) -> list[str]:
    """The files that passes name: what is in them decides what they make."""
    return [str(step.parameters["corpus"]) for step in passes if step.parameters.get("corpus")]


def word_lists_of(passes: tuple[Pass, ...]) -> list[str]:
    """Digests of the word lists of languages that passes name; raises ``UsageError`` for one that has none."""
    return [word_list(each).sha256 for step in passes for each in step.parameters.get("languages") or ()]


def pass_in_words(step: Pass) -> str:
    """A pass as a person writes it, e.g. ``int8-dynamic(tables=false)``."""
    if not step.parameters:
        return step.name
    pairs = ", ".join(f"{name}={json.dumps(value)}" for name, value in sorted(step.parameters.items()))
    return f"{step.name}({pairs})"


def summary(prepared: PreparedModel, facts: Mapping[str, Any]) -> str:
    """In a few words, e.g. ``fused, pooled, int8 … 22.9 MB .ort``."""
    done = ["fused"] * bool(facts["fused"]) + ["pooled", prepared.precision, *facts["notes"]]
    return f"{', '.join(done)} … {prepared.file.stat().st_size / 1e6:.1f} MB {prepared.file.suffix}"
