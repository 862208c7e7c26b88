"""A proof repeated for each CPU feature level, as far as this machine has it, can hide what it has, or emulate one."""

import platform as host
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.errors import CannotRunHere, MissingToolError
from edgepack.foundry.feature_levels import FeatureLevel, level_of, processor_flags
from edgepack.foundry.platform import Emulator
from edgepack.foundry.processor import Processor
from edgepack.foundry.processors.registry import find_processor
from edgepack.foundry.proof.emulator import find_emulator
from edgepack.records.runtime import LevelProof, Levels

HERE = "this CPU"


@dataclass(frozen=True, kw_only=True)
class Way:
    """How a program is run as on a processor of one level."""

    level: str
    by: str = HERE
    """What runs it, in words."""
    emulation: tuple[str | Path, ...] = ()
    """What its command line begins with."""
    hidden: tuple[int, ...] = ()
    """What cpuid must not say (``hidden_bits``)."""


Attempt = Callable[[Way], float]
"""Runs what is proved in one way: the lowest cosine to the vectors that are expected.

Raises ``ProofError`` where that is not near enough, ``CannotRunHere`` where this way cannot be gone."""


def prove_levels(
    attempt: Attempt,
    *,
    name: str,
    arch: str,
    isa: Sequence[str] = (),
    levels: Levels = "here",
    context: BuildContext,
) -> tuple[LevelProof, ...]:
    """Proofs of the file ``name``, by level; ``isa`` names the levels that it has kernels for (empty: all).

    A level that nothing here can show is returned as not proved, with the reason. Raises what ``attempt`` raises, and
    ``MissingToolError`` when the file is for another architecture and there is no emulator.
    """
    processor = find_processor(arch, context=context)
    if processor is None:
        return (prove_way(attempt, Way(level=HERE)),)
    wanted = [level for level in processor.levels if not isa or level.name in isa]
    if arch != host.machine():
        emulator = _needed_emulator(name, arch, context)
        return tuple(prove_way(attempt, _emulated(level, emulator)) for level in wanted)
    return _own_levels(attempt, processor, wanted, fetch=levels == "all", context=context)


def prove_way(attempt: Attempt, way: Way) -> LevelProof:
    """The outcome of one attempt."""
    try:
        cosine = attempt(way)
    except CannotRunHere as cannot:
        return LevelProof(level=way.level, proved=False, reason=cannot.reason)
    return LevelProof(level=way.level, proved=True, by=way.by, min_cosine=cosine)


def _own_levels(
    attempt: Attempt,
    processor: Processor,
    wanted: Sequence[FeatureLevel],
    *,
    fetch: bool,
    context: BuildContext,
) -> tuple[LevelProof, ...]:
    """The levels of this machine's architecture, each in the best way that is at hand."""
    flags = processor_flags()
    own = level_of(processor.levels, flags)
    emulator, lacking = None, "not emulated: only level all is"
    if fetch:
        try:
            emulator = find_emulator(processor.name, context=context)
        except MissingToolError as error:
            lacking = error.message
    # First as it is: what is wrong with it altogether is said of this processor.
    native = prove_way(attempt, Way(level=own.name))
    proofs = []
    for level in wanted:
        if level == own:
            proofs.append(native)
        elif emulator and level.emulated:
            proofs.append(prove_way(attempt, _emulated(level, emulator)))
        elif processor.name == "x86_64" and level.runs_on(flags):
            hiding = Way(level=level.name, by=f"{HERE}, features restricted", hidden=level.hidden_bits())
            proofs.append(prove_way(attempt, hiding))
        else:
            reason = (
                f"this CPU does not have it; {lacking}"
                if level.emulated
                else "neither this CPU nor qemu has it"
            )
            proofs.append(LevelProof(level=level.name, proved=False, reason=reason))
    return tuple(proofs)


def _emulated(level: FeatureLevel, emulator: Emulator) -> Way:
    assert level.emulated is not None
    return Way(
        level=level.name,
        by=f"{emulator.name} {emulator.version}, {level.emulated}",
        emulation=tuple(emulator.command(level.emulated)),
    )


def _needed_emulator(name: str, arch: str, context: BuildContext) -> Emulator:
    try:
        return find_emulator(arch, context=context)
    except MissingToolError as error:
        raise MissingToolError(
            f"{name} is for {arch} and is proved under an emulator here: {error.message}", hint=error.hint
        ) from error
