"""What a plugin registers: a spec for each thing that it brings, of one shape for every axis; and what acts for builders."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from edgepack.context import BuildContext
from edgepack.files.shared import BlobStore
from edgepack.options import OptionTable
from edgepack.records.bundle import Bundle, RunnerArtifact
from edgepack.records.model import ModelSource, PreparedModel, RemoteModel
from edgepack.records.runtime import RuntimeArtifact
from edgepack.records.target import Target

if TYPE_CHECKING:
    import onnx

    from edgepack.records.recipe import Note


@dataclass(frozen=True, kw_only=True)
class Interfaces:
    """Versions of an axis's plugin interface that this edgepack supports: the newest and, for one release, the one before."""

    oldest: int = 2
    newest: int = 2
    ends: str = ""
    """If ``oldest`` is not ``newest``: the first release of edgepack that no longer supports ``oldest``."""


AXES = (
    *("builder", "platform", "pass", "recipe", "package", "checks", "report"),
    *("prices", "source", "architecture", "store", "executor", "device"),
)
INTERFACES: Mapping[str, Interfaces] = {axis: Interfaces() for axis in AXES}
"""Supported interface versions, by axis."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
"""Valid names of whatever a plugin brings: words of a command line."""
SCHEME = re.compile(r"(?!catalogue$)[a-z][a-z0-9+.-]+")
"""Valid names of a source. ``catalogue:`` is reserved: it is trusted, because edgepack pins its models."""


class TargetBuilder(Protocol):
    """Makes the parts of one bundle. The host matches, assembles, runs, proves, verifies and measures them.

    It may have an attribute ``outputs``, a tuple of what its programs give beside vectors, of ``scores``, ``sparse`` vectors and what ``tokens`` have:
    other models are then rejected before anything is made. Without it, the runner's ``outputs`` says it at the end.

    It may have a method ``require_model(source)`` that raises ``UnsupportedModelError`` for a model of which it can make no bundle. It takes
    seconds at most, and decides as the three steps do: `edgepack inspect` asks it, and `edgepack bundle` before anything is made.
    """

    def prepare_model(self, source: ModelSource) -> PreparedModel:
        """Quantize the model; ``needs`` describes the file as it will be shipped, and is ``None`` if that is no ONNX graph."""

    def provide_runtime(self, model: PreparedModel) -> RuntimeArtifact | None:
        """Return a runtime whose ``provides`` covers ``model.needs`` (the host checks this), or ``None`` if the runner needs no runtime."""

    def make_runner(self, model: PreparedModel, runtime: RuntimeArtifact | None) -> RunnerArtifact:
        """Return a folder with the program that turns texts into vectors on the device, and the command that the host runs."""


class Transform(Protocol):
    """A pass: one step of a recipe.

    Its parameters are keyword-only, with a type (``bool``, ``int``, ``float``, ``str``, a ``Literal``, ``tuple[str, ...]``)
    and a default each: a recipe's values are checked against them. A third positional parameter ``material`` receives
    the other inputs: the source, calibration texts, the device's instruction sets.
    """

    def __call__(
        self, model: onnx.ModelProto, note: Note, /, *args: Any, **parameters: Any
    ) -> onnx.ModelProto:
        """Return the changed model, which may be the same object. Call ``note`` with a few words on what was changed."""


class Packager(Protocol):
    """Makes one package form of a finished bundle: one file that contains the bundle's folder, with its manifest, unchanged.

    A spec's ``make`` receives the target before anything is built. It raises ``UsageError`` if the target's platform or ``version``
    does not allow this form. The host opens the file and compares the bundle in it; the file must therefore be an archive that edgepack
    reads: tar with any compression, zip (such as ``.whl``, also behind a program), or a Debian package.
    """

    def file_name(self, bundle: Bundle) -> str:
        """Return the name of the file."""

    def pack(self, bundle: Bundle, destination: Path, *, context: BuildContext) -> None:
        """Write the file; the same bundle and target give the same bytes. Raises ``UsageError`` if this form cannot hold the bundle."""


class Source(Protocol):
    """Finds and fetches the models of one address scheme, ``--model SCHEME:…``."""

    def find(self, address: str, *, context: BuildContext) -> RemoteModel:
        """Find out which model an address names now, and its revision. Download only what this requires.

        The host does not call this offline; it uses the last result instead. Raises ``ModelError`` for an
        address that is invalid, ``DownloadError`` for one that cannot be reached.
        """


class OpenStore(Protocol):
    """Opens the stores of one address scheme, which many machines share."""

    def __call__(self, url: str, /) -> BlobStore:
        """Return the store at an address; nothing needs to be there yet. Raises ``UsageError`` for an address that is none."""


class StartExecutor(Protocol):
    """Starts what makes a project's bundles elsewhere."""

    def __call__(self, scheduler: str | None, jobs: int | None, /) -> AbstractContextManager[Executor]:
        """Return workers at an address, or for ``None`` where it finds some; they stop, or are let go, when the block ends.

        The host submits a function of edgepack and a picklable order for each bundle. The workers have this version of edgepack, reach
        the models by the same names, and share a store with the host. A bundle whose future raises fails alone.
        Raises ``UsageError`` for an address where nothing answers.
        """


class Transport(Protocol):
    """A way to a device. All that is done there is done by lines that its shell runs; the host writes the lines."""

    def words(self, line: str, /) -> Sequence[str | Path]:
        """Return a program of this host and its arguments that have the device's shell run a line.

        The line's standard input, output and error are the program's. Nothing is asked of a person: a way that needs a password fails.
        """

    def close(self) -> None:
        """Let go of what the way holds open. Called once, whatever happened before."""


class OpenDevice(Protocol):
    """Opens the ways to the devices of one address scheme, ``edgepack verify --on SCHEME:…``."""

    def __call__(self, address: str, /, *, context: BuildContext) -> Transport:
        """Return the way to the device at an address, which need not be there. Raises ``UsageError`` for an address that is none,
        ``MissingToolError`` where a program is missing here.
        """


def no_options() -> OptionTable:
    """For builders that do not say which options they take."""
    return {}


def nothing_missing(target: Target) -> Iterable[str]:
    """For builders that need no tool of the host."""
    return ()


def nothing_to_fetch(target: Target, context: BuildContext) -> None:
    """For builders that need nothing but the model."""


def nothing_said(config: Mapping[str, Any]) -> int | None:
    """For architectures whose config.json says it as others do."""
    return None


@dataclass(frozen=True, kw_only=True)
class Spec:
    """One thing that a plugin adds; its ``edgepack_specs`` hook returns these. Registering must be fast, ``make`` may be slow."""

    axis: str
    """Its axis, one of ``INTERFACES``."""
    name: str
    """The name that selects it. Of a builder: a target's ``builder``; of a platform: ``platform.os``; of a recipe:
    ``model.recipe``; of a pass: a recipe's ``pass``; of a package: ``package.formats`` and ``--as``;
    of a source: the scheme of its addresses, e.g. ``s3``; of an architecture: ``model_type`` in config.json; of a store: the scheme of its
    address; of an executor: `edgepack build --executor`; of a device: the scheme of `edgepack verify --on`."""
    summary: str
    make: Callable[..., Any]
    """Of a builder: ``(Target, BuildContext) -> TargetBuilder``, which checks ``target.options``; of a platform:
    ``() -> RuntimePlatform``, for the commands that make runtimes by themselves; of a pass: ``() -> Transform``; of a recipe:
    ``() -> [{"pass": NAME, PARAMETER: VALUE, …}, …]``; of a package: ``(Target) -> Packager``; of a source:
    ``() -> Source``; of an architecture: ``() -> Architecture``; of checks: ``() -> Check``; of a report: ``() -> ReportRows``; of prices:
    ``()``, a TOML file; of a store: ``() -> OpenStore``; of an executor: ``() -> StartExecutor``; of a device: ``() -> OpenDevice``. Heavy imports happen in here."""
    options: Callable[[], OptionTable] = no_options
    """Keys that a target's ``[options]`` may have, as ``read_options`` takes them. `edgepack bundle` also accepts them as flags
    (``--some-folder FOLDER`` for ``--set some_folder=FOLDER``)."""
    formats: tuple[str, ...] = ()
    """Of a builder: values of ``model.format`` that its targets may have besides ``onnx``, ``ort`` and ``ort-runtime-opt``. They name
    the builder's own formats, which it makes from a model that ``prepare_model`` made in one of these three."""
    missing: Callable[[Target], Iterable[str]] = nothing_missing
    """Returns the names of tools that a build requires and this host lacks. ``edgepack targets`` calls it, so it must be fast."""
    fetch: Callable[[Target, BuildContext], None] = nothing_to_fetch
    """Downloads what a build requires besides the model, for ``edgepack fetch``."""
    next_step: str = ""
    """A command that tries the finished bundle; ``{bundle}`` stands for its folder. Empty: the bundle's program with a text."""
    revision: str = "1"
    """Of a pass or an architecture: change it whenever the code would make another model than before. It is part of the cache keys of
    exported and prepared models."""
    max_tokens: Callable[[Mapping[str, Any]], int | None] = nothing_said
    """Of an architecture: ``(config) -> tokens`` that such a model can take at most, special ones included, where config.json does not say it as
    ``max_position_embeddings`` or ``n_positions``, or says it otherwise. ``None``: as config.json says it."""
    api: int = 2
    """Version of the plugin interface that the plugin was written for. A plugin that does not set it was written for 2."""


def lazy(reference: str) -> Callable[..., Any]:
    """A function that is imported when it is first called, e.g. ``lazy("edgepack_linux.builder:create_builder")``.

    What is named may also be a class, or the very value that a call is to give, e.g. ``lazy("edgepack_linux.builder:OPTIONS")``.
    """
    module, _, name = reference.partition(":")

    def call(*arguments: Any) -> Any:
        found = getattr(import_module(module), name)
        return found(*arguments) if callable(found) else found

    return call
