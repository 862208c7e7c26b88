"""Work on several threads at once."""

from _thread import LockType, allocate_lock, start_new_thread  # threading would be imported for this alone
from collections.abc import Callable


def on_threads(count: int, work: Callable[[], None]) -> None:
    """Do ``work`` on so many threads, this one among them; on fewer where the system gives no more.

    What one of them raises is raised here when all have ended.
    """
    failures: list[BaseException] = []

    def attempt() -> None:
        try:
            work()
        except BaseException as failure:
            failures.append(failure)

    def attempt_and_end(end: LockType) -> None:
        attempt()
        end.release()

    ends = []
    for _ in range(count - 1):
        end = allocate_lock()
        end.acquire()
        try:
            start_new_thread(attempt_and_end, (end,))
        except RuntimeError:
            break
        ends.append(end)
    attempt()
    for end in ends:
        end.acquire()
    if failures:
        raise failures[0]
