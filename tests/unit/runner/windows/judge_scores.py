"""The tests of ``judge_scores.py`` on the program for Windows, under wine."""

from tests.support.windows_sample import ON_WINDOWS
from tests.unit.runner.judge_scores import *  # noqa: F403
from tests.unit.runner.windows.test_scores import program, ranker  # noqa: F401

pytestmark = ON_WINDOWS  # type: ignore[assignment]  # in place of what * brings
