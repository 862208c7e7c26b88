"""What a bundle is for, as a target file says it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, Self

FORMATS = ("onnx", "ort", "ort-runtime-opt")
"""Of models that ONNX Runtime reads; a builder may have words of its own beside these (``Spec.formats``)."""

PoolingMode = Literal["mean", "cls", "max", "mean-sqrt-len", "weighted-mean", "last"]

GateLevel = Literal["off", "quick", "full"]

PROMPTED = ("query", "passage")
"""The purposes of a prompt, as ``embed --prefix`` knows them."""


@dataclass(frozen=True, kw_only=True)
class Platform:
    """The device: what the finished files may ask of it."""

    os: str
    arch: str
    """As ``platform.machine()`` says it: ``x86_64``, ``aarch64``, ``armv7l``."""
    glibc: str | None = None
    """Oldest C library of the device, e.g. ``"2.28"``."""
    libc: Literal["glibc", "musl"] | None = None
    """C library of the device; ``None``, where the target does not say: glibc on Linux, none elsewhere. Ask for ``libc == "musl"``,
    not for ``libc == "glibc"``."""
    isa: tuple[str, ...] = ()
    """Instruction sets that the device is known to have, e.g. ``("avx2",)``; empty: decided at run time."""
    branch_protection: bool = False
    """Whether returns and indirect branches are held to where they may lead, on devices whose processor can (arm64: PAC and BTI)."""
    has: tuple[str, ...] = ()
    """What devices have beside the bundle, and its program uses: absolute paths of files and folders, and names of programs that the
    runner's command begins with. Empty: the bundle is all that it needs."""


@dataclass(frozen=True, kw_only=True)
class Pass:
    """One step of a recipe: a registered pass with its parameters, or all steps of another recipe."""

    name: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    recipe: str = ""
    """The other recipe; there is no name then."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The user's settings for reading a model; they take precedence over the model's files."""

    pooling: PoolingMode | None = None
    normalize: bool | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)
    """Prompts by purpose; each replaces the prompt of the model's files for that purpose."""
    treat_as_embedding: bool = False
    """Accept a model that was made for another task, such as a reranker or a masked language model."""
    route: str | None = None
    """Of a model with several ways for texts (sentence-transformers' Router): the one to take, such as ``query`` or ``document``."""

    @property
    def said(self) -> dict[str, Any]:
        """The settings that differ from the default."""
        unset = Reading()
        return {key: value for key, value in vars(self).items() if value != getattr(unset, key)}

    def over(self, base: Self) -> Self:
        """These settings, completed by those of ``base``."""
        return replace(base, **{**self.said, "prompts": {**base.prompts, **self.prompts}})


UNSAID = Reading()
"""The user says nothing."""


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """How a target wants its model."""

    recipe: str | tuple[Pass, ...] = "int8"
    score_recipe: str | tuple[Pass, ...] | None = None
    """Of models with scores (rerankers, classifiers), or with sparse or multi-vector outputs alone, whose order takes more; ``None``: the same
    as for others."""
    format: str = "ort"
    """One of ``FORMATS``, or of its builder's own."""
    calibration: Path | None = None
    """The user's calibration texts, one per line, for passes that measure activations; ``None``: edgepack's own."""
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
    """The build fails when the cosine between a text's vectors alone and in a batch of 32 is lower than this."""
    min_long_cosine: float = 0.9
    """The build fails when a text that is longer than the model takes, or one after a prompt, has a lower cosine than this: it is cut
    elsewhere, or the prompt is another."""
    min_processor_cosine: float = 0.0
    """The build fails when another kind of processor gives a text a vector of a lower cosine to this one's than this."""
    max_retrieval_loss: float = 1.0
    """With ``gate = "full"``, the build fails when recall@10 is lower than fp32's by more than this (0.01: one in a hundred)."""
    max_sts_loss: float = 0.002
    """The same for Spearman's correlation on STSBenchmark's test set."""
    max_translation_loss: float = 0.01
    """The same for the share of translated lines that find the English one; of multilingual models."""
    pooling: PoolingMode | None = None
    normalize: bool | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)
    treat_as_embedding: bool = False
    route: str | None = None

    def for_scores(self) -> Self:
        """Options with the recipe of models with scores."""
        return replace(self, recipe=self.score_recipe or self.recipe, score_recipe=None)

    @property
    def reading(self) -> Reading:
        """How the model is to be read: the last five keys."""
        return Reading(**{each.name: getattr(self, each.name) for each in fields(Reading)})


@dataclass(frozen=True, kw_only=True)
class Target:
    """A kind of device, and what its bundle has to be: a TOML file, read and checked."""

    name: str
    summary: str
    builder: str
    platform: Platform
    model: ModelOptions
    download_budget: int | None = None
    """Bytes that the archive may have at most."""
    memory_budget: int | None = None
    """Bytes that the program may take at most on a device, its files included; ``None``: memory is not measured."""
    memory_threads: int = 4
    """Threads that devices start the program with at most: of the worst case that memory is measured for."""
    memory_length: int | None = None
    """Tokens of a text that devices ask for at most (``embed --max-length``); ``None``: all that the model takes."""
    packages: tuple[str, ...] = ()
    """Forms that the bundle is packed in, beside its archive."""
    version: str = "0.1.0"
    """Of the bundle and these packages."""
    module: Path | None = None
    """A module of the user's own, which the program runs around the model (``prepare`` and ``finish``); ``None``: none."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The builder's own options, unchecked: a builder's ``create`` checks them."""
    extra: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Plugins' own tables, unchecked: what stands in ``[x-NAME]``, by ``NAME``; in the manifest it is ``target.extra``."""
    best_for: str = ""
    """What people take it for, for lists of targets; empty: its summary says it."""
    origin: str = ""
    """The file or plugin that the target came from."""
    settings: tuple[str, ...] = ()
    """``KEY=VALUE`` that were set beside the file."""
