"""What is slow to make, made once for all processes that run tests."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The folder NAME, filled by ``make`` in the process that comes first; not to be changed by tests."""
    base = factory.getbasetemp()
    # With pytest-xdist, each worker's own temporary folder lies in that of the whole run.
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "made-once"
    shared.mkdir(exist_ok=True)
    folder, done = shared / name, shared / f"{name}.done"
    with FileLock(shared / f"{name}.lock"):
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            done.touch()
    return folder
