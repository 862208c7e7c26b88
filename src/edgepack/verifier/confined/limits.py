"""What a run of a bundle's program may take of this machine."""

import platform
import resource
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from edgepack.files.elf import architecture
from edgepack.records.bundle import Bundle

SECONDS, SECONDS_A_TEXT = 600, 0.1
"""For one run. 200 texts take seconds on a processor of these years."""
IDLE = 120
"""Seconds without any of a processor's time: a program that waits for itself would else be waited for until the others are over."""
EMULATED = 5
"""Times as long where something else executes the program."""
MEMORY = 8 << 30
"""Bytes, and four times the bundle's own besides: files are mapped, weights packed anew, threads have stacks and arenas."""
OUTPUT = 256 << 20
"""Bytes of standard output, which is read into memory; also of messages, and of a file in /tmp. The longest answers, the
vectors of WordNet's glosses, take some MB."""
PROCESSES = 1024
"""And threads, at once. A runtime has a thread per core."""
FILES = 4096
"""Open at once in one process."""

Limit = Literal["time", "idle", "output", "memory", "processes"]


@dataclass(frozen=True, kw_only=True)
class RunLimits:
    """After so much a run is ended."""

    seconds: float = SECONDS
    idle: float = IDLE
    """Seconds in which none of its processes does anything."""
    output: int = OUTPUT
    """Bytes of each file that is written, output among them."""
    resident: int = MEMORY
    """Bytes of all processes together that are in memory; looked at several times a second."""
    address_space: int | None = None
    """Bytes of each process; ``None``: any number."""
    data: int | None = None
    """Bytes of each process that it may write to."""
    stack: int | None = None
    """Bytes of a thread's."""
    processes: int = PROCESSES
    files: int = FILES

    def each(self) -> Mapping[int, int]:
        """Those that the kernel holds each process to: number of the limit → most."""
        said = {
            resource.RLIMIT_CORE: 1,  # of 0 the kernel still starts a handler that core_pattern names
            resource.RLIMIT_FSIZE: self.output,
            resource.RLIMIT_NOFILE: self.files,
            resource.RLIMIT_AS: self.address_space,
            resource.RLIMIT_DATA: self.data,
            resource.RLIMIT_STACK: self.stack,
        }
        return {kind: most for kind, most in said.items() if most is not None}

    def in_words(self, passed: Limit) -> str:
        """Reason why a program was ended, in words."""
        return {
            "time": f"did not end within {self.seconds:.0f} s",
            "idle": f"did nothing for {self.idle:.0f} s, and did not end",
            "output": f"wrote more than {self.output >> 20} MiB",
            "memory": f"took more than {self.resident >> 20} MiB of memory",
            "processes": f"started more than {self.processes} processes and threads",
        }[passed]


def limits_for(bundle: Bundle, texts: int = 0) -> RunLimits:
    """Generous ones. What is reserved is not limited where much is reserved and little used.

    That is so of emulators, of GPU drivers and of engines that run WebAssembly.
    """
    runtime = bundle.manifest["runtime"] or {}
    resident = MEMORY + 4 * sum(int(file["size"]) for file in bundle.manifest["files"])
    seconds = SECONDS + SECONDS_A_TEXT * texts
    if architecture(bundle.program) != platform.machine():
        return RunLimits(seconds=EMULATED * seconds, resident=resident)
    if runtime.get("provider"):
        return RunLimits(seconds=seconds, resident=resident)
    return RunLimits(seconds=seconds, resident=resident, address_space=resident)
