"""The bundle's own vectors against the full-precision model's: what makes a bundle worth shipping."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING

from edgepack.context import BuildContext
from edgepack.errors import CannotRunHere, VerificationError
from edgepack.records import Bundle, ModelOptions, ModelSource, Verification

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from edgepack.bundle.metrics import Nearness

Embed = Callable[[Bundle, Sequence[str]], Sequence[Sequence[float]]]

LENGTH_TOLERANCE = 1e-3
"""How far from 1 a normalised vector's length may be: float32 and a text format with few digits stay far below."""


def verification_texts() -> tuple[str, ...]:
    """The 200 texts that bundles are verified on: 45 topics in several languages, and 20 odd ones."""
    text = (files("edgepack.bundle") / "data" / "texts.txt").read_text(encoding="utf-8")
    return tuple(text.rstrip("\n").split("\n"))


def verify(
    bundle: Bundle, source: ModelSource, embed: Embed, *, options: ModelOptions, context: BuildContext
) -> Verification:
    """Run the bundle on the texts and compare; the status is ``passed``, or ``not verified`` where it cannot run.

    Raises ``VerificationError`` when the bundle's vectors are not what the manifest says (shape, finite, of length 1)
    or are further from the full-precision model's than ``options.min_cosine`` (mean) and ``options.min_agreement`` allow.
    """
    from edgepack.bundle.metrics import compare
    from edgepack.models.reference import reference_vectors

    texts = verification_texts()
    try:
        rows = embed(bundle, texts)
    except CannotRunHere as cannot:
        context.note(f"not verified: {cannot.reason}")
        return Verification(status="not verified", reason=cannot.reason)
    vectors = _checked(rows, texts, source)
    nearness = compare(vectors, reference_vectors(source, texts, context=context))
    _require_near(nearness, texts, options)
    context.note(describe(nearness))
    return Verification(
        status="passed",
        texts=nearness.texts,
        mean_cosine=nearness.mean_cosine,
        p1_cosine=nearness.p1_cosine,
        min_cosine=nearness.min_cosine,
        neighbour_agreement=nearness.neighbour_agreement,
    )


def describe(nearness: Nearness) -> str:
    """The figures in a line."""
    return (
        f"cosine to fp32: mean {nearness.mean_cosine:.4f}, first percentile {nearness.p1_cosine:.4f}, "
        f"min {nearness.min_cosine:.4f}; nearest neighbour kept for {nearness.neighbour_agreement:.1%} "
        f"of {nearness.texts} texts"
    )


def _checked(
    rows: Sequence[Sequence[float]], texts: Sequence[str], source: ModelSource
) -> NDArray[np.float32]:
    """The rows as float32 [texts, dimension], finite and, where the model normalises, of length 1."""
    import numpy as np

    hint = "the runner in this bundle is broken; run its `embed --self-test` by hand to see how"
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
        if length == 0.0 or (source.pooling.normalize and abs(length - 1.0) > LENGTH_TOLERANCE):
            raise VerificationError(
                f"the bundle's vector of {_quoted(texts[at])} has length {length:.4f}", hint=hint
            )
    return vectors


def _require_near(nearness: Nearness, texts: Sequence[str], options: ModelOptions) -> None:
    short = [
        f"{what} {value:.4f} is below {limit:g}"
        for what, value, limit in (
            ("mean cosine", nearness.mean_cosine, options.min_cosine),
            ("nearest-neighbour agreement", nearness.neighbour_agreement, options.min_agreement),
        )
        if value < limit
    ]
    if short:
        raise VerificationError(
            f"the bundle is too far from the full-precision model: {' and '.join(short)} ({describe(nearness)}; "
            f"furthest: {_quoted(texts[nearness.worst])})",
            hint="take a gentler recipe (--recipe), or allow it: --set model.min_cosine=… and model.min_agreement=…",
        )


def _quoted(text: str) -> str:
    return f'"{text}"' if len(text) <= 60 else f'"{text[:57]}…"'
