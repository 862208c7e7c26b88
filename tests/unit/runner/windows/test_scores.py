"""The tests of ``test_scores.py`` on the program for Windows, under wine."""

from pathlib import Path

import pytest
from tests.support.once import made_once
from tests.support.scored import write_scored
from tests.support.windows_sample import ON_WINDOWS, build_program, lay_program
from tests.unit.runner.test_scores import *  # noqa: F403

from edgepack.context import BuildContext

pytestmark = ON_WINDOWS  # type: ignore[assignment]  # in place of what * brings


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory, shared_context: BuildContext) -> Path:
    def make(folder: Path) -> None:
        lay_program(folder, build_program(shared_context, scored=True))

    return made_once(tmp_path_factory, "windows-scored", make) / "embed.exe"


@pytest.fixture(scope="module")  # type: ignore[no-redef]
def ranker(sample: Path, program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scored(sample, tmp_path_factory.mktemp("windows-rank") / "bundle", "rank", program)


@pytest.fixture(scope="module")  # type: ignore[no-redef]
def classifier(sample: Path, program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scored(sample, tmp_path_factory.mktemp("windows-classes") / "bundle", "classes", program)
