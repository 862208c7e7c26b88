"""Lower CPU levels of a device: a copy of the bundle whose program does not ask the processor itself, and is told that it has less."""

from collections.abc import Sequence
from dataclasses import replace

from edgepack.bundles.golden import Embed
from edgepack.bundles.manifest import file_entry
from edgepack.context import BuildContext
from edgepack.device.placed import placed
from edgepack.device.program import runner_on
from edgepack.device.session import Session
from edgepack.errors import BundleError, CannotRunHere
from edgepack.files.elf import architecture
from edgepack.foundry.feature_levels import FeatureLevel
from edgepack.foundry.processors.registry import find_processor
from edgepack.records.bundle import Bundle
from edgepack.records.device import DeviceDescription
from edgepack.records.report import Verification
from edgepack.records.target import ModelOptions
from edgepack.verifier.proofs import (
    HIDER,
    known_of,
    masked_copy,
    masking,
    not_hidden,
    require_known,
    unsealed,
)

HIDDEN = {"x86_64": FeatureLevel.hidden_bits, "aarch64": FeatureLevel.hidden_hwcaps}
"""Processor → what must not be said of one of a level."""


def at_lower_levels(
    bundle: Bundle,
    session: Session,
    device: DeviceDescription,
    embed: Embed,
    texts: Sequence[str],
    found: Verification,
    *,
    options: ModelOptions,
    context: BuildContext,
) -> Verification:
    """The figures with those of the levels below the device's own, as far as they can be shown there, whose program
    ``embed`` asks for the vectors of the texts.

    Raises ``ProofError`` where a level's vectors are not near them, or of other bits where the manifest says that all are the same.
    """
    lower = lower_levels(bundle, device, context=context)
    if not lower:
        return found
    known = known_of(bundle, embed, texts, options)
    lowest = found.processor_cosine
    try:
        copy = _listed(masked_copy(bundle, unsealed, context))
        with placed(copy, session, context=context) as there:
            for level in lower:
                hidden = HIDDEN[device.machine](level)
                runner = runner_on(there, environment=masking(hidden), context=context)
                where = f"{bundle.name} (level {level.name}, on {session.at.id})"
                cosine = require_known(bundle, known, runner.vectors(copy, texts), where=where)
                lowest = cosine if lowest is None else min(lowest, cosine)
    except (CannotRunHere, BundleError) as cannot:
        # A program with a key inside refuses a copy that is not as it was signed.
        why = cannot.reason if isinstance(cannot, CannotRunHere) else cannot.message
        context.note(f"{session.at.id}: CPU levels {', '.join(each.name for each in lower)} not run: {why}")
        return found
    said = (*found.said, *not_hidden(bundle)) if found.said else ()
    return replace(found, levels=tuple(each.name for each in lower), processor_cosine=lowest, said=said)


def lower_levels(
    bundle: Bundle, device: DeviceDescription, *, context: BuildContext
) -> Sequence[FeatureLevel]:
    """The levels below the device's own that the bundle has kernels for and the device can be held to, lowest first."""
    runtime, platform = bundle.manifest["runtime"] or {}, bundle.manifest["target"]["platform"]
    chosen = bundle.manifest["runner"].get("by_level") or (runtime and "name" not in runtime)
    processor = find_processor(device.machine, context=context)
    if not chosen or "provider" in runtime or processor is None or device.machine not in HIDDEN:
        return ()
    if architecture(bundle.program) != device.machine:
        return ()
    isa = platform.get("isa", ())
    has = [level for level in processor.levels if level.name in device.levels]
    return [level for level in has[:-1] if not isa or level.name in isa]


def _listed(copy: Bundle) -> Bundle:
    """The copy with its own files in the manifest that is compared with what arrives; the program reads the other one."""
    hider = copy.program.with_name(HIDER)
    parts = {str(file["path"]): str(file["part"]) for file in copy.manifest["files"]}
    asking = str((copy.manifest["runtime"] or {"library": copy.manifest["runner"]["program"]})["library"])
    parts[hider.relative_to(copy.directory).as_posix()] = "runner"
    changed = {asking, hider.relative_to(copy.directory).as_posix()}
    files = [
        *(file for file in copy.manifest["files"] if file["path"] not in changed),
        *(
            file_entry(copy.directory / name, root=copy.directory, part=parts[name])
            for name in sorted(changed)
        ),
    ]
    return replace(copy, manifest={**copy.manifest, "files": files})
