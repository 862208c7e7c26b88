"""A little fuzzing for each parser in C++. Inputs that crashed once are tests of their own beside what they crashed."""

from pathlib import Path

import pytest

from tests.fuzz.native import TARGETS, compile_targets, run_target, write_seeds
from tests.support.once import made_once

pytestmark = pytest.mark.tools("c++")

INPUTS = "500"


def compile_all(folder: Path) -> None:
    # For a few inputs: that compiles in a third of the time.
    compile_targets(folder, "-O0")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_once(tmp_path_factory, "fuzz", compile_all) / "fuzz"


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_that_a_stranger_wrote_brings_a_parser_down(
    program: Path, tmp_path: Path, target: str
) -> None:
    # The same inputs each time: a test that fails is one that failed before the change was made. `make fuzz` seeks new ones.
    runs = run_target(program, target, write_seeds(tmp_path, target), limit=INPUTS, seed=1)
    assert runs == int(INPUTS)
