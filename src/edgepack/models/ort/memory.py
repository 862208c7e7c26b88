"""Limits of the memory that this process takes while it runs a graph: a stranger's may make large values of little. Those of its time come with them."""

import resource
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Lock

from edgepack.errors import EdgepackError, ModelError
from edgepack.models.ort.free_memory import free, taken
from edgepack.models.ort.processor_time import Allowance, limited_time

SHARE = 0.75
"""Of the memory that is free, for graphs: the machine has to go on working."""
SMALL, TIMES = 4 << 30, 8
"""Bytes, and how often a model's own besides, for what is not of long texts."""
WORDS = ("bad_alloc", "Failed to allocate memory")
"""In messages of ONNX and ONNX Runtime when they get no memory."""

_lock = Lock()
_before = resource.getrlimit(resource.RLIMIT_DATA)[0]
"""Set by the user."""
_limits: list[int] = []
"""Those that hold now, in any thread."""


def memory_for(most: int | None = None) -> int:
    """Bytes that this process may have: ``most`` more than it has now, and at most its share of what is free."""
    spare = int(SHARE * free())
    return taken() + (spare if most is None else min(most, spare))


def memory_to_try(model_bytes: int) -> int:
    """Bytes that this process may have to fold the constants of a model, and to run it on a few short texts."""
    return memory_for(SMALL + TIMES * model_bytes)


@contextmanager
def limited_memory(name: str, limit: int, allowance: Allowance) -> Iterator[None]:
    """Let this process have no more than ``limit``, and the processor time that is allowed. Of limits within one another and in other threads the
    lowest holds.

    Raises ``ModelError`` about ``name`` where memory is refused, or time has passed.
    """
    with _lock:
        _limits.append(limit)
        _apply()
    try:
        with limited_time(name, allowance):
            yield
    except Exception as error:
        if isinstance(error, EdgepackError) or not is_lack_of_memory(error):
            raise
        raise ModelError(
            f"{name} takes more memory than a model of its size, or than this machine has free",
            hint="if the model can be trusted, use shorter texts or a machine with more memory; its graph may make large values of little",
        ) from error
    finally:
        with _lock:
            _limits.remove(limit)
            _apply()


def limits_of_reading(name: str, size: int) -> AbstractContextManager[None]:
    """Limits for a stranger's files of so many bytes, whatever reads them: a few kilobytes may stand for terabytes, or for years."""
    return limited_memory(name, memory_to_try(size), Allowance(size))


def is_lack_of_memory(error: Exception) -> bool:
    """Whether this says that there was no memory to be had."""
    return isinstance(error, MemoryError) or any(each in str(error) for each in WORDS)


def _apply() -> None:
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    limits = [each for each in (*_limits, _before, hard) if each != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits, default=resource.RLIM_INFINITY), hard))
