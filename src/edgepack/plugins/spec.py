"""What a plugin registers: a spec for each thing that it brings, of one shape for every axis; and what acts for builders."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from edgepack.context import BuildContext
from edgepack.options import OptionTable
from edgepack.records.bundle import Bundle, RunnerArtifact
from edgepack.records.model import ModelSource, PreparedModel, RemoteModel
from edgepack.records.runtime import RuntimeArtifact
from edgepack.records.target import Target

if TYPE_CHECKING:
    import onnx

    from edgepack.models.graph.writer import GraphWriter, TokenVectors
    from edgepack.models.read.safetensors import TensorFile
    from edgepack.records.recipe import Note


@dataclass(frozen=True, kw_only=True)
class Interfaces:
    """The plugin interfaces of an axis that this edgepack speaks: the newest, and for one release the one before it."""

    oldest: int = 2
    newest: int = 2
    ends: str = ""
    """The release of edgepack that no longer speaks the oldest, where that is not the newest."""


INTERFACES: Mapping[str, Interfaces] = {
    "builder": Interfaces(),
    "platform": Interfaces(),
    "pass": Interfaces(),
    "recipe": Interfaces(),
    "package": Interfaces(),
    "checks": Interfaces(),
    "report": Interfaces(),
    "prices": Interfaces(),
    "source": Interfaces(),
    "architecture": Interfaces(),
}
"""By axis: what plugins can bring."""

SCHEME = re.compile(r"(?!catalogue$)[a-z][a-z0-9+.-]+")
"""What a source may be called; ``catalogue:`` is trusted, for its models are pinned by edgepack."""


class TargetBuilder(Protocol):
    """Makes the parts of one bundle. The host matches, assembles, runs, proves, verifies and measures them."""

    def prepare_model(self, source: ModelSource) -> PreparedModel:
        """Quantize the model; its ``needs`` are those of the file as it will be shipped, ``None`` where it is no ONNX graph."""

    def provide_runtime(self, model: PreparedModel) -> RuntimeArtifact | None:
        """A runtime whose ``provides`` covers ``model.needs``, which the host checks; ``None``: the runner is all there is."""

    def make_runner(self, model: PreparedModel, runtime: RuntimeArtifact | None) -> RunnerArtifact:
        """A folder with the program that turns text into vectors on the device, and the command that the host runs."""


class Transform(Protocol):
    """A pass: one step of a recipe.

    Its parameters are keyword-only, with a type (``bool``, ``int``, ``float``, ``str``, a ``Literal``, ``tuple[str, ...]``)
    and a default each: a recipe's values are checked against them. A third positional parameter ``material`` gets what there
    is beside the graph: the source, calibration texts, the device's instruction sets.
    """

    def __call__(
        self, model: onnx.ModelProto, note: Note, /, *args: Any, **parameters: Any
    ) -> onnx.ModelProto:
        """The changed model, which may be the same object; ``note`` says in a few words what was done."""


class Packager(Protocol):
    """Makes one form of package of a target's finished bundle: one file, which holds the bundle's folder, manifest and all, as it is.

    A spec's ``make`` gets the target, before anything is built, and raises ``UsageError`` where there is no such package of it: of
    its platform, or its ``version``. The host opens what was made and compares the bundle in it, so the file is an archive that edgepack reads: tar under any
    of its compressions, zip (``.whl`` is one), or Debian's.
    """

    def file_name(self, bundle: Bundle) -> str:
        """What the file is called."""

    def pack(self, bundle: Bundle, destination: Path, *, context: BuildContext) -> None:
        """Write the file; the same bundle and target give the same bytes. Raises ``UsageError`` for what fits in no such package."""


class Source(Protocol):
    """A place that models come from: what ``--model SCHEME:…`` asks, for one scheme."""

    def find(self, address: str, *, context: BuildContext) -> RemoteModel:
        """What lies at an address now, and at which revision. Nothing is fetched yet but what it takes to know that.

        Called only when something may be fetched: offline, the host takes what was found last. Raises ``ModelError`` for an
        address that is invalid, ``DownloadError`` for one that cannot be reached.
        """


class Architecture(Protocol):
    """Writes the graph of one kind of model from its configuration and weights."""

    def __call__(
        self, config: Mapping[str, Any], weights: TensorFile, writer: GraphWriter, /
    ) -> TokenVectors:
        """Write the encoder, which makes token vectors, float32 [batch, sequence, hidden].

        The graph's inputs are ``input_ids``, ``attention_mask`` and ``token_type_ids``, int64 [batch, sequence], of which it
        takes those that it needs. Pooling and normalisation are the host's. Raises ``UnsupportedModelError`` for a model of
        this kind that it cannot write.
        """


def no_options() -> OptionTable:
    """For builders that do not say which options they take."""
    return {}


def nothing_missing(target: Target) -> Iterable[str]:
    """For builders that need no tool of the host."""
    return ()


def nothing_to_fetch(target: Target, context: BuildContext) -> None:
    """For builders that need nothing but the model."""


@dataclass(frozen=True, kw_only=True)
class Spec:
    """One thing that a plugin brings: what its ``edgepack_specs`` hook returns. Registering is light, ``make`` may be heavy."""

    axis: str
    """What kind of thing it is, one of ``INTERFACES``."""
    name: str
    """Of a builder: what a target's ``builder`` says; of a platform: what its ``platform.os`` says; of a recipe: what its
    ``model.recipe`` says; of a pass: what a recipe's ``pass`` says; of a package: what ``package.formats`` and ``--as`` say;
    of a source: the scheme of its addresses, e.g. ``s3``; of an architecture: ``model_type`` in config.json."""
    summary: str
    make: Callable[..., Any]
    """Of a builder: ``(Target, BuildContext) -> TargetBuilder``, which checks ``target.options``; of a platform:
    ``() -> RuntimePlatform``, for the commands that make runtimes by themselves; of a pass: ``() -> Transform``; of a recipe:
    ``() -> [{"pass": NAME, PARAMETER: VALUE, …}, …]``; of a package: ``(Target) -> Packager``; of a source:
    ``() -> Source``; of an architecture: ``() -> Architecture``; of checks: ``() -> Check``; of a report: ``() -> ReportRows``; of prices:
    ``()``, a TOML file. Heavy imports happen in here."""
    options: Callable[[], OptionTable] = no_options
    """What ``[options]`` of a target may say, as ``read_options`` takes it: `edgepack bundle` takes these as flags, too
    (``--some-folder FOLDER`` for ``--set some_folder=FOLDER``)."""
    formats: tuple[str, ...] = ()
    """Of a builder: what ``model.format`` of its targets may say beside ``onnx``, ``ort`` and ``ort-runtime-opt``: words for formats
    of its own, which it makes of a model that ``prepare_model`` made in one of these."""
    missing: Callable[[Target], Iterable[str]] = nothing_missing
    """Names of tools that a build would miss on this host; called by ``edgepack targets``, so it must be quick."""
    fetch: Callable[[Target, BuildContext], None] = nothing_to_fetch
    """Fetches what a build needs beside the model, for ``edgepack fetch``."""
    next_step: str = ""
    """A command to try the finished bundle with, ``{bundle}`` for its folder; empty: its program, with a text."""
    revision: str = "1"
    """Of a pass or an architecture: changes whenever it would make another model than before. It is part of the keys of exported
    and prepared models."""
    api: int = 2
    """The plugin interface that the plugin was written for. Whoever does not say wrote for 2, whatever edgepack speaks."""


def lazy(reference: str) -> Callable[..., Any]:
    """A function that is imported when it is first called, e.g. ``lazy("edgepack_linux.builder:create_builder")``.

    What is named may also be a class, or the very value that a call is to give, e.g. ``lazy("edgepack_linux.builder:OPTIONS")``.
    """
    module, _, name = reference.partition(":")

    def call(*arguments: Any) -> Any:
        found = getattr(import_module(module), name)
        return found(*arguments) if callable(found) else found

    return call
