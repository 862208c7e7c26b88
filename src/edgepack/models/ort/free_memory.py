"""Memory that this process has and may have. Light: every command asks as it begins."""

import resource
from contextlib import suppress
from pathlib import Path

from edgepack.errors import EdgepackError

MOST = 0.9
"""Of what is free, for a whole command; at least half of what the machine has."""


def limit_process() -> None:
    """Let this process have no more than most of what the machine has: whatever a stranger's file makes of itself, the machine goes on working.

    Where the machine does not say what it has, nothing is limited.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    with suppress(EdgepackError):
        most = taken() + _memory("SwapFree") + max(int(MOST * free()), _memory("MemTotal") // 2)
        limits = [each for each in (most, soft, hard) if each != resource.RLIM_INFINITY]
        resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))


def taken() -> int:
    """Bytes of this process that it may write to."""
    return int(_of_the_kernel("/proc/self/statm").split()[5]) * resource.getpagesize()


def free() -> int:
    """Bytes that the machine, or what this process is confined to, has free. Raises ``EdgepackError`` where that is not known."""
    available = _memory("MemAvailable")
    group = Path("/sys/fs/cgroup")
    try:
        most = int((group / "memory.max").read_text())
        return max(0, min(available, most - int((group / "memory.current").read_text())))
    except (OSError, ValueError):  # no group's limit
        return available


def _memory(key: str) -> int:
    """Bytes."""
    for line in _of_the_kernel("/proc/meminfo").splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) << 10
    raise _unknown(f"/proc/meminfo has no {key}")


def _of_the_kernel(file: str) -> str:
    try:
        return Path(file).read_text()
    except OSError as error:
        raise _unknown(f"{file}: {error.strerror}") from error


def _unknown(why: str) -> EdgepackError:
    return EdgepackError(
        f"the memory that is free is not known: {why}",
        hint="models are run within a limit of memory: mount /proc",
    )
