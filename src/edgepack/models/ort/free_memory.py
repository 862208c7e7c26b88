"""Memory that this process has and may have. Light: every command asks as it begins."""

import resource
from contextlib import suppress
from pathlib import Path

from edgepack.errors import EdgepackError

MOST = 0.9
"""Of what is free, for a whole command; at least half of what the machine has."""

GROUP = Path("/sys/fs/cgroup")
GROUPS = (
    ("memory.max", "memory.current", "memory.stat", ""),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_"),
)
"""Of both kinds of control groups: the limit, what is taken, and what of that is pages of files, which can be given back."""


def limit_process() -> None:
    """Let this process have no more than most of what the machine has: whatever a stranger's file makes of itself, the machine goes on working.

    Where the machine does not say what it has, nothing is limited.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    with suppress(EdgepackError):
        most = taken() + _memory("SwapFree") + max(int(MOST * free()), _whole() // 2)
        limits = [each for each in (most, soft, hard) if each != resource.RLIM_INFINITY]
        resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))


def taken() -> int:
    """Bytes of this process that it may write to."""
    return int(_of_the_kernel("/proc/self/statm").split()[5]) * resource.getpagesize()


def free() -> int:
    """Bytes that the machine, or what this process is confined to, has free. Raises ``EdgepackError`` where that is not known."""
    available = _memory("MemAvailable")
    for most, taken, detail, prefix in GROUPS:
        with suppress(OSError, ValueError):  # no group's limit
            said = dict(line.split() for line in (GROUP / detail).read_text().splitlines())
            files = sum(int(said.get(f"{prefix}{kind}", 0)) for kind in ("active_file", "inactive_file"))
            left = int((GROUP / most).read_text()) - int((GROUP / taken).read_text()) + files
            return max(0, min(available, left))
    return available


def _whole() -> int:
    """Bytes that the machine, or what this process is confined to, has."""
    found = [_memory("MemTotal")]
    for most, *_ in GROUPS:
        with suppress(OSError, ValueError):
            found.append(int((GROUP / most).read_text()))
    return min(found)


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
