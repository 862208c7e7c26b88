"""The bundle's own vectors against the full-precision model's: what makes a bundle worth shipping."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgepack.bundles.model_section import prefixes
from edgepack.context import BuildContext
from edgepack.errors import CannotRunHere, ModelError, UsageError, VerificationError
from edgepack.files.store import written_beside
from edgepack.models.read.tokenizer import load_tokenizer
from edgepack.models.reference import cached_reference, embed_with_onnxruntime, reference_vectors
from edgepack.records.bundle import Bundle
from edgepack.records.figures import EXACT, MAX_DIFFERENCE, Figure, described, figures_of, in_short, limits_of
from edgepack.records.ladder import BY_TOKEN, nearer
from edgepack.records.model import FULL_PRECISION, ModelSource, PreparedModel
from edgepack.records.report import Drawn, Verification
from edgepack.records.runtime import LevelProof
from edgepack.records.target import FORMATS, ModelOptions
from edgepack.verifier.metrics import compare, lowest_cosine, mean_cosine
from edgepack.verifier.outputs.measure import measure_outputs
from edgepack.verifier.outputs.output import Program
from edgepack.verifier.outputs.scores import measure_scores
from edgepack.verifier.texts.drawn import drawn_texts
from edgepack.verifier.texts.long import long_texts, tokens_of_long
from edgepack.verifier.tokens import compare_tokens, has_fewer_tokens
from edgepack.verifier.vector_quality import measure_quality, shorter, with_lengths

Embed = Callable[[Bundle, Sequence[str]], Sequence[Sequence[float]]]

NEIGHBOURS: Mapping[str, Any] = {"min_agreement": 0.0, "min_top10": 0.0}
"""Limits that say nothing of vectors that are not for comparing texts: scores, or the other outputs, are judged instead."""
ANOTHER_MODEL = 0.8
"""Mean cosine below which a model is no worse copy of the full-precision one, but another."""
MOVED = 0.999
"""Mean cosine below which another prompt, or none, changes vectors by more than could be told from rounding."""
PROMPTED = range(5, 25)
"""Words of a text that is asked after each prompt: among more, a prompt says little."""
LENGTH_TOLERANCE = 1e-3
"""How far from 1 a normalised vector's length may be: float32 and a text format with few digits stay far below."""


def verification_texts() -> tuple[str, ...]:
    """The 200 texts that bundles are verified on: 45 topics in several languages, and 20 odd ones."""
    text = (files("edgepack.verifier") / "data" / "texts.txt").read_text(encoding="utf-8")
    return tuple(text.rstrip("\n").split("\n"))


def texts_for_strangers(source: ModelSource, seed: int) -> tuple[str, ...]:
    """The texts that bundles are verified on, and those that the seed draws, of which no program can know its answers."""
    published = verification_texts()
    return (*published, *drawn_texts(load_tokenizer(source), published, seed=seed))


def verify(
    bundle: Bundle,
    source: ModelSource,
    embed: Embed,
    *,
    options: ModelOptions,
    program: Program | None = None,
    tokenizer: bool = True,
    shipped: ModelSource | None = None,
    others: Path | None = None,
    proofs: Sequence[LevelProof] = (),
    seed: int | None = None,
    context: BuildContext,
) -> Verification:
    """Run the bundle on the texts and compare; the status is ``passed``, or ``not verified`` where it cannot run.

    Texts that are longer than the model takes are judged by themselves, and with ``seed`` the texts drawn by it (``drawn_texts``), which no
    program can know, and of which then the long ones are made, too. With ``program`` all that it gives beside vectors is measured: scores, other outputs, a text after each of the
    model's prompts, and, with ``tokenizer``, the tokens of the bundle's own tokenizer, where it has one, beside those of Hugging Face's: of ``shipped``, the model
    with the tokenizer that a pass has made, which only a build has. ``others`` is a .npy file with the vectors that another processor (or an emulator of one) made of the same texts;
    without it ``proofs``, what the runtime gave on each kind of processor when it was made, say how far processors differ.
    Raises ``VerificationError`` when a tokenizer of the bundle's own differs from Hugging Face's, or when the bundle's vectors
    are not what the manifest says (shape, finite, of length 1) or fall below the limits of ``options``; with ``options.gate`` ``off`` the latter is said, and nothing is verified.
    """
    elsewhere: list[str] = []
    published = verification_texts()
    drawn = () if seed is None else drawn_texts(load_tokenizer(source), published, seed=seed)
    # What nobody asks again is not kept.
    exact = partial(reference_vectors if drawn else cached_reference, source, context=context)

    def vectors_of(texts: Sequence[str]) -> NDArray[np.float32]:
        try:
            return _checked(embed(bundle, texts), texts, source)
        except CannotRunHere as cannot:
            if cannot.instead is None:
                raise
            elsewhere.append(cannot.reason)
            return _checked(cannot.instead, texts, source)

    try:
        figures = measure_quality(vectors_of, source, published, full=options.gate == "full", context=context)
        # By themselves: the source's own length cuts them, and among many others nobody sees where they are cut.
        long = long_texts(source, drawn or published)
        made, right = vectors_of(long), exact(long)
        figures = with_lengths(figures, source, made, right)
        figures = replace(figures, long_cosine=lowest_cosine(made, right), long_tokens=tokens_of_long(source))
        if program is not None:
            short = [each for each in drawn or published if len(each.split()) in PROMPTED][:3]
            figures = replace(
                figures, prompt_cosine=_cosine_of_prompts(bundle, program, source, short, exact)
            )
            if short and figures.lengths and source.outputs is None:
                cosine = _cosine_of_shorter(bundle, program, source, short, vectors_of(short))
                figures = replace(figures, shorter_cosine=cosine)
        if seed is not None:
            made, right = vectors_of(drawn), exact(drawn)
            near = compare(made, right)
            unknown = Drawn(
                texts=len(drawn), seed=seed, mean_cosine=near.mean_cosine, min_cosine=near.min_cosine
            )
            figures = replace(with_lengths(figures, source, made, right), drawn=unknown)
        if others is not None:
            cosine = compare_processors(vectors_of(published), others)
            figures = replace(figures, processor_cosine=cosine)
        else:
            figures = replace(figures, processor_cosine=lowest_of_levels(proofs))
        if program is not None:
            figures = _with_outputs(figures, bundle, source, program, drawn, seed, context)
            if tokenizer and shipped is None and has_fewer_tokens(bundle):
                context.note(
                    "by its manifest the recipe takes tokens away: only vectors are compared, and not the tokenizer"
                )
            elif tokenizer:
                cut_by = shipped or source
                same = compare_tokens(bundle, cut_by, published, program.tokens, seed=seed)
                figures = replace(figures, same_tokens=same)
    except CannotRunHere as cannot:
        context.note(f"not verified: {cannot.reason}")
        return Verification(status="not verified", reason=cannot.reason)
    options = of_source(options, source)
    limits = limits_of(options)
    if figures.outputs and bundle.manifest["model"]["precision"] == FULL_PRECISION:
        limits[EXACT] = MAX_DIFFERENCE
    missed = [each for each in figures_of(figures, limits) if each.shortfall]
    short = [each.shortfall for each in missed]
    if options.gate == "off":
        return _unjudged(figures, short, context)
    figures = replace(figures, limits=limits)
    if short:
        raise VerificationError(
            f"the vectors differ too much from the full-precision model: {' and '.join(short)} ({described(figures)})",
            hint=_hint(missed, options, bundle, source, context),
        )
    if elsewhere:
        context.note(f"NOT VERIFIED: {elsewhere[0]} ({described(figures)})")
        return replace(figures, status="not verified", reason=elsewhere[0])
    context.note(in_short(figures))
    return figures


def of_source(options: ModelOptions, source: ModelSource) -> ModelOptions:
    """The limits that say something of such a model."""
    return replace(options, **NEIGHBOURS) if source.ranks else options


def _with_outputs(
    figures: Verification,
    bundle: Bundle,
    source: ModelSource,
    program: Program,
    drawn: Sequence[str],
    seed: int | None,
    context: BuildContext,
) -> Verification:
    """The figures with those of scores, or of other outputs, of a model that has them."""
    if source.head is not None:
        found = measure_scores(
            program, bundle, source, verification_texts(), drawn=drawn, seed=seed, context=context
        )
        return replace(figures, scores=found)
    if "outputs" in bundle.manifest["model"]:
        outputs = measure_outputs(program, bundle, source, verification_texts(), drawn=drawn, context=context)
        return replace(figures, outputs=outputs)
    return figures


def _cosine_of_prompts(
    bundle: Bundle,
    program: Program,
    source: ModelSource,
    texts: list[str],
    reference: Callable[[list[str]], NDArray[np.float32]],
) -> float | None:
    """The lowest cosine of the texts after each prompt of the source; ``None`` where there is none.

    Raises ``VerificationError`` for vectors that are nearer to those after another of the prompts, or after none.
    """
    if source.ranks:
        return None
    said = {**prefixes(source), "": ""}
    exact = {prompt: reference([prompt + text for text in texts]) for prompt in dict.fromkeys(said.values())}
    cosines: list[float] = []
    for purpose, prompt in said.items():
        if not purpose or (rows := program.prompted(bundle, texts, purpose)) is None:
            continue
        made, right = _checked(rows, texts, source), exact[prompt]
        cosines.append(lowest_cosine(made, right))
        near = mean_cosine(made, right)
        for other, vectors in exact.items():
            if mean_cosine(right, vectors) < MOVED and mean_cosine(made, vectors) > near:
                raise VerificationError(
                    f"the vectors of texts for {purpose} are nearer to those after {_quoted(other)} than after the model's prompt {_quoted(prompt)}",
                    hint="the runner in this bundle does not put it before texts",
                )
    return min(cosines, default=None)


def _cosine_of_shorter(
    bundle: Bundle, program: Program, source: ModelSource, texts: Sequence[str], whole: NDArray[np.float32]
) -> float | None:
    """The lowest cosine of what the program cuts to each length of the model to its whole vectors, cut here; ``None`` where it cuts none.

    Raises ``VerificationError`` for vectors that are not of length 1 again.
    """
    cosines: list[float] = []
    for dimension, cut in shorter(whole, source):
        if (rows := program.shortened(bundle, texts, dimension)) is None:
            continue
        made = np.asarray(rows, dtype=np.float32)
        norms = np.linalg.norm(made, axis=1) if made.shape == cut.shape else np.zeros(1)
        # What is not finite is no such length either.
        if not (np.abs(norms - 1.0) <= LENGTH_TOLERANCE).all():
            raise VerificationError(
                f"the bundle's vectors of {dimension} numbers (`embed --dim {dimension}`) are not of length 1",
                hint="the runner in this bundle is broken",
            )
        cosines.append(lowest_cosine(made, cut))
    return min(cosines, default=None)


def _hint(
    missed: Sequence[Figure],
    options: ModelOptions,
    bundle: Bundle,
    source: ModelSource,
    context: BuildContext,
) -> str:
    """Hint to what would help: a better bundle, limits that it keeps, or the texts of the full gate where these are not in the cache."""
    if context.offline and any("was not measured (" in each.shortfall for each in missed):
        target = bundle.manifest["target"]["name"]
        return (
            f"fetch the texts of the full gate: edgepack fetch {source.origin} --target {target} --set model.gate=full; "
            "or use --gate quick"
        )
    if source.ranks:
        return "an order takes a recipe that is nearer to full precision: --recipe int8-near, then fp16; or use --gate off"
    return f"{_better(options)}; to accept these vectors: {' '.join(_lowered(missed)) or '--gate off'}"


def _better(options: ModelOptions) -> str:
    """Recipe, or target, that makes better vectors, in words."""
    up = nearer(options.recipe) if isinstance(options.recipe, str) else None
    # edgepack's own kernels take no other activations than those of int8.
    if up and (options.format in FORMATS or up in BY_TOKEN):
        return f"--recipe {up}"
    return "a recipe that is nearer to full precision, or another target"


def _lowered(missed: Sequence[Figure]) -> Iterator[str]:
    """Options that lower the limits which were not kept, to what was measured, rounded down; none where one has no such limit."""
    lowest: dict[str, float] = {}
    for each in missed:
        if each.value is None or not each.limited_by:
            return
        lowest[each.limited_by] = min(lowest.get(each.limited_by, 1.0), each.value)
    yield from (
        f"--set model.{limit}={math.floor(max(value, 0) * 1000) / 1000:g}" for limit, value in lowest.items()
    )


def _unjudged(figures: Verification, short: Sequence[str], context: BuildContext) -> Verification:
    """With the gate off: everything is measured and said, and nothing counts as verified."""
    reason = "THE GATE IS OFF" + (f": {' and '.join(short)}" if short else "")
    context.note(f"{reason} ({described(figures)})")
    return replace(figures, status="not verified", reason=reason)


def write_vectors(bundle: Bundle, embed: Embed, destination: Path) -> None:
    """The bundle's vectors of the verification texts as .npy, float32 [200, dimension], for another machine to compare.

    Raises ``CannotRunHere``.
    """
    vectors = np.asarray(embed(bundle, verification_texts()), dtype=np.float32)
    with written_beside(destination) as temporary, temporary.open("wb") as stream:
        np.save(stream, vectors)


def lowest_of_levels(proofs: Sequence[LevelProof]) -> float | None:
    """The lowest cosine of the CPU levels that were run; ``None`` where that was one alone: it says nothing of other CPUs."""
    proved = [proof.min_cosine for proof in proofs if proof.proved]
    return min(proved) if len(proved) > 1 else None


def compare_processors(vectors: NDArray[np.float32], others: Path) -> float:
    """The lowest cosine between these vectors and those that ``write_vectors`` wrote elsewhere.

    Raises ``UsageError`` for a file that does not hold such vectors.
    """
    try:
        there = np.load(others, allow_pickle=False)
        return lowest_cosine(vectors, there.astype(np.float32))
    except (OSError, ValueError, TypeError, AttributeError, MemoryError, np.linalg.LinAlgError) as error:
        # numpy's advice for what is no array is to trust it.
        why = "it is no array of numbers" if "pickle" in str(error) else error
        raise UsageError(
            f"{others} holds no vectors of this bundle for the verification texts: {why}",
            hint="`edgepack verify BUNDLE --write-vectors FILE` writes it on the other machine",
        ) from error


def _checked(
    rows: Sequence[Sequence[float]], texts: Sequence[str], source: ModelSource
) -> NDArray[np.float32]:
    """The rows as float32 [texts, dimension], finite and, where the model normalises, of length 1."""
    hint = "the runner in this bundle is broken; run its `embed --self-test` for details"
    if len(rows) != len(texts):
        raise VerificationError(f"the bundle gave {len(rows)} vectors for {len(texts)} texts", hint=hint)
    wrong = next((at for at, row in enumerate(rows) if len(row) != source.dimension), None)
    if wrong is not None:
        raise VerificationError(
            f"the bundle gave a vector of {len(rows[wrong])} numbers instead of {source.dimension} "
            f"for {_quoted(texts[wrong])}",
            hint=hint,
        )
    vectors = np.asarray(rows, dtype=np.float32)
    lengths = np.linalg.norm(vectors, axis=1)
    for at, length in enumerate(lengths):
        if not np.isfinite(length):
            raise VerificationError(f"the bundle's vector of {_quoted(texts[at])} is not finite", hint=hint)
        sparse = source.outputs is not None and not source.pooling.unit
        if (length == 0.0 and not sparse) or (source.pooling.unit and abs(length - 1.0) > LENGTH_TOLERANCE):
            raise VerificationError(
                f"the bundle's vector of {_quoted(texts[at])} has length {length:.4f}", hint=hint
            )
    return vectors


def _quoted(text: str) -> str:
    return f'"{text}"' if len(text) <= 60 else f'"{text[:57]}…"'


def require_oracle(
    model: PreparedModel, source: ModelSource, *, options: ModelOptions, context: BuildContext
) -> None:
    """Raise ``VerificationError`` when the oracle's vectors are not as near the full-precision model's as the bundle's must be, and
    ``ModelError`` when they are another model's.
    """
    assert model.oracle is not None
    texts = verification_texts()
    vectors = embed_with_onnxruntime(model.oracle, model.source, texts)
    reference = cached_reference(source, texts, context=context)
    if vectors.shape != reference.shape:
        raise ModelError(f"it makes vectors {list(vectors.shape[1:])}, not {list(reference.shape[1:])}")
    cosine = compare(vectors, reference).mean_cosine
    if cosine >= options.min_cosine or options.gate == "off":
        return
    said = f"mean cosine {cosine:.4f} to the full-precision model, below {options.min_cosine:g}"
    if not cosine >= ANOTHER_MODEL:
        raise ModelError(f"it has {said}")
    lowered = f"--set model.min_cosine={math.floor(cosine * 1000) / 1000:g}"
    raise VerificationError(
        f"the vectors differ too much: {said}", hint=f"{_better(options)}; to accept these vectors: {lowered}"
    )
