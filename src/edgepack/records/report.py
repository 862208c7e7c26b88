"""What was found of a finished bundle: vectors, sizes, costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from edgepack.records.model import FULL_PRECISION
from edgepack.records.runtime import LevelProof


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
class Verification:
    """How near the bundle's own vectors are to those of the model that it was made from."""

    status: Literal["passed", "failed", "not verified"]
    reason: str = ""
    """Why not passed."""
    against: str = FULL_PRECISION
    """The precision of what the vectors are compared with: ``int8`` and the like where the source was quantized already."""
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
    retrieval: Retrieval | None = None
    retrieval_missing: str = ""
    """Why retrieval was asked for and not measured."""
    processor_cosine: float | None = None
    """Lowest cosine to the vectors that another processor made of the same texts; ``None``: not compared."""
    same_tokens: int = 0
    """Texts of which the bundle's own tokenizer makes the tokens that Hugging Face's makes; 0: it has none of its own."""
    cosines: tuple[float, ...] = ()
    """Of each text, to five digits, in the order of the texts."""
    limits: Mapping[str, float] = field(default_factory=dict)
    """What it was held to, by the key of a target, e.g. ``min_cosine``; without those that ask for nothing."""


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
    """What one visit to a bundle that is served as files takes; all figures in bytes."""

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
    """GB in a month up to which, from the tier below, this price holds; infinite for the last."""
    price: float
    """Per GB, in the provider's currency."""


@dataclass(frozen=True, kw_only=True)
class PriceList:
    """What one provider asks for traffic to the internet."""

    name: str
    dated: str
    currency: str
    tiers: tuple[Tier, ...]
    """Ascending, the last without limit."""
    gigabyte: int = 10**9
    """Bytes that the provider bills as one GB."""
    service: str = ""
    source: str = ""
    """Where the prices were read."""


@dataclass(frozen=True, kw_only=True)
class DownloadCost:
    """What it costs to send the archive, or a package, to a number of devices, by one price list."""

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
    """Of this form in the archive's stead."""


@dataclass(frozen=True, kw_only=True)
class Section:
    """What a plugin says of a bundle."""

    name: str
    title: str
    rows: tuple[tuple[str, str], ...]
    """A label and a value each."""


@dataclass(frozen=True, kw_only=True)
class Made:
    """When and where a bundle was made: no part of the bundle, whose bytes depend on neither."""

    at: str
    """In UTC, as ISO 8601 says it."""
    machine: str
    """Processor and system."""
    settings: tuple[str, ...] = ()
    """``KEY=VALUE`` that were set beside the target's file."""
    budget: int | None = None
    """Bytes that a device may download at most, by the target."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a bundle weighs and what its downloads cost."""

    bundle: str
    target: str
    parts: tuple[PartSize, ...]
    archive_bytes: int | None
    costs: tuple[DownloadCost, ...]
    verification: Verification
    notes: Sequence[str] = field(default=())
    warnings: Sequence[str] = field(default=())
    """What of the model was guessed, or set against its own files."""
    digest: str = ""
    """SHA-256 of the bundle that was measured, as ``bundle.manifest.digest`` says it."""
    proofs: tuple[LevelProof, ...] = ()
    packages: tuple[PackageSize, ...] = ()
    checks: tuple[str, ...] = ()
    """Names of the checks of whether model and runtime fit that passed when it was built."""
    sections: tuple[Section, ...] = ()
    """Of plugins."""
    prices: tuple[PriceList, ...] = ()
    """What the costs were reckoned by."""
    about: tuple[tuple[str, str], ...] = ()
    """What the manifest says of model, runtime and program: a label and a value each."""
    source_bytes: int = 0
    """Of the model's files as they were found."""
    visits: tuple[Visit, ...] = ()
    """For a bundle that is served as files: what a visit takes, a cold one first."""
    made: Made | None = None
    """``None``: nobody wrote it down."""

    @property
    def raw_bytes(self) -> int:
        return sum(part.raw for part in self.parts)

    @property
    def download_bytes(self) -> int | None:
        """What one device downloads: the archive, or a cold visit under brotli."""
        return self.visits[0].brotli if self.visits else self.archive_bytes
