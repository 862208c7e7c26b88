"""What reads and exports models with the architectures that are installed, for tests that have no context of their own."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from edgepack.console import Story
from edgepack.models.export import from_source
from edgepack.models.find import folder
from edgepack.models.find.decide import ModelRequest
from edgepack.plugins.context import HostContext, host_context
from edgepack.plugins.host import PluginHost, load_plugins
from edgepack.records.model import ModelSource


@cache
def _host() -> PluginHost:
    return load_plugins()


@contextmanager
def installed() -> Iterator[HostContext]:
    """A context that knows what is installed."""
    with host_context(story=Story(quiet=True), offline=True, host=_host()) as context:
        yield context


def export_onnx(source: ModelSource, destination: Path) -> Path:
    """The full-precision model as an ONNX file."""
    with installed() as context:
        return from_source.export_onnx(source, destination, context=context)


def read_folder(directory: Path, **said: Any) -> ModelSource:
    """The model in a folder."""
    with installed() as context:
        return folder.read_folder(directory, ModelRequest(**said), context=context)
