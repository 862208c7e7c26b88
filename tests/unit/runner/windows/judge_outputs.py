"""The tests of ``judge_outputs.py`` on the program for Windows, under wine."""

from tests.support.windows_sample import ON_WINDOWS
from tests.unit.runner.judge_outputs import *  # noqa: F403
from tests.unit.runner.windows.test_outputs import program, splade  # noqa: F401

pytestmark = ON_WINDOWS  # type: ignore[assignment]  # in place of what * brings
