"""edgepack's own plugins pass the kit that others are held to."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.timeout(1800)]

PLUGINS = (
    "cuda",
    "dask",
    "deb",
    "decoders",
    "fsspec",
    "levels",
    "nomic",
    "npm",
    "tensorrt",
    "updates",
    "wheel",
)


def run(folder: Path, *words: str) -> str:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_the_passes_and_recipes_of_our_own(tmp_path: Path) -> None:
    run(tmp_path, "--edgepack-plugin", "edgepack", "-k", "not types")


def test_plugins_without_building_their_targets(tmp_path: Path) -> None:
    words = (word for name in PLUGINS for word in ("--edgepack-plugin", name))
    run(tmp_path, *words, "-k", "not types")


# The template's tests have the kit build every day.
@pytest.mark.slow
@pytest.mark.parametrize("target", ["linux-x86-static", "linux-x86-min", "linux-x86"])
def test_a_target_for_this_machine(tmp_path: Path, target: str) -> None:
    said = run(tmp_path, "--edgepack-target", target)
    assert "NOT CHECKED" not in said
    assert f"{target} with {'kit-static' if 'static' in target else 'kit-model'}" in said


@pytest.mark.slow
def test_a_target_for_another_processor(tmp_path: Path) -> None:
    said = run(tmp_path, "--edgepack-target", "linux-arm64-min")
    assert "NOT CHECKED: 3," in said, "the command line of a program that runs under an emulator"


@pytest.mark.slow
def test_a_target_for_browsers(tmp_path: Path, online: object) -> None:
    run(tmp_path, "--edgepack-target", "web-wasm")
