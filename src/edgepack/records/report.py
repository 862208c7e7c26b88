"""What was found of a finished bundle: vectors, sizes, costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from edgepack.records.model import FULL_PRECISION
from edgepack.records.runtime import LevelProof
from edgepack.records.word import HERE, Word

USUAL_TOKENS = 32
"""Of a text whose speed is shown."""


@dataclass(frozen=True, kw_only=True)
class Retrieval:
    """How well words find their glosses: the bundle's own vectors beside the full-precision model's."""

    glosses: int
    queries: int
    recall: float
    """Share of the words whose gloss is among the ten nearest."""
    recall_fp32: float
    mrr: float
    """Mean of 1 / rank of the right gloss."""
    mrr_fp32: float
    top10_agreement: float
    """Share of a word's ten nearest glosses that are the same ones as for fp32."""


@dataclass(frozen=True, kw_only=True)
class TaskFigure:
    """Figure of the vectors in a task of real texts, beside the full-precision model's."""

    limit: str
    """Key of a target: what of ``value_fp32`` may be lost."""
    what: str
    """In words, e.g. ``Spearman on …``."""
    value: float | None
    """``None``: not measured."""
    value_fp32: float | None
    missing: str = ""
    """Why it was not measured."""


@dataclass(frozen=True, kw_only=True)
class LengthFigure:
    """Vectors cut to a length that the model was trained for (Matryoshka), beside the full-precision model's."""

    dimension: int
    mean_cosine: float
    min_cosine: float
    neighbour_agreement: float
    top10_agreement: float


@dataclass(frozen=True, kw_only=True)
class Scores:
    """A reranker's or a classifier's scores beside the full-precision model's."""

    texts: int
    """Pairs of a query and a text, or texts."""
    tau: float
    """Kendall's tau-b of all scores, of a classifier of those of the best labels: 1, the same order."""
    kept: float
    """Share of the queries whose best text, or of the texts whose best label, is the same one."""
    largest: float
    """Largest difference of a score."""
    error: float | None = None
    """Root mean square of the differences, as a share of how far the reference's scores spread; the larger of that of all texts and
    that of those which are longer than the model takes. ``None``: not measured."""
    drawn_error: float | None = None
    """The same of texts that were drawn for one verification; ``None``: none were."""
    same_pairs: int = 0
    """Pairs whose tokens are the same as Hugging Face's; 0: not compared."""


@dataclass(frozen=True, kw_only=True)
class OutputFigures:
    """Sparse vectors, or vectors of tokens, beside the full-precision model's; texts rank by dot products, or by MaxSim."""

    name: Literal["sparse", "multi_vector"]
    texts: int
    tau: float
    """Kendall's tau-b of the scores of 1,000 pairs of texts: 1, the same order."""
    kept: float
    """Share of the queries whose best text is the same one."""
    agree: float
    """Sparse: share of tokens, those above a tenth of the text's largest weight, that both have; otherwise the mean cosine of tokens'
    vectors."""
    largest: float
    """Largest difference of a weight, or of a number of a vector."""
    error: float | None = None
    """Length of all differences, as a share of the length of all the reference's numbers; the larger of that of all texts and that
    of those which are longer than the model takes. ``None``: not measured."""
    drawn_error: float | None = None
    """The same of texts that were drawn for one verification; ``None``: none were."""


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """Vectors of texts that were drawn for one verification, beside the full-precision model's."""

    texts: int
    seed: int
    """``edgepack verify --seed`` draws the same texts again."""
    mean_cosine: float
    min_cosine: float


@dataclass(frozen=True, kw_only=True)
class Verification:
    """How near the bundle's vectors are to those of the model that it was made from."""

    status: Literal["passed", "failed", "not verified"]
    reason: str = ""
    """Why not passed."""
    against: str = FULL_PRECISION
    """Precision of the reference: ``fp32``, or that of the source if the source was already quantized, such as ``int8``."""
    texts: int = 0
    mean_cosine: float = 0.0
    p1_cosine: float = 0.0
    """First percentile."""
    min_cosine: float = 0.0
    neighbour_agreement: float = 0.0
    """Share of the texts whose nearest other text is the same one as for fp32."""
    top10_agreement: float = 0.0
    """Share of a text's ten nearest other texts that are the same ones as for fp32."""
    batch_cosine: float | None = None
    """Lowest cosine between a text's vectors alone and in a batch of 32; ``None``: not measured."""
    long_cosine: float | None = None
    """Lowest cosine of texts that are longer than the model takes, which its program cuts; ``None``: not measured."""
    long_tokens: int = 0
    """Tokens of the longest text that was asked, where the model takes more; 0: ``long_cosine`` is of longer texts than it takes."""
    prompt_cosine: float | None = None
    """Lowest cosine of a text after each of the model's prompts; ``None``: it has none, or the program puts none."""
    shorter_cosine: float | None = None
    """Lowest cosine of vectors that the program cut to each of ``lengths``, to its whole ones, cut as the model wants it; ``None``: there are
    none, or the program cuts none."""
    length_error: float | None = None
    """Largest difference of a vector's length from the reference's, as a share of it; ``None``: the model gives vectors of length 1, or
    scores or other outputs, which have figures of their own."""
    drawn: Drawn | None = None
    """Of texts that nobody knew before: for bundles that were made elsewhere."""
    on: str = ""
    """The device that it was run on, by a record of it; empty: the machine that verified."""
    levels: tuple[str, ...] = ()
    """CPU levels that a bundle from elsewhere, or on a device, ran at, beside this processor's own."""
    said: tuple[str, ...] = ()
    """What the manifest says of a bundle from elsewhere that nothing here could compare, ``KEY VALUE`` each."""
    scores: Scores | None = None
    """Of rerankers and classifiers; the figures above are then of the vectors that the last layer takes."""
    outputs: tuple[OutputFigures, ...] = ()
    """Of what a model gives beside, or in the place of, one vector per text."""
    retrieval: Retrieval | None = None
    retrieval_missing: str = ""
    """Why retrieval was not measured although the gate requires it."""
    tasks: tuple[TaskFigure, ...] = ()
    """Tasks of the full gate beside retrieval."""
    lengths: tuple[LengthFigure, ...] = ()
    """Shorter vectors, longest first, if the model names their lengths."""
    processor_cosine: float | None = None
    """Lowest cosine to the vectors that another processor made of the same texts; ``None``: not compared."""
    same_tokens: int = 0
    """Texts for which the bundle's tokenizer gives the same tokens as Hugging Face's; 0: the bundle has no tokenizer of its own."""
    cosines: tuple[float, ...] = ()
    """Of each text, to five digits, in the order of the texts."""
    limits: Mapping[str, float] = field(default_factory=dict)
    """Limits that applied, by the key of a target, e.g. ``min_cosine``; without limits that require nothing."""


@dataclass(frozen=True, kw_only=True)
class PartSize:
    """One part of a bundle; all figures in bytes."""

    name: str
    files: int
    raw: int
    gzip: int
    brotli: int
    zstd: int


@dataclass(frozen=True, kw_only=True)
class Visit:
    """Bytes of one visit to a bundle that is served as files."""

    name: str
    """``cold``: nothing is in the visitor's cache; ``warm``: everything is."""
    files: int
    raw: int
    gzip: int
    brotli: int


@dataclass(frozen=True, kw_only=True)
class Tier:
    """A step of a price list."""

    up_to: float
    """Upper end of the tier, in GB per month; infinite for the last tier."""
    price: float
    """Per GB, in the provider's currency."""


@dataclass(frozen=True, kw_only=True)
class PriceList:
    """Prices of one provider for traffic to the internet."""

    name: str
    dated: str
    currency: str
    tiers: tuple[Tier, ...]
    """Ascending; the last has no upper end."""
    gigabyte: int = 10**9
    """Bytes that the provider bills as one GB."""
    service: str = ""
    source: str = ""
    """Where the prices were read."""


@dataclass(frozen=True, kw_only=True)
class DownloadCost:
    """Cost of sending the archive, or a package, to a number of devices, by one price list."""

    provider: str
    dated: str
    currency: str
    devices: int
    bytes_total: int
    amount: float


@dataclass(frozen=True, kw_only=True)
class PackageSize:
    """A form of the bundle beside its archive."""

    form: str
    file: str
    size: int
    """Bytes."""
    costs: tuple[DownloadCost, ...] = ()
    """Costs if devices download this form instead of the archive."""


@dataclass(frozen=True, kw_only=True)
class Section:
    """A plugin's section of the report."""

    name: str
    title: str
    rows: tuple[tuple[str, str], ...]
    """A label and a value each."""


@dataclass(frozen=True, kw_only=True)
class BuildInfo:
    """When and where a bundle was made. This is not part of the bundle, whose bytes do not depend on it."""

    at: str
    """Time in UTC, ISO 8601."""
    machine: str
    """Processor and system."""
    settings: tuple[str, ...] = ()
    """``KEY=VALUE`` that changed keys of the target's file."""
    budget: int | None = None
    """Largest download that the target allows, in bytes."""


@dataclass(frozen=True, kw_only=True)
class Speed:
    """Speed of the bundle's program on a machine, as its own ``--bench`` says."""

    threads: int
    tokens: int
    """Of each text: the length nearest to ``USUAL_TOKENS`` that was measured."""
    texts_per_second: float
    peak_mb: float | None = None
    """Memory at its highest; ``None``: the system does not tell the program."""


@dataclass(frozen=True, kw_only=True)
class LengthMemory:
    """Memory for one text of a length."""

    tokens: int
    peak: int
    """Bytes, at most at once."""


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Memory that the bundle's program takes: most bytes resident at once, pages of its files included."""

    budget: int
    """Bytes that the target allows, under which the worst case ran."""
    threads: int
    tokens: int
    """Of the longest text of the worst case."""
    enforced_by: str = ""
    """What held the program to the budget; empty: nothing did, for it was not measured."""
    reason: str = ""
    """Why it was not measured."""
    one_text: int = 0
    batch: int = 0
    """For 32 texts at once."""
    worst: int = 0
    """Texts of all scripts and the longest ones, on all threads, in the largest batches."""
    lengths: tuple[LengthMemory, ...] = ()
    """One text on one thread, by its length."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """The size of a bundle and the cost of its downloads."""

    bundle: str
    target: str
    parts: tuple[PartSize, ...]
    archive_bytes: int | None
    costs: tuple[DownloadCost, ...]
    verification: Verification
    notes: Sequence[str] = field(default=())
    warnings: Sequence[str] = field(default=())
    """Properties of the model that were guessed, or set against the model's files."""
    digest: str = ""
    """SHA-256 of the bundle that was measured, as ``bundle.manifest.digest`` says it."""
    proofs: tuple[LevelProof, ...] = ()
    packages: tuple[PackageSize, ...] = ()
    checks: tuple[str, ...] = ()
    """Names of the checks between model and runtime that passed when the bundle was built."""
    sections: tuple[Section, ...] = ()
    """Sections of plugins."""
    prices: tuple[PriceList, ...] = ()
    """Price lists for the costs."""
    about: tuple[tuple[str, str], ...] = ()
    """Facts of the manifest on model, runtime and program: a label and a value each."""
    source_bytes: int = 0
    """Size of the model's original files, in bytes."""
    visits: tuple[Visit, ...] = ()
    """For a bundle that is served as files: downloads per visit, the cold visit first."""
    made: BuildInfo | None = None
    """``None``: not recorded."""
    memory: Memory | None = None
    """``None``: the target has no budget for it, and it was not measured."""
    speed: Speed | None = None
    """On the machine that built it, which was asked to measure it; ``None``: not measured."""
    said_by: Word = HERE
    """Whose word the verification and all else is that was not measured now."""

    @property
    def raw_bytes(self) -> int:
        return sum(part.raw for part in self.parts)

    @property
    def download_bytes(self) -> int | None:
        """Bytes that one device downloads: the archive, or a cold visit under brotli."""
        return self.visits[0].brotli if self.visits else self.archive_bytes
