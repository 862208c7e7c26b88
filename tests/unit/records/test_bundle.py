"""A runner as plugins wrote it before."""

from dataclasses import replace
from pathlib import Path

import pytest

from edgepack.records.bundle import RunnerArtifact


def test_outputs_by_their_former_name_are_taken_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match=r"outputs=… now") as warned:
        runner = RunnerArtifact(kind="native", directory=Path(), program="embed", gives=("scores",))
    assert warned[0].filename == __file__
    assert runner.outputs == ("scores",)
    assert replace(runner, program="other").outputs == ("scores",)
