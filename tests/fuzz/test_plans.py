"""Plans that were damaged: refused, or computed; never a crash."""

import struct
import subprocess
from pathlib import Path

import pytest

from tests.fuzz.native import SANITIZERS, has_sanitizers, run_target
from tests.fuzz.plans import compile_plans, write_seeds
from tests.support.once import made_once

pytestmark = pytest.mark.tools("c++")


def compile_all(folder: Path) -> None:
    compile_plans(folder / "fuzz", "-O1")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_once(tmp_path_factory, "fuzz-plans", compile_all) / "fuzz"


@pytest.fixture
def seeds(tmp_path: Path) -> list[Path]:
    return write_seeds(tmp_path)


def test_damaged_plans_are_refused_or_computed(program: Path, seeds: list[Path]) -> None:
    assert run_target(program, "plan", seeds, limit="2000", seed=1) == 2000


@pytest.mark.slow
def test_sanitizers_find_nothing(tmp_path: Path, seeds: list[Path]) -> None:
    if not has_sanitizers(tmp_path):
        pytest.skip("the compiler here has no sanitizers")
    program = compile_plans(tmp_path / "fuzz", *SANITIZERS)
    assert run_target(program, "plan", seeds, limit="60s", seed=2) > 1000


# Of the encoder's records, from the last step back: the step, the field's place in it, and what it becomes.
@pytest.mark.parametrize(
    ("step", "place", "value"),
    [
        pytest.param(5, 32 + 4 * 6, 260, id="an even number of distances"),
        pytest.param(5, 32 + 4 * 6, 257, id="fewer distances than the longest text has"),
        pytest.param(5, 32 + 4 * 4, 64, id="values beside the buffer"),
        pytest.param(4, 32 + 4 * 3, 256, id="a zero that is no byte"),
        pytest.param(0, 4, 1, id="added to what was never written"),
        pytest.param(7, 8, 0xFFFFFFFF, id="a product of nothing"),
        pytest.param(2, 32 + 4, 1 << 31, id="rows beyond the file"),
        pytest.param(3, 72 + 8, 1 << 40, id="weights beyond the file"),
        pytest.param(3, 72 + 8, 0, id="no weights"),
        pytest.param(3, 0, 9, id="an unknown step"),
    ],
)
def test_a_damaged_field_is_refused(
    program: Path, tmp_path: Path, seeds: list[Path], step: int, place: int, value: int
) -> None:
    content = bytearray(seeds[0].read_bytes())
    (steps_at,) = struct.unpack_from("<Q", content, 56)
    assert opened(program, tmp_path, bytes(content))
    struct.pack_into("<Q" if place >= 72 else "<I", content, steps_at + 104 * step + place, value)
    assert not opened(program, tmp_path, bytes(content))


def opened(program: Path, folder: Path, content: bytes) -> bool:
    """Whether a plan is computed."""
    (folder / "one").write_bytes(content)
    said = subprocess.run(
        [program, "plan", "0", "1", folder / "last", folder / "one"],
        capture_output=True,
        encoding="utf-8",
        check=True,
        env={"SAY": "1"},
    )
    return "computed" in said.stdout
