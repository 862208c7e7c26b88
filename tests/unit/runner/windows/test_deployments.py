"""The tests of ``test_deployments.py`` on the program for Windows, under wine."""

from tests.support.windows_sample import ON_WINDOWS
from tests.unit.runner.test_deployments import *  # noqa: F403

pytestmark = ON_WINDOWS  # type: ignore[assignment]  # in place of what * brings
