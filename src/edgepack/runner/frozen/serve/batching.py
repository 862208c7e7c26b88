"""Texts of many requests at once through the model: a bounded queue, and batches that wait only for what is on its way."""

from __future__ import annotations

import asyncio
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from time import monotonic

Row = tuple[list[int], list[int]]
"""Token ids and types of a text."""
LONGEST_RETRY = 60
SMOOTHING = 0.2


class Busy(Exception):  # noqa: N818 - what it says, not an error of ours
    """The queue is full; ``retry_after`` is how many seconds it is worth waiting."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"the queue is full, try again in {retry_after} s")
        self.retry_after = retry_after


class Job:
    """The texts of one request."""

    __slots__ = ("arrived", "done", "gone", "left", "next", "order", "rows", "vectors")

    def __init__(self, rows: Sequence[Row], gone: Callable[[], bool]) -> None:
        self.rows = rows
        self.vectors: list[array[float] | None] = [None] * len(rows)
        # Texts of like length follow each other, so that they meet in a batch.
        self.order = sorted(range(len(rows)), key=lambda row: len(rows[row][0]), reverse=True)
        self.next = 0
        self.left = len(rows)
        self.arrived = monotonic()
        self.gone = gone
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Batcher:
    """Runs ``embed`` on ``lanes`` threads, on at most ``window`` texts at a time each, a text of each request in turn.

    What waits is shared out among the lanes that are free. A batch that is not full waits ``wait`` seconds at most, and
    only while ``expected`` says that texts are on their way.
    """

    def __init__(
        self,
        embed: Callable[[list[Row]], list[array[float]]],
        *,
        lanes: int,
        window: int,
        wait: float,
        limit: int,
        observe: Callable[[int], None],
    ) -> None:
        self._embed = embed
        self._lanes = lanes
        self._free = 0
        self._window = window
        self._wait = wait
        self._limit = limit
        self._observe = observe
        self._jobs: deque[Job] = deque()
        self._changed = asyncio.Event()
        self._thread = ThreadPoolExecutor(lanes, thread_name_prefix="model")
        self._seconds_a_text = 0.01
        self.waiting = 0
        """Texts in the queue."""
        self.expected = 0
        """Requests that have been read and will queue texts at once."""

    async def embed(self, rows: Sequence[Row], gone: Callable[[], bool]) -> list[array[float]]:
        """Vectors of the rows, in order. Raises ``Busy``; ``asyncio.CancelledError`` for a client that has ``gone``."""
        # A request larger than the queue gets in when nothing else waits.
        if self.waiting and self.waiting + len(rows) > self._limit:
            seconds = self.waiting * self._seconds_a_text
            raise Busy(min(LONGEST_RETRY, max(1, round(seconds + 0.5))))
        job = Job(rows, gone)
        self._jobs.append(job)
        self.waiting += len(rows)
        self._changed.set()
        await job.done
        return [vector for vector in job.vectors if vector is not None]

    async def run(self) -> None:
        """Work until cancelled."""
        await asyncio.gather(*(self._run_lane() for _ in range(self._lanes)))

    async def _run_lane(self) -> None:
        while True:
            self._free += 1
            while not self._jobs:
                await self._pause(None)
            await self._gather()
            picked = self._pick()
            self._free -= 1
            if picked:
                await self._work(picked)

    async def _gather(self) -> None:
        """Wait a little for texts that are on their way."""
        end = self._jobs[0].arrived + self._wait
        while self._jobs and self.expected and self.waiting < self._window:
            left = end - monotonic()
            if left <= 0:
                return
            await self._pause(left)

    async def _pause(self, seconds: float | None) -> None:
        self._changed.clear()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)

    def nudge(self) -> None:
        """Something that a waiting batch counts on has changed."""
        self._changed.set()

    def _pick(self) -> list[tuple[Job, int]]:
        """A text of each request in turn, until the window is full, or there is a share for each free lane."""
        picked: list[tuple[Job, int]] = []
        share = min(self._window, -(-self.waiting // self._free))
        while self._jobs and len(picked) < share:
            job = self._jobs.popleft()
            if job.gone() or job.done.cancelled():
                self.waiting -= len(job.rows) - job.next
                job.done.cancel()
                continue
            picked.append((job, job.order[job.next]))
            job.next += 1
            self.waiting -= 1
            if job.next < len(job.rows):
                self._jobs.append(job)
        return picked

    async def _work(self, picked: list[tuple[Job, int]]) -> None:
        rows = [job.rows[index] for job, index in picked]
        start = monotonic()
        try:
            vectors = await asyncio.get_running_loop().run_in_executor(self._thread, self._embed, rows)
        except Exception as error:
            for job in {id(job): job for job, _ in picked}.values():
                self._give_up(job, error)
            return
        seconds = monotonic() - start
        self._seconds_a_text += SMOOTHING * (seconds / len(rows) / self._lanes - self._seconds_a_text)
        self._observe(len(rows))
        for (job, index), vector in zip(picked, vectors, strict=True):
            job.vectors[index] = vector
            job.left -= 1
            if not job.left and not job.done.done():
                job.done.set_result(None)

    def _give_up(self, job: Job, error: Exception) -> None:
        if job in self._jobs:
            self._jobs.remove(job)
            self.waiting -= len(job.rows) - job.next
        if not job.done.done():
            job.done.set_exception(error)
