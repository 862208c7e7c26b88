"""Cells made by several processes here, or by a plugin's executor elsewhere. A worker that dies costs its cell some time, and no other."""

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, as_completed, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing.connection import wait as wait_for_end
from typing import NoReturn

from edgepack.errors import ToolError
from edgepack.project.jobs import Job, Result, failed

Work = Callable[[Job], Result]
TRIES = 3
"""Workers that a cell may cost."""
SECONDS_TO_CLEAN_UP = 30
COMPILERS = "EDGEPACK_JOBS"
SAFE_PATH = "PYTHONSAFEPATH"
"""With it Python imports nothing from the current folder."""
OURS = "edgepack"
"""Its value where it is for the start of workers alone."""


def work(order: Job) -> Result:
    """Make a cell. What that takes to import is imported by whoever is asked for one."""
    if os.environ.get(SAFE_PATH) == OURS:
        del os.environ[SAFE_PATH]  # Scripts of other programs import from their own folders.
    from edgepack.project.build_cell import work

    return work(order)


@contextmanager
def starting_safely() -> Iterator[None]:
    """Workers that start within the block import nothing from the current folder, which may be a stranger's project."""
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = before or OURS
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(SAFE_PATH, None)


def in_processes(orders: Sequence[Job], *, jobs: int, do: Work = work) -> Iterator[tuple[Job, Result]]:
    """Results as they come. Cells whose worker died are made again, one by one: which of them kills its worker shows then."""
    waiting = deque(orders)
    while waiting:
        lost: list[Job] = []
        with starting_safely(), _pool(min(jobs, len(waiting))) as pool:
            yield from _until_one_dies(pool, waiting, jobs, lost, do)
        for order in lost:
            yield order, _alone(order, do)


def elsewhere(orders: Sequence[Job], executor: Executor, *, do: Work = work) -> Iterator[tuple[Job, Result]]:
    """Results as they come; whom the executor gives a cell to when a worker dies is its own business."""
    futures = {executor.submit(do, order): order for order in orders}
    for future in as_completed(futures):
        order = futures[future]
        try:
            yield order, future.result()
        except Exception as error:
            why = str(error).splitlines()[0] if str(error) else ""
            yield order, _lost(order, f"its workers were lost: {type(error).__name__} {why}".rstrip())


def _until_one_dies(
    pool: ProcessPoolExecutor, waiting: deque[Job], jobs: int, lost: list[Job], do: Work
) -> Iterator[tuple[Job, Result]]:
    """Make as many cells at once as there are workers, so that few are lost with one. What was lost is then in ``lost``."""
    running: dict[Future[Result], Job] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                running[_submit(pool, do, waiting[0])] = waiting[0]
                waiting.popleft()
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                result = future.result()
                yield running.pop(future), result
    except BrokenProcessPool:
        for future, order in running.items():
            if future.done() and not future.cancelled() and future.exception() is None:
                yield order, future.result()
            else:
                lost.append(order)


def _alone(order: Job, do: Work) -> Result:
    for _ in range(TRIES - 1):
        with starting_safely(), _pool(1) as pool:
            try:
                return _submit(pool, do, order).result()
            except BrokenProcessPool:
                continue
    return _lost(order, f"its worker was killed {TRIES} times")


def _lost(order: Job, why: str) -> Result:
    return failed(
        order,
        ToolError(
            f"{order.cell.label} was not made: {why}",
            hint="out of memory? try fewer --jobs; the kernel's log (dmesg) names what it killed",
        ),
    )


def _submit(pool: ProcessPoolExecutor, do: Work, order: Job) -> Future[Result]:
    """Workers start with the first orders; an interrupt at the terminal does not reach them while they do."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return pool.submit(do, order)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that end with the block, and with this process however it ends; what they have half made is removed."""
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        workers,
        # A copy of a process with threads, as forking makes one, may wait for a lock that nobody holds.
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begin,
        initargs=(max(1, len(os.sched_getaffinity(0)) // workers),),
    )
    ended: list[int] = []
    try:
        yield pool
    except BaseException:
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
            ended.append(process.pid or 0)
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        for group in filter(None, ended):
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)


def _begin(compilers: int) -> None:
    """In a new worker. An interrupt at the terminal is its parent's to act on, which ends its workers, and all that they have started, once."""
    os.environ.setdefault(COMPILERS, str(compilers))
    os.setpgid(0, 0)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.signal(signal.SIGTERM, _end)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end(number: int, frame: object) -> NoReturn:
    """End a worker: close what is open, and remove what is half made."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for_end([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(SECONDS_TO_CLEAN_UP)
        os.killpg(0, signal.SIGKILL)
