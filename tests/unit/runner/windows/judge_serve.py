"""The tests of ``judge_serve.py`` on the program for Windows, under wine."""

from tests.support.windows_sample import ON_WINDOWS
from tests.unit.runner.judge_serve import *  # noqa: F403

pytestmark = ON_WINDOWS  # type: ignore[assignment]  # in place of what * brings
