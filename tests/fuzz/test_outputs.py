"""Outputs, labels and pairs that were damaged: refused, or computed; never a crash, and never a number that is none."""

from pathlib import Path

import pytest

from tests.fuzz.native import SANITIZERS, has_sanitizers, run_target
from tests.fuzz.outputs import compile_outputs, write_seeds
from tests.support.once import made_once

pytestmark = pytest.mark.tools("c++")


def compile_all(folder: Path) -> None:
    compile_outputs(folder, *(SANITIZERS if has_sanitizers(folder) else ("-O1",)))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_once(tmp_path_factory, "fuzz-outputs", compile_all) / "fuzz"


@pytest.mark.slow
def test_what_a_stranger_says_of_outputs_is_refused_or_computed(program: Path, tmp_path: Path) -> None:
    assert run_target(program, "outputs", write_seeds(tmp_path), limit="2000", seed=1) == 2000
