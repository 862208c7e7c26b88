"""``Client.get_executor()``: Dask gives a cell to another worker when one dies, and gives a cell up that killed several."""

import logging
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from edgepack.api import MissingToolError, UsageError
from edgepack.fetch.http import in_time

if TYPE_CHECKING:
    from distributed import LocalCluster

SECONDS = 30
"""In which a scheduler has to answer."""


def starter() -> Callable[[str | None, int | None], AbstractContextManager[Executor]]:
    """Function that starts an executor, for the axis ``executor``."""
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
    with ExitStack() as stack:
        cluster = stack.enter_context(_workers_here(jobs or 1)) if scheduler is None else None
        connect, began = partial(Client, cluster or scheduler, timeout=SECONDS), time.monotonic()
        try:
            # Dask waits for ever for the first word of what takes the connection, and raises what reading it raises.
            client = stack.enter_context(in_time(connect, SECONDS, since=lambda: began))
        except Exception as error:
            raise UsageError(
                f"the Dask scheduler {scheduler} does not answer: {(str(error) or type(error).__name__).splitlines()[0]}",
                hint="name one that runs, e.g. --scheduler tcp://HOST:8786; `dask scheduler` starts one",
            ) from error
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


def _cluster(count: int, scratch: str) -> "LocalCluster":
    """Its workers ignore an interrupt at the terminal, which is for whoever ends them: they told of it in tracebacks."""
    import dask
    from distributed import LocalCluster
    from distributed.security import Security

    # Its pages need no key: names of tasks and folders, for whoever reaches the loopback.
    pages: dict[str, list[str]] = {f"distributed.{who}.http.routes": [] for who in ("scheduler", "worker")}
    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if main else None
    try:
        with dask.config.set(pages):
            return LocalCluster(
                n_workers=count,
                threads_per_worker=1,
                memory_limit=0,  # Dask kills workers that have more; what a model takes it does not know.
                dashboard_address=None,
                security=Security.temporary(),
                local_directory=scratch,
                env={"TMPDIR": scratch},  # A worker that is killed does not remove what it has half made.
                silence_logs=logging.ERROR,
            )
    finally:
        if main:
            signal.signal(signal.SIGINT, before)


@contextmanager
def _workers_here(count: int) -> Iterator["LocalCluster"]:
    """A scheduler with so many workers, which end with the block, and with them all that they have started.

    Whoever may give it work runs code as this user: that takes a key, which is made now and is in memory alone.
    """
    import psutil

    with (
        tempfile.TemporaryDirectory(prefix="edgepack-dask-") as scratch,
        _cluster(count, scratch) as cluster,
    ):
        started: list[psutil.Process] = []
        try:
            yield cluster
        finally:
            for nanny in cluster.workers.values():
                with suppress(psutil.Error):
                    started += psutil.Process(nanny.pid).children(recursive=True)
            for process in started:
                with suppress(psutil.Error):
                    process.kill()
