"""Threads beside the main one."""

import threading

import pytest

from edgepack.runner.frozen.base import threads
from edgepack.runner.frozen.base.threads import on_threads


def test_the_work_is_done_on_so_many_threads_at_once() -> None:
    together = threading.Barrier(3, timeout=20)
    on_threads(3, lambda: (together.wait(), None)[1])
    assert not together.broken


def test_what_one_of_them_raises_is_raised_when_all_have_ended() -> None:
    ended = []
    first = threading.get_ident()

    def work() -> None:
        if threading.get_ident() != first:
            raise ValueError("beside")
        ended.append(first)

    with pytest.raises(ValueError, match="beside"):
        on_threads(2, work)
    assert ended == [first]


def test_without_threads_the_work_is_done_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads, "start_new_thread", refuse)
    done = []
    on_threads(4, lambda: done.append(1))
    assert done == [1]
