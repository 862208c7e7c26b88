"""What a run of a bundle's program may take of this machine."""

import platform
import re
import signal
from dataclasses import dataclass

from edgepack.errors import ToolError
from edgepack.files.elf import architecture
from edgepack.records.bundle import Bundle

SECONDS = 600
"""For one run. 200 texts take seconds on a processor of these years, and a minute or two under an emulator."""
ADDRESS_SPACE = 8 << 30
"""Bytes, and four times the bundle's own besides: files are mapped, weights packed anew, threads have stacks and arenas."""
OUTPUT = 256 << 20
"""Bytes of standard output, which is read into memory; also of messages, and of a file in /tmp. The longest answers, the
vectors of WordNet's glosses, take some MB."""
OUT_OF_TIME = 124
"""How timeout says it."""


@dataclass(frozen=True, kw_only=True)
class RunLimits:
    """After so much a run is ended."""

    seconds: int = SECONDS
    address_space: int | None = None
    """Bytes; ``None``: any number."""
    output: int = OUTPUT
    """Bytes of each file that is written; output is one (``tools.run_tool``)."""

    def command(self) -> list[str]:
        """What a command line begins with, before that of a sandbox. Of coreutils and util-linux."""
        # HUP, for `unshare` ignores TERM. When this process dies, so does timeout, and with it what it runs.
        words = [
            "setpriv",
            "--pdeathsig",
            "KILL",
            "timeout",
            "--signal=HUP",
            "--kill-after=2",
            str(self.seconds),
        ]
        memory = [] if self.address_space is None else [f"--as={self.address_space}"]
        return [*words, "prlimit", "--core=0", f"--fsize={self.output}", *memory, "--"]


def limits_for(bundle: Bundle) -> RunLimits:
    """Generous ones. Memory is not limited where much is reserved and little used.

    That is so of emulators, of GPU drivers and of engines that run WebAssembly.
    """
    runtime = bundle.manifest["runtime"] or {}
    if architecture(bundle.program) != platform.machine() or runtime.get("provider"):
        return RunLimits()
    size = sum(int(file["size"]) for file in bundle.manifest["files"])
    return RunLimits(address_space=ADDRESS_SPACE + 4 * size)


def timed_out(error: ToolError) -> bool:
    """Whether a run under ``RunLimits`` was ended for its time."""
    return re.search(rf"exit code {OUT_OF_TIME}\b", error.message) is not None


def wrote_too_much(error: ToolError) -> bool:
    """Whether it was ended for its output; a program that ignores the signal sees an error instead."""
    ended = signal.SIGXFSZ.value
    return re.search(rf"(exit code {128 + ended}|signal {ended})\b", error.message) is not None
