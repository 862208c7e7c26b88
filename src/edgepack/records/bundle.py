"""A runner, and the bundle that it goes into."""

import warnings
from collections.abc import Mapping
from dataclasses import InitVar, dataclass, field, replace
from pathlib import Path
from typing import Any

OWN_KINDS = ("native", "pyinstaller")
"""Of edgepack's own programs, as manifests name them."""


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Places of the other parts in a runner's folder, for a runner that cuts and renames them itself."""

    model: tuple[str, ...]
    """The model's pieces, in order."""
    tokenizer: str
    runtime: str
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
    """Licence texts of what is in it, for the bundle's LICENSES: files anywhere, best outside of ``directory``, all of which is laid
    into the bundle; a file's stem names the component."""
    library: str | None = None
    """Path of a library for other programs with the functions of libembed and kernels of its own: it is proved, too."""
    tokenizer: Path | None = None
    """The tokenizer as the program wants it, in the place of tokenizer.json."""
    module: str | None = None
    """Path of the user's own module (``Target.module``), which the program runs around the model."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """Path → part of the bundle, any word, for files that are not the runner's own; ``encoded``: a compressed copy of another
    file, named as that one with ``.br`` or ``.gz`` after it."""
    placement: Placement | None = None
    """For a runner whose folder holds model, tokenizer and runtime already."""
    check_at_start: bool = False
    """Whether the program compares the SHA-256 of model and tokenizer with the manifest's each time it starts."""
    serves: bool = False
    """Whether the program is a server, too: ``program serve``."""
    by_level: bool = False
    """Whether the program has kernels of its own for several levels of a processor, each of which is to be proved; those of a runtime
    are anyway."""
    exact: str = ""
    """The name of an arithmetic, another one whenever a bit of a vector becomes another: every processor and platform, any number of threads
    and any neighbours give the same bits. Empty where they do not. The manifest then has a digest of the golden texts' vectors."""
    twin: Path | None = None
    """With ``exact``: a program for this host of the same arithmetic, where no host runs the bundle's own. The digest is made with it."""
    outputs: tuple[str, ...] = ()
    """Outputs of the program beside vectors: ``scores`` (a reranker's or a classifier's), ``sparse`` vectors and what ``tokens`` have."""
    command: tuple[str, ...] | None = ()
    """What the host runs: it reads JSON lines, each with a ``text``, and writes one line each with its ``embedding``
    (docs/runner.md). A word that is a path in the bundle stands for that file; a first word that is none is a program of the
    host's (``node``). Empty: ``program --jsonl --out jsonl``. ``None``: no host can run it, and it is never verified."""
    gives: InitVar[tuple[str, ...]] = ()
    """``outputs`` as it was called before; edgepack 0.3 ends it."""

    def __post_init__(self, gives: tuple[str, ...]) -> None:
        if gives:
            warnings.warn(
                "RunnerArtifact(gives=…) is outputs=… now; edgepack 0.3 ends it",
                DeprecationWarning,
                stacklevel=3,
            )
            object.__setattr__(self, "outputs", gives)


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """The folder that a device gets. Everything else about it is in its manifest."""

    directory: Path
    manifest: Mapping[str, Any]
    archive: Path | None = None

    @property
    def name(self) -> str:
        return str(self.manifest["name"])

    def absolute(self) -> "Bundle":
        """Bundle with an absolute path, in whatever folder a plugin works: what a user wrote as ``-o dist`` is relative."""
        archive = self.archive and self.archive.absolute()
        return replace(self, directory=self.directory.absolute(), archive=archive)

    @property
    def system(self) -> str:
        """The operating system of the devices, as targets name it."""
        return str(self.manifest["target"].get("platform", {}).get("os", "linux"))

    @property
    def program(self) -> Path:
        """The runner, absolute."""
        return self.directory.absolute() / str(self.manifest["runner"]["program"])
