"""A runtime, what it holds, and what was proved of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from edgepack.records.operators import Operators

ONNX_RUNTIME = "ONNX Runtime"

RuntimeKind = Literal["minimal", "minimal-extended", "full"]


Levels = Literal["here", "all"]
"""Kinds of processors that a runtime is proved for. ``here``: this processor's and, with it, those below. ``all``: also
what an emulator can show, which is fetched where there is none."""


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
class Fit:
    """Result of trying whether a library runs a model."""

    version: str = ""
    """ONNX Runtime's, as the library says it; empty when it was not asked."""
    missing: tuple[str, ...] = ()
    """Operator kernels, e.g. ``ai.onnx Range 11``."""
    complete: bool = True
    """Whether ``missing`` is everything that is missing."""
    reason: str = ""
    """Why the model does not run, where that is not for missing kernels."""
    ran: bool = False
    """Whether the model was run on a text, and not only loaded."""

    @property
    def fits(self) -> bool:
        return not self.missing and not self.reason


@dataclass(frozen=True, kw_only=True)
class ExecutionProvider:
    """A GPU, or the like, that runs the model on the device instead of the processor, and what of the device it asks for."""

    name: str
    """As ONNX Runtime calls it, e.g. ``CUDAExecutionProvider``."""
    append: Literal["cuda", "plugin"]
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
class SourceFile:
    """A file that something in a bundle was made from, or taken out of, by its content."""

    component: str
    """What the licence text of what was made from it is filed under, e.g. ``abseil``."""
    version: str
    file: str
    """Its name where it was published, or its package URL."""
    sha256: str
    shipped: bool = False
    """Whether what is in the bundle came out of it as it is, e.g. out of a wheel; else it is a source."""


@dataclass(frozen=True, kw_only=True)
class RuntimeArtifact:
    """A runtime library for the bundle, and which operator kernels it holds."""

    library: Path | None
    """``None``: it is linked into the runner's program."""
    name: str = ONNX_RUNTIME
    """What manifest, notices and report call it."""
    version: str
    """e.g. ``1.21.0``."""
    kind: str
    """Of ONNX Runtime: ``minimal``, ``minimal-extended``, ``full`` or ``stock``; of another runtime a word of its own."""
    provides: Operators | None
    """``None``: it is not known, or everything is in it; nothing is matched then, and the manifest says so."""
    toolchain: str
    """e.g. ``zig 0.14.1, x86_64-linux-gnu.2.28``."""
    licenses: tuple[Path, ...] = ()
    """Licence texts of what is linked in; a file's stem names the component."""
    companions: tuple[Path, ...] = ()
    """Further files that must be beside the library."""
    isa: tuple[str, ...] = ()
    """Kinds of processors that it has kernels for; empty: all."""
    requires: tuple[str, ...] = ()
    """What a processor must have, by Linux's names in /proc/cpuinfo, beyond what all of its architecture have."""
    levels: Levels = "here"
    """For which CPU feature levels the host proves the finished bundle."""
    provider: ExecutionProvider | None = None
    """What runs the model; ``None``: the processor."""
    changes: tuple[str, ...] = ()
    """What was done to files of others, in words, for the manifest, e.g. which code was pruned from a library."""
    source_files: tuple[SourceFile, ...] = ()
    """What it was made from; the bill of materials has those whose component has a licence text."""
    header: Path | None = None
    """The C API's header of its release, where programs in C are linked with it."""

    @property
    def file(self) -> Path:
        """The library of a runtime that has one."""
        if self.library is None:
            raise ValueError("the runtime is linked into its program")
        return self.library
