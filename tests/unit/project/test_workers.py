"""Workers die; cells do not go with them, but for the one that kills its workers."""

import os
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.support.fleet import orders_of, survive

from edgepack.project.jobs import Job, Result
from edgepack.project.workers import elsewhere, in_processes, starting_safely


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What code of the current folder would leave, where a stranger's project has a file as a module of Python's is called."""
    mark = tmp_path / "mark"
    (tmp_path / "signal.py").write_text(f"open({str(mark)!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    return mark


@pytest.mark.slow
def test_a_cell_that_kills_its_workers_fails_alone(tmp_path: Path, stranger: Path) -> None:
    names = ("one", "once", "two", "always", "three")
    found = list(in_processes(orders_of(*names, claims=tmp_path), jobs=2, do=survive))
    assert sorted((str(order.cell.wanted.model), result.state) for order, result in found) == sorted(
        (name, "failed" if name == "always" else "made") for name in names
    )
    (error,) = (result.error for _, result in found if result.error)
    assert error.message == "always:t was not made: its worker was killed 3 times"
    assert "--jobs" in str(error.hint)
    assert not stranger.exists()


@pytest.mark.tools("python")
def test_workers_import_nothing_from_the_current_folder(stranger: Path) -> None:
    with starting_safely():
        subprocess.run([sys.executable, "-c", "import signal"], check=True)
    assert not stranger.exists() and "PYTHONSAFEPATH" not in os.environ
    subprocess.run([sys.executable, "-c", "import signal"], check=True)
    assert stranger.exists()


def test_a_cell_whose_future_raises_fails_alone(tmp_path: Path) -> None:
    def do(order: Job) -> Result:
        if order.cell.wanted.model == "bad":
            raise RuntimeError("killed worker\nand more")
        return survive(order)

    with ThreadPoolExecutor(2) as executor:
        found = list(elsewhere(orders_of("one", "bad", "two", claims=tmp_path), executor, do=do))
    assert sorted(result.state for _, result in found) == ["failed", "made", "made"]
    (error,) = (result.error for _, result in found if result.error)
    assert error.message == "bad:t was not made: its workers were lost: RuntimeError killed worker"


def test_an_executor_that_forgets_its_cells_is_said_so(tmp_path: Path) -> None:
    class Forgetful(ThreadPoolExecutor):
        def submit(self, *_: Any, **__: Any) -> Future[Any]:
            future: Future[Any] = Future()
            future.set_exception(ConnectionError())
            return future

    with Forgetful(1) as executor:
        ((_, result),) = elsewhere(orders_of("one", claims=tmp_path), executor)
    assert str(result.error) == "one:t was not made: its workers were lost: ConnectionError"
