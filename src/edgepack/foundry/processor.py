"""A processor of Linux: all that edgepack has to know to compile for it, to check what was made, and to run it elsewhere."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from edgepack.foundry.feature_levels import FeatureLevel
from edgepack.foundry.patch import Patch
from edgepack.foundry.sources.pinned import Archive

MachineCode = Callable[[bytes], Iterator[tuple[str, str]]]
"""Machine code → the instruction sets it uses beyond what every such processor has, each with an instruction, in its order."""


@dataclass(frozen=True, kw_only=True)
class Sysroot:
    """A C library of another processor, for programs that an emulator runs: Debian's, pinned."""

    packages: tuple[Archive, ...]
    root: str = ""
    """The folder in the packages that stands for ``/``; it has ``lib`` in it."""


@dataclass(frozen=True, kw_only=True)
class BranchProtection:
    """Flags and code by which the processor holds returns and indirect branches to where they may lead."""

    flags: tuple[str, ...]
    """For every object, C++, C and assembly."""
    mark: str
    """How the finished file says it (``files.hardening``): then the device's loader asks the processor for it."""
    landing: str
    """The instruction that functions in assembly begin with."""
    start: str
    """File in ``foundry/toolchains/data`` with what runs before ``main``: zig's has no such instruction."""


@dataclass(frozen=True, kw_only=True)
class Processor:
    """One kind of processor under Linux with glibc. edgepack's own and plugins' are told apart by nothing."""

    name: str
    """As ``platform.machine()`` says it, as targets name it, and as the reader of ELF files knows it: ``riscv64``."""
    triple: str
    """What compilers and Debian's cross compilers call it: ``riscv64-linux-gnu``."""
    headers: str
    """What zig calls its folder of the kernel's headers, ``libc/include/{headers}-linux-any``: ``riscv``."""
    emulation: str
    """What lld calls its files (``-m``): ``elf64lriscv``."""
    loader: str
    """Where devices have glibc's dynamic loader: ``/lib/ld-linux-riscv64-lp64d.so.1``."""
    debian: str
    """What Debian calls it: ``riscv64``, ``arm64``."""
    oldest_glibc: str = "2.17"
    """The first glibc that there was for it, or that zig can link for."""
    flags: tuple[str, ...] = ()
    """What clang and gcc are told beyond the triple, for each object: the baseline, where it is not the compiler's own. ``zig cc``,
    which has other words for it, is not told: with it only CMake's trials and the proof's own programs are compiled."""
    variant: str = ""
    """A word that tells what is compiled for it from what is compiled for others of the same ``triple`` with other ``flags``."""
    cmake: Mapping[str, str] = field(default_factory=dict)
    """Variables of upstream's CMake."""
    levels: tuple[FeatureLevel, ...]
    """The kinds of it that a bundle is proved on, the least first; at least one."""
    beyond_baseline: MachineCode | None = None
    """Reads finished code; ``None``: it is not read."""
    qemu: str = ""
    """What qemu's program is called after ``qemu-``; empty: ``name``."""
    sysroot: Sysroot | None = None
    """For machines of another kind; ``None``: only what is installed there, ``/usr/{triple}``."""
    patches: tuple[Patch, ...] = ()
    """What is compiled otherwise of ONNX Runtime, after the release's patches."""
    marks: frozenset[str] = frozenset()
    """What every finished file says of itself (``files.hardening``), since it is true of all code: ``shstk``."""
    protection: BranchProtection | None = None
    """For platforms that ask for ``branch_protection``; ``None``: there is none, or Linux does not enforce it."""
