"""What a device is, by its own words: read as a stranger's."""

from dataclasses import dataclass

from edgepack.context import BuildContext
from edgepack.device.session import Session
from edgepack.errors import DeviceError
from edgepack.foundry.processors.registry import find_processor
from edgepack.records.device import DeviceDescription
from edgepack.terminal_text import foreign

LONGEST = 120
"""Letters of each word."""
MACHINES = {"AMD64": "x86_64", "ARM64": "aarch64", "arm64": "aarch64", "amd64": "x86_64"}
"""What systems call processors, and how the rest of edgepack does."""
LARGEST = 1 << 50


@dataclass(frozen=True, kw_only=True)
class Described:
    """A device, and what of it is for the run alone."""

    device: DeviceDescription
    energy: str = ""
    """The file or folder that tells the energy that was taken; empty: none does."""


def describe(session: Session, *, context: BuildContext) -> Described:
    """Ask a device what it is. Raises ``DeviceError``."""
    said = session.ask(session.shell.describe(), "it was asked what it is", most=1 << 16)
    pairs = dict(line.partition("=")[::2] for line in said.text.splitlines() if "=" in line)
    words = {key: foreign(" ".join(value.split())[:LONGEST]) for key, value in pairs.items()}
    if not words.get("machine") or not words.get("system"):
        raise DeviceError(
            f"{session.at.id} does not say what system and processor it has",
            hint="it needs uname, as every POSIX system has it",
        )
    machine = MACHINES.get(words["machine"], words["machine"])
    device = DeviceDescription(
        system=words["system"],
        machine=machine,
        kernel=words.get("kernel", ""),
        distribution=words.get("distribution", ""),
        libc=words.get("libc", ""),
        processor=words.get("processor", ""),
        board=words.get("board", ""),
        cores=_whole(words.get("cores", "")),
        memory=1024 * _whole(words.get("memory", "")),
        levels=_levels(machine, pairs.get("flags", "")[:10_000], context),
        governor=words.get("governor", ""),
        gpu=words.get("gpu", ""),
    )
    energy = words.get("energy", "")
    return Described(device=device, energy=energy if energy.startswith("/sys/class/") else "")


def _levels(machine: str, flags: str, context: BuildContext) -> tuple[str, ...]:
    processor = find_processor(machine, context=context)
    return tuple(
        level.name for level in (processor.levels if processor else ()) if level.runs_on(flags.split())
    )


def _whole(text: str) -> int:
    return min(int(text), LARGEST) if text.isascii() and text.isdigit() and len(text) < 20 else 0
