"""What is said in the end: a word, an exit code, the figures, and what to change."""

from collections.abc import Mapping
from dataclasses import dataclass

VERDICTS: Mapping[str, tuple[int, str]] = {
    "same": (0, "the model's vectors, up to rounding in float32, float16 or bfloat16"),
    "quantized": (40, "the model's vectors with small unstructured deviations, as from int8 weights; mean cosine within the limit"),
    "coarse": (41, "as `quantized`, but the mean cosine is below the limit"),
    "normalisation": (42, "right directions, wrong lengths"),
    "dimension": (43, "the first numbers of the model's vectors, re-normalized or not, or cut otherwise than the model is"),
    "prefix": (44, "a prefix is missing, doubled, wrong or unwanted"),
    "truncation": (45, "long texts are truncated to another length, or at the wrong end"),
    "pooling": (46, "wrong pooling"),
    "padding": (47, "padding is counted as text, or attended to"),
    "head": (48, "a layer after the pooling (Dense) is missing"),
    "tokenizer": (49, "texts are tokenized differently"),
    "batch": (50, "a text's vector depends on the other texts of its batch"),
    "order": (51, "the right vectors in the wrong order"),
    "random": (52, "the same text gets a different vector each time"),
    "another-model": (53, "vectors unrelated to the model's"),
    "unclear": (54, "another model, or a mistake that doctor does not know"),
}  # fmt: skip
"""Verdict → exit code and what it means. Of several findings, that which stands first in ``GRAVEST`` decides."""

GRAVEST = (
    "random", "another-model", "unclear", "order", "tokenizer", "head", "pooling", "padding", "prefix",
    "batch", "truncation", "dimension", "normalisation", "coarse", "quantized",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is not as the model's own."""

    verdict: str
    """Of ``VERDICTS``."""
    found: str
    """In words: what the subject does."""
    expected: str
    """In words: what the model does."""
    advice: str
    """One sentence: what to change."""
    without: float | None = None
    """The mean cosine where everything but this is taken into account: how much it matters."""


@dataclass(frozen=True, kw_only=True)
class Cosines:
    """Cosines of the subject's vectors with others of the same texts."""

    texts: int
    mean: float
    p1: float
    """First percentile."""
    least: float


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """All that is known of a subject."""

    model: str
    subject: str
    dimension: int
    texts_sent: int
    seconds: float
    cosines: Cosines | None
    """With the model's own vectors; ``None`` where the dimensions differ."""
    explained: Cosines | None
    """With the vectors that the model makes with the mistakes found; ``None`` without a mistake of that kind."""
    largest_batch: int = 0
    """The most texts at once that were answered; nothing is known of more. 0: of a file."""
    findings: tuple[Finding, ...] = ()
    """The gravest first; empty when all is well."""
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        return self.findings[0].verdict if self.findings else "same"

    @property
    def exit_code(self) -> int:
        return VERDICTS[self.verdict][0]

    @property
    def line(self) -> str:
        if not self.findings:
            return "same: these are the model's vectors"
        first, *more = self.findings
        also = f"; also {', '.join(each.verdict for each in more)}" if more else ""
        return f"{first.verdict}: {first.found}{also}. {first.advice}"


def gravest_first(findings: list[Finding]) -> tuple[Finding, ...]:
    """The findings in the order in which they matter."""
    return tuple(sorted(findings, key=lambda each: GRAVEST.index(each.verdict)))
