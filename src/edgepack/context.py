"""What a step may ask of the host while it works."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from edgepack.files.store import Store

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Extension:
    """Something that a plugin brings for one axis, e.g. a pass."""

    name: str
    summary: str
    plugin: str
    identity: str
    """Distribution, version and revision: part of the keys of what it makes. Empty for edgepack's own, whose keys have
    edgepack's version."""
    make: Callable[..., Any]
    """What acts, of what the axis gives it; ``PluginError`` when the plugin fails to give it."""
    max_tokens: Callable[[Mapping[str, Any]], int | None] | None = None
    """Of a plugin's architecture: the tokens that a model with a config.json takes, if the plugin knows better; raises likewise."""
    package: str = ""
    """What is imported of the plugin."""


class Brought(dict[str, T]):
    """Extensions for an axis, by name; and the broken plugins, each with the reason: they may have brought others."""

    def __init__(self, found: Mapping[str, T], broken: Sequence[str]) -> None:
        super().__init__(found)
        self.broken = tuple(broken)


def perhaps_broken(known: Mapping[str, object]) -> str:
    """For the end of a hint, where a name is not among those known: plugins that may have brought it; or nothing."""
    broken = getattr(known, "broken", ())
    return f"; a broken plugin may have brought it: {', '.join(broken)}" if broken else ""


class Progress(Protocol):
    """A bar on a terminal, plain lines elsewhere."""

    def advance(self, amount: int = 1) -> None:
        """That much more is done, in the unit of ``total``."""


class BuildContext(Protocol):
    """All that a builder gets of the host."""

    @property
    def work_dir(self) -> Path:
        """A folder for this build alone, removed afterwards."""

    @property
    def offline(self) -> bool:
        """Whether nothing may be fetched."""

    @property
    def store(self) -> Store:
        """The cache; ``store.cached(kind, inputs, make)`` for what is slow to make."""

    def extensions(self, axis: str) -> Mapping[str, Extension]:
        """Extensions of the installed plugins, and of edgepack itself, for an axis such as ``pass``, by name."""

    def run(
        self,
        command: Sequence[str | Path],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        input: str | None = None,
        log_file: Path | None = None,
        timeout: float | None = None,
        largest_file: int | None = None,
    ) -> str:
        """Run a program and return its standard output; raises ``ToolError`` or ``MissingToolError``.

        ``timeout`` is in seconds; ``largest_file``: bytes that each file may have that it writes.
        """

    def download(self, url: str, *, sha256: str) -> Path:
        """A file, fetched once and kept in the store; raises ``DownloadError`` or ``HashMismatchError``."""

    def progress(
        self, label: str, total: int | None = None, *, unit: str = "", before: str = ""
    ) -> AbstractContextManager[Progress]:
        """Show long work: ``with context.progress("compile", 207, unit="files") as bar: bar.advance()``; ``before`` is said beforehand."""

    def note(self, message: str) -> None:
        """Say in a few words what the running step did; shown on its line."""

    def warn(self, message: str) -> None:
        """Say aloud, on a line of its own, what may be wrong with what is made."""
