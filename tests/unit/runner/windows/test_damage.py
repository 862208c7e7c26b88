"""The tests of ``test_damage.py`` on the program for Windows, under wine."""

from pathlib import Path

from tests.support.sample_program import complaint, run_program
from tests.support.windows_sample import ON_WINDOWS
from tests.unit.runner.test_damage import *  # noqa: F403
from tests.unit.runner.test_program import replace

pytestmark = ON_WINDOWS  # type: ignore[assignment]  # in place of what * brings


def test_a_table_that_is_none_is_said_to_be_so(copy: Path) -> None:
    replace(copy, "model/model.onnx", b"not a table")
    done = run_program(copy, "a cat")
    assert done.returncode == 4
    assert "model/model.onnx is damaged: it is not the table that was made" in complaint(done)[0]
