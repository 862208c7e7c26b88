"""Builds of a target that asks for the check."""

import subprocess
import sys
from pathlib import Path

import pytest

from edgepack.testing import write_model

TARGET = """
schema = 1
summary = "a device"
builder = "linux"
[platform]
os = "linux"
arch = "x86_64"
glibc = "2.28"
[model]
recipe = "int8"
[options]
runner = "native"
[x-acme]
largest = LARGEST
"""


@pytest.mark.parametrize(("largest", "code"), [(1, 11), (10_000_000, 0)])
def test_a_model_that_is_too_large_is_refused(tmp_path: Path, largest: int, code: int) -> None:
    target = tmp_path / "device.toml"
    target.write_text(TARGET.replace("LARGEST", str(largest)))
    model = write_model(tmp_path / "model")
    words = ["bundle", "-t", target, "-m", model, "-o", tmp_path / "dist", "--offline"]
    done = subprocess.run(
        [sys.executable, "-m", "edgepack", *map(str, words)], capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    assert ("the device takes 1" in done.stderr) == (code != 0)
