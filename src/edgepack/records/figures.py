"""The figures of the gate, each beside its limit: what fails a bundle, and every report of it, is made from this list."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from edgepack.records.model import FLOAT_PRECISIONS
from edgepack.records.report import LengthFigure, OutputFigures, Scores, Verification
from edgepack.records.target import ModelOptions

LIMITS: Mapping[str, str] = {
    "min_cosine": "mean cosine to the full-precision model, at least",
    "min_p1_cosine": "first percentile of the cosines, at least",
    "min_worst_cosine": "lowest cosine, at least",
    "min_agreement": "share of texts that keep their nearest neighbour, at least",
    "min_top10": "share of the ten nearest neighbours that is kept, at least",
    "min_batch_cosine": "cosine of a text alone to it among others, at least",
    "min_long_cosine": "lowest cosine of a text that is cut or has a prompt, at least",
    "min_processor_cosine": "cosine between kinds of processors, at least",
    "max_retrieval_loss": "loss of recall@10, at most",
    "max_sts_loss": "loss of Spearman's correlation on STSBenchmark, at most",
    "max_translation_loss": "loss of translated lines that find the English one, at most",
}
"""The limits of the gate, as a target and a manifest name them, in words; those of a loss are the full gate's."""
MIN_TAU, MIN_KEPT = 0.98, 0.99
"""Limits of rerankers and classifiers (``Scores.tau``, ``Scores.kept``)."""
MAX_SCORE_ERROR = 0.1
"""Limit of ``Scores.error``: thresholds on scores take values, not only their order. On a reranker of real layers int8-near has
0.008, int8-weights 0.04, and int8, whose order does not pass, 0.09."""
MIN_ORDER, MIN_BEST = 0.95, 0.95
"""Limits of other outputs (``OutputFigures.tau``, ``OutputFigures.kept``): most texts of the gate share hardly a token, and
scores near zero change places easily."""
MAX_OUTPUT_ERROR = 0.2
"""Limit of ``OutputFigures.error``: int8 has 0.07 on a ColBERT of real layers, and vectors with a mean cosine of 0.985 have 0.17."""
EXACT = "max_difference"
"""Limit of a weight, or of a number of a token's vector, in a bundle in full precision."""
MAX_DIFFERENCE = 1e-3
"""The same in numbers."""
MAX_LENGTH_ERROR = 0.2
"""Limit of ``Verification.length_error``."""
MIN_SHORTER = 0.999
"""Limit of ``Verification.shorter_cosine``: the same numbers, but for their rounding and what a batch or a GPU changes."""

Unit = Literal["cosine", "share", "error", "difference", "loss", "texts", "pairs"]
VALUES: Mapping[Unit, tuple[str, str]] = {
    "cosine": ("{:.4f}", "{:g}"),
    "share": ("{:.1%}", "{:.0%}"),
    "error": ("{:.2%}", "{:.0%}"),
    "difference": ("{:.2g}", "{:g}"),
    "loss": ("{:.4f}", "{:g}"),
    "texts": ("{:,} texts", ""),
    "pairs": ("{:,} pairs", ""),
}
"""How a value of each unit is written, and its limit."""
Entry = tuple[str, str, float | None, str]
"""Key, name, value and the key of the limit."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One figure: what it is, its value, its limit, and which way is better."""

    key: str
    """The same for every bundle, where ``name`` has numbers in it."""
    name: str
    value: float | None
    """``None``: not measured, though it is asked for."""
    limit: float | None = None
    """``None``: nothing is asked of it. Of a loss: how far ``value`` may be from ``fp32``."""
    limited_by: str = ""
    """The key of a target that sets the limit of a vector's figure."""
    unit: Unit = "cosine"
    better: Literal["higher", "lower", "all"] = "higher"
    """``all``: whoever measured it refused the first that differed."""
    fp32: float | None = None
    """The full-precision model's own."""
    missing: str = ""
    """Why it was not measured."""
    brief: bool = False
    """Whether the line that says that a bundle passed has it."""

    @property
    def text(self) -> str:
        return (
            f"NOT MEASURED: {self.missing}" if self.value is None else VALUES[self.unit][0].format(self.value)
        )

    @property
    def limit_text(self) -> str:
        """``≥ 0.985``; empty: nothing is asked of it."""
        limit = "" if self.limit is None else VALUES[self.unit][1].format(self.limit)
        if self.value is not None and self.fp32 is not None:
            return f"fp32 {VALUES[self.unit][0].format(self.fp32)}" + (f" - {limit}" if limit else "")
        if self.better == "all":
            return "all"
        return limit and f"{'≥' if self.better == 'higher' else '≤'} {limit}"

    @property
    def met(self) -> bool | None:
        """``None``: nothing is asked of it."""
        if self.value is None:
            return False
        if self.limit is None:
            return True if self.better == "all" else None
        if self.fp32 is not None:
            return self.fp32 - self.value <= self.limit
        return self.value >= self.limit if self.better == "higher" else self.value <= self.limit

    @property
    def mark(self) -> str:
        return "" if self.met is None else "✓" if self.met else "✗"

    @property
    def shortfall(self) -> str:
        """Sentence about a figure that misses its limit, in words with the figures; empty where its limit is met."""
        if self.met is not False or self.limit is None:
            return ""
        if self.value is None:
            return f"{self.name} was not measured ({self.missing}), a limit of {self.limit:g} is set"
        if self.fp32 is not None:
            below = f"{self.fp32 - self.value:.4f} below fp32's {self.fp32:.4f}"
            return f"{self.name}: {self.value:.4f} is {below}, at most {self.limit:g} is allowed"
        if self.better == "lower":
            return f"{self.name} {self.value:.2g} is above {self.limit:g}"
        return f"{self.name} {self.value:.4f} is below {self.limit:g}"


def limits_of(options: ModelOptions) -> dict[str, float]:
    """The limits that ask for something: those of losses only in the full gate."""
    asked = {name: getattr(options, name) for name in LIMITS}
    return {
        name: limit
        for name, limit in asked.items()
        if (limit > 0 if name.startswith("min_") else limit < 1 and options.gate == "full")
    }


def shortfalls(found: Verification, options: ModelOptions) -> list[str]:
    """Sentences about the figures that miss their limits; nothing when all is well.

    What a limit asks for and nothing has measured counts as below it.
    """
    return [short for each in figures_of(found, limits_of(options)) if (short := each.shortfall)]


def figures_of(found: Verification, limits: Mapping[str, float] | None = None) -> list[Figure]:
    """All that was measured, beside these limits or those that applied; nothing where the bundle did not run."""
    at = found.limits if limits is None else limits
    parts = (_scores, _outputs, _vectors, _lengths, _tokens, _retrieval, _tasks)
    return [figure for part in parts for figure in part(found, at)] if found.texts else []


def described(found: Verification) -> str:
    """The figures in a line."""
    return "; ".join((heading(found), *(f"{each.name} {each.text}" for each in figures_of(found))))


def in_short(found: Verification) -> str:
    """That it passed; the figures themselves are the report's."""
    further = "".join(f", {each.name} {each.text}" for each in figures_of(found) if each.brief)
    return f"passed: cosine to {reference(found)} {found.mean_cosine:.4f} on {found.texts} texts{further}"


def heading(found: Verification) -> str:
    """Heading: the reference that the vectors were compared with, and the number of texts."""
    return f"vectors compared with {reference(found)}, {found.texts} texts"


def reference(found: Verification) -> str:
    """Reference that the vectors were compared with."""
    quantized = found.against not in FLOAT_PRECISIONS
    return f"the given {found.against} file, NOT FULL PRECISION" if quantized else found.against


def _vectors(found: Verification, limits: Mapping[str, float]) -> Iterator[Figure]:
    """Not every one is measured of a bundle, by the program on a device, or elsewhere; batches count as asked for."""
    drawn = found.drawn
    texts = f"of {drawn.texts} texts drawn by seed {drawn.seed}" if drawn else ""
    long = (
        f"a text of {found.long_tokens:,} tokens"
        if found.long_tokens
        else "texts longer than the model takes"
    )
    mean, lowest = (drawn.mean_cosine, drawn.min_cosine) if drawn else (None, None)
    entries: tuple[Entry, ...] = (
        *_nearness(found),
        ("p1_cosine", "1st percentile of the cosines", found.p1_cosine, "min_p1_cosine"),
        ("batch_cosine", "batch-independent cosine", found.batch_cosine, "min_batch_cosine"),
        ("long_cosine", f"lowest cosine of {long}", found.long_cosine, "min_long_cosine"),
        ("prompt_cosine", "lowest cosine after the model's prompts", found.prompt_cosine, "min_long_cosine"),
        ("drawn.mean_cosine", f"mean cosine {texts}", mean, "min_cosine"),
        ("drawn.min_cosine", f"lowest cosine {texts}", lowest, "min_worst_cosine"),
        ("processor_cosine", "lowest cosine on other CPUs", found.processor_cosine, "min_processor_cosine"),
    )
    for entry in entries:
        key, _, value, limit = entry
        if value is not None or (key == "batch_cosine" and limit in limits):
            yield _of_vectors(entry, limits, brief=key == "drawn.mean_cosine")
    if found.shorter_cosine is not None:
        yield Figure(
            key="shorter_cosine",
            name="lowest cosine of vectors that its program cut",
            value=found.shorter_cosine,
            limit=MIN_SHORTER,
        )
    if found.length_error is not None:
        yield Figure(
            key="length_error",
            name="largest difference of a vector's length",
            value=found.length_error,
            limit=MAX_LENGTH_ERROR,
            unit="error",
            better="lower",
        )


def _nearness(found: Verification | LengthFigure, at: str = "") -> tuple[Entry, ...]:
    """Nearness of whole vectors and of shorter ones."""
    return (
        ("mean_cosine", f"mean cosine{at}", found.mean_cosine, "min_cosine"),
        ("min_cosine", f"lowest cosine{at}", found.min_cosine, "min_worst_cosine"),
        (
            "neighbour_agreement",
            f"nearest neighbour unchanged{at}",
            found.neighbour_agreement,
            "min_agreement",
        ),
        ("top10_agreement", f"ten nearest neighbours in common{at}", found.top10_agreement, "min_top10"),
    )


def _lengths(found: Verification, limits: Mapping[str, float]) -> Iterator[Figure]:
    """Shorter vectors, held to the limits of whole ones."""
    for each in found.lengths:
        for key, name, value, limit in _nearness(each, f" at {each.dimension} dimensions"):
            yield _of_vectors((f"lengths.{key}", name, value, limit), limits)


def _of_vectors(entry: Entry, limits: Mapping[str, float], *, brief: bool = False) -> Figure:
    key, name, value, limit = entry
    return Figure(
        key=key,
        name=name,
        value=value,
        limit=limits.get(limit),
        limited_by=limit,
        unit="share" if key.endswith("agreement") else "cosine",
        brief=brief,
        missing="no batch was run",
    )


def _scores(found: Verification, limits: Mapping[str, float]) -> Iterator[Figure]:
    """Figures of a reranker or a classifier, whose vectors are only what its last layer takes."""
    if (scores := found.scores) is None:
        return
    order = f"Kendall's tau of the scores of {scores.texts:,} texts"
    yield Figure(key="scores.tau", name=order, value=scores.tau, limit=MIN_TAU, brief=True)
    yield _kept("scores.kept", "best text or label kept", scores.kept, MIN_KEPT)
    yield Figure(key="scores.largest", name="largest difference of a score", value=scores.largest)
    yield from _errors("scores", "difference of scores", scores, MAX_SCORE_ERROR)
    yield from _tokenizer("scores.same_pairs", scores.same_pairs, "pairs")


def _outputs(found: Verification, limits: Mapping[str, float]) -> Iterator[Figure]:
    """Figures of sparse vectors and of vectors of tokens."""
    for each in found.outputs:
        key, what = each.name, each.name.replace("_", "-")
        order = f"{what}: Kendall's tau of the scores of {each.texts} texts"
        agree = "tokens in common" if each.name == "sparse" else "mean cosine of tokens"
        yield Figure(key=f"{key}.tau", name=order, value=each.tau, limit=MIN_ORDER, brief=True)
        yield _kept(f"{key}.kept", f"{what}: best text kept", each.kept, MIN_BEST)
        yield Figure(key=f"{key}.agree", name=f"{what}: {agree}", value=each.agree)
        yield Figure(
            key=f"{key}.largest",
            name=f"{what}: largest difference of a number",
            value=each.largest,
            limit=limits.get(EXACT),
            unit="difference",
            better="lower",
        )
        yield from _errors(key, f"{what}: difference of numbers", each, MAX_OUTPUT_ERROR)


def _errors(key: str, name: str, found: Scores | OutputFigures, limit: float) -> Iterator[Figure]:
    """Shares of the reference's spread, or size."""
    for part, texts, error in (
        ("error", "", found.error),
        ("drawn_error", " of drawn texts", found.drawn_error),
    ):
        if error is not None:
            yield Figure(
                key=f"{key}.{part}",
                name=f"{name}{texts}",
                value=error,
                limit=limit,
                unit="error",
                better="lower",
            )


def _kept(key: str, name: str, value: float, limit: float) -> Figure:
    return Figure(key=key, name=name, value=value, limit=limit, unit="share", brief=True)


def _tokens(found: Verification, limits: Mapping[str, float]) -> Iterator[Figure]:
    return _tokenizer("same_tokens", found.same_tokens, "texts")


def _tokenizer(key: str, same: int, unit: Unit) -> Iterator[Figure]:
    if same:
        yield Figure(key=key, name="tokenizer identical on", value=same, unit=unit, better="all", brief=True)


def _retrieval(found: Verification, limits: Mapping[str, float]) -> Iterator[Figure]:
    key, limit = "retrieval.recall", limits.get("max_retrieval_loss")
    if (task := found.retrieval) is None:
        if found.retrieval_missing or limit is not None:
            yield Figure(key=key, name="recall@10", value=None, limit=limit, missing=found.retrieval_missing)
        return
    name = f"recall@10, {task.queries:,} words among {task.glosses:,} glosses"
    yield Figure(key=key, name=name, value=task.recall, limit=limit, unit="loss", fp32=task.recall_fp32)
    yield Figure(key="retrieval.mrr", name="MRR of the same", value=task.mrr, unit="loss", fp32=task.mrr_fp32)
    yield Figure(
        key="retrieval.top10_agreement",
        name="ten nearest glosses in common",
        value=task.top10_agreement,
        unit="share",
    )


def _tasks(found: Verification, limits: Mapping[str, float]) -> Iterator[Figure]:
    for task in found.tasks:
        limit = limits.get(task.limit)
        if task.value is not None or limit is not None:
            yield Figure(
                key=f"tasks.{task.limit}",
                name=task.what,
                value=task.value,
                limit=limit,
                unit="loss",
                fp32=task.value_fp32,
                missing=task.missing,
                brief=not task.missing,
            )
