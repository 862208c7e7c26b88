"""The tests of ``test_outputs.py`` on the program for Windows, under wine."""

from pathlib import Path

import pytest
from tests.support.given import SPARSE, write_given
from tests.support.once import made_once
from tests.support.windows_sample import ON_WINDOWS, build_program, lay_program
from tests.unit.runner.test_outputs import *  # noqa: F403

from edgepack.context import BuildContext

pytestmark = ON_WINDOWS  # type: ignore[assignment]  # in place of what * brings


@pytest.fixture(scope="module")  # type: ignore[no-redef]
def program(tmp_path_factory: pytest.TempPathFactory, shared_context: BuildContext) -> Path:
    def make(folder: Path) -> None:
        lay_program(folder, build_program(shared_context, given=True))

    return made_once(tmp_path_factory, "windows-given", make) / "embed.exe"


@pytest.fixture(scope="module")  # type: ignore[no-redef]
def splade(sample: Path, program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_given(sample, tmp_path_factory.mktemp("splade") / "bundle", SPARSE, program)
