"""What a builder is: a spec that a plugin registers, and an object that acts, one method a step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from edgepack.context import BuildContext
from edgepack.options import OptionTable
from edgepack.records.bundle import Bundle, RunnerArtifact
from edgepack.records.model import ModelSource, PreparedModel
from edgepack.records.runtime import RuntimeArtifact
from edgepack.records.target import Target

API_VERSION = 1


class TargetBuilder(Protocol):
    """Makes the parts of one bundle. The host matches, assembles, verifies and measures them."""

    def prepare_model(self, source: ModelSource) -> PreparedModel:
        """Make the model small; its ``needs`` are those of the file as it will be shipped."""

    def provide_runtime(self, model: PreparedModel) -> RuntimeArtifact:
        """A runtime whose ``provides`` covers ``model.needs``; the host checks that."""

    def freeze_runner(self, model: PreparedModel, runtime: RuntimeArtifact) -> RunnerArtifact:
        """A folder with the program that turns text into vectors on the device."""

    def embed(self, bundle: Bundle, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """The vectors of the texts, float [len(texts), dimension], **as the bundle itself makes them**.

        Raises ``CannotRunHere(reason)`` on a host that cannot execute the bundle.
        """


def no_options() -> OptionTable:
    """For builders that do not say which options they take."""
    return {}


def nothing_missing(target: Target) -> Iterable[str]:
    """For builders that need no tool of the host."""
    return ()


@dataclass(frozen=True, kw_only=True)
class BuilderSpec:
    """A kind of bundle that can be made: what a plugin's ``edgepack_builders`` hook returns."""

    name: str
    """What a target's ``builder`` says."""
    summary: str
    create: Callable[[Target, BuildContext], TargetBuilder]
    """Checks ``target.options`` and returns the object that acts; heavy imports happen in here."""
    missing: Callable[[Target], Iterable[str]] = nothing_missing
    """Names of tools that a build would miss on this host; called by ``edgepack targets``, so it must be quick."""
    options: Callable[[], OptionTable] = no_options
    """What ``[options]`` of a target may say, as ``read_options`` takes it: `edgepack bundle` takes these as flags, too
    (``--tensorrt-home FOLDER`` for ``--set tensorrt_home=FOLDER``)."""
    fetch: Callable[[Target, BuildContext], None] | None = None
    """Fetches what a build needs beside the model, for ``edgepack fetch``; without it, ONNX Runtime's sources are fetched."""
    api: int = API_VERSION
    """The plugin interface that the plugin was written for."""
