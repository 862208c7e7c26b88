"""CPU feature levels: kinds of processors by the kernels that MLAS chooses on them, and which of them a processor is."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgepack.errors import UsageError

CPUID = {
    "sse3": (0, 0),
    "ssse3": (0, 9),
    "fma": (0, 12),
    "sse4_1": (0, 19),
    "sse4_2": (0, 20),
    "osxsave": (0, 27),
    "avx": (0, 28),
    "f16c": (0, 29),
    "avx2": (1, 5),
    "avx512f": (1, 16),
    "avx512dq": (1, 17),
    "avx512bw": (1, 30),
    "avx512vl": (1, 31),
    "avx512_vnni": (2, 11),
    "amx_bf16": (3, 22),
    "amx_tile": (3, 24),
    "amx_int8": (3, 25),
    "avx_vnni": (4, 4),
    "avx512_bf16": (4, 5),
    "avx_vnni_int8": (5, 4),
    "avx_ne_convert": (5, 5),
}
"""Where an x86-64 processor says what it has: leaf 1 ecx, leaf 7 ebx, ecx, edx, leaf 7.1 eax, edx; and the bit."""
HWCAPS = {"asimddp": (0, 20), "i8mm": (1, 13)}
"""Where Linux says what an arm64 processor has: AT_HWCAP, AT_HWCAP2; and the bit."""
_SAID_OTHERWISE = frozenset({"sse3", "osxsave"})
"""Linux calls SSE3 ``pni``, and has no flag for OSXSAVE: it shows AVX only where it saves its registers."""
_OF_EVERY_PROCESSOR = frozenset({"asimd"})


@dataclass(frozen=True, kw_only=True)
class FeatureLevel:
    """A kind of processor, by the kernels that MLAS chooses on it."""

    name: str
    flags: frozenset[str]
    """What Linux calls, in /proc/cpuinfo, all that MLAS asks for and what comes with it."""
    implies: tuple[str, ...] = ()
    """The levels that whoever names this one means too."""
    emulated: str | None
    """The processor of qemu that has this level and none above; None where qemu has none."""

    def runs_on(self, flags: Iterable[str]) -> bool:
        """Whether a processor with these flags can run the level's kernels."""
        return self.flags - _SAID_OTHERWISE <= frozenset(flags)

    def hidden_bits(self) -> tuple[int, ...]:
        """Bits that cpuid must hide for MLAS to take an x86-64 processor for one of this level, register by register."""
        return self._hidden(CPUID, 6)

    def hidden_hwcaps(self) -> tuple[int, ...]:
        """Bits to hide of an arm64 processor: what Linux must not say in AT_HWCAP and AT_HWCAP2."""
        return self._hidden(HWCAPS, 2)

    def _hidden(self, places: Mapping[str, tuple[int, int]], registers: int) -> tuple[int, ...]:
        hidden = [0] * registers
        for name, (register, bit) in places.items():
            if name not in self.flags:
                hidden[register] |= 1 << bit
        return tuple(hidden)


@dataclass(frozen=True, kw_only=True)
class FeatureLevels:
    """The levels that a release has kernels for. A target's ``isa`` names some of them.

    ``isa = ["avx2", "avx512_vnni"]`` says that the devices have at least what all of these imply (here AVX2: the
    floor), and that kernels beyond those named are not worth their bytes.
    """

    levels: Mapping[str, Sequence[FeatureLevel]]
    """By architecture, the worst first."""

    def on(self, arch: str) -> Sequence[FeatureLevel]:
        """An architecture's levels, the worst first; none where kernels are not chosen."""
        return self.levels.get(arch, ())

    def named(self, name: str, arch: str) -> FeatureLevel:
        return next(level for level in self.levels[arch] if level.name == name)

    def of_processor(self, arch: str, flags: Iterable[str]) -> FeatureLevel:
        """The level whose kernels MLAS chooses on a processor with these flags."""
        return level_of(self.levels[arch], flags)

    def check(self, names: Iterable[str], arch: str) -> tuple[str, ...]:
        """The levels that are named, sorted, with all that they imply; none: whatever the device has. Raises ``UsageError``."""
        known = {level.name: level for level in self.on(arch)}
        named = set(names)
        if unknown := sorted(named - known.keys()):
            raise UsageError(
                f"unknown CPU feature: {', '.join(unknown)} on {arch}",
                hint=f"isa may name {', '.join(known)}" if known else "leave isa out",
            )
        return tuple(sorted(named.union(*(known[name].implies for name in named))))

    def floor(self, names: Iterable[str], arch: str) -> str | None:
        """The best that all of these imply, which every device then has to have; None when nothing is named."""
        implied = [{name, *self.named(name, arch).implies} for name in names]
        common = set[str]().union(*implied).intersection(*implied)
        order = [level.name for level in self.on(arch)]
        return max(common, key=order.index, default=None)

    def kept(self, names: Collection[str], arch: str) -> tuple[str, ...]:
        """The levels that a library with these kernels runs on: the floor and all above it; sorted."""
        floor = self.floor(names, arch)
        below = self.named(floor, arch).implies if floor else ()
        return tuple(name for name in self.check(names, arch) if name not in below)

    def required_flags(self, names: Iterable[str], arch: str) -> tuple[str, ...]:
        """Flags that a processor must have, as Linux calls them in /proc/cpuinfo, beyond what every processor has; sorted."""
        floor = self.floor(names, arch)
        flags: Collection[str] = self.named(floor, arch).flags if floor else ()
        return tuple(sorted(set(flags) - _SAID_OTHERWISE - _OF_EVERY_PROCESSOR))


def level_of(levels: Sequence[FeatureLevel], flags: Iterable[str]) -> FeatureLevel:
    """The best of the levels that a processor with these flags has, or else the first."""
    have = frozenset(flags)
    return next((level for level in reversed(levels) if level.runs_on(have)), levels[0])


def processor_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """Flags of this machine's processor, by Linux's names; nothing where that cannot be read."""
    try:
        lines = cpuinfo.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return frozenset()
    rows = (line.partition(":") for line in lines)
    return next(
        (frozenset(words.split()) for name, _, words in rows if name.strip() in ("flags", "Features")),
        frozenset(),
    )
