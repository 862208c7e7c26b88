"""The tests of ``test_search.py`` on the program for Windows, under wine."""

import signal
import subprocess
import time
from functools import partial
from pathlib import Path

from tests.support.sample_program import command_of
from tests.support.windows_sample import ON_WINDOWS
from tests.support.wine import left_in
from tests.unit.runner.test_search import *  # noqa: F403

pytestmark = ON_WINDOWS  # type: ignore[assignment]  # in place of what * brings


def test_told_to_stop_by_ctrl_c_it_leaves_no_half_of_an_index(sample: Path, tmp_path: Path) -> None:
    command = [*command_of(sample), "search", "--index", str(tmp_path / "index"), "cat"]
    heeding = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, stdin=subprocess.PIPE, preexec_fn=heeding) as program:
        assert program.stdin is not None
        program.stdin.write(b"a cat\n" * 100)
        program.stdin.flush()
        while not list(tmp_path.iterdir()):
            time.sleep(0.01)
        program.send_signal(signal.SIGINT)
        assert program.wait(60) == 128 + signal.SIGINT
    assert left_in(tmp_path) == []
