"""``Client.get_executor()``: Dask gives a cell to another worker when one dies, and gives a cell up that killed several."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager, suppress

from edgepack.api import MissingToolError, UsageError

SECONDS = 30
"""In which a scheduler has to answer."""


def starter() -> Callable[[str | None, int | None], AbstractContextManager[Executor]]:
    """What the axis ``executor`` takes."""
    return start


@contextmanager
def start(scheduler: str | None, jobs: int | None) -> Iterator[Executor]:
    """The workers of a scheduler; without an address, of a cluster on this machine with so many workers.

    Raises ``MissingToolError`` where Dask is not installed, ``UsageError`` for a scheduler that does not answer or has no workers.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise MissingToolError(
            "--executor dask needs distributed, which is not installed", hint="pip install 'edgepack[dask]'"
        ) from error
    try:
        client = (
            Client(n_workers=jobs or 1, threads_per_worker=1, dashboard_address=None)
            if scheduler is None
            else Client(scheduler, timeout=SECONDS)
        )
    except (OSError, ValueError) as error:
        raise UsageError(
            f"the Dask scheduler {scheduler} does not answer: {str(error).splitlines()[0]}",
            hint="name one that runs, e.g. --scheduler tcp://HOST:8786; `dask scheduler` starts one",
        ) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=SECONDS)
        except TimeoutError as error:
            raise UsageError(
                f"the Dask scheduler {scheduler} has no workers", hint="start some: dask worker ADDRESS"
            ) from error
        executor = client.get_executor(pure=False)
        try:
            yield executor
        finally:
            # A build that is interrupted leaves its workers nothing to do.
            with suppress(Exception):
                executor.shutdown(wait=False)
