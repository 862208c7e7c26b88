"""The tests of ``test_program.py`` on the program for Windows, under wine."""

import json
import shutil
from pathlib import Path

from tests.support.golden import matches_golden
from tests.support.sample_program import Run, complaint, run_program
from tests.support.windows_sample import ON_WINDOWS, build_program, lay_program
from tests.unit.runner.test_program import *  # noqa: F403

from edgepack.context import BuildContext

pytestmark = ON_WINDOWS  # type: ignore[assignment]  # in place of what * brings


def test_a_program_without_a_server_says_so(
    sample: Path, tmp_path: Path, shared_context: BuildContext, update_golden: bool
) -> None:
    bundle = shutil.copytree(sample, tmp_path / "bundle")
    program = lay_program(bundle, build_program(shared_context, served=False))
    done = run_program(bundle, "serve")
    assert done.returncode == 2
    assert "without a server" in complaint(done)[0]
    assert "--set serve=true" in complaint(done)[1]
    assert b"WS2_32" not in program.read_bytes()
    said = run_program(bundle, "--help").stdout.decode()
    matches_golden("embed-help-without-server.txt", said, update=update_golden)
    assert json.loads(run_program(bundle, "--", "serve").stdout)[0]["text"] == "serve"


def test_info_says_what_the_bundle_for_windows_is(run: Run) -> None:
    said = run("--info").stdout.decode()
    assert "8 dimensions" in said
    assert "6 tokens at most" in said
    assert "windows x86_64" in said


def test_info_as_json_has_the_size_of_the_program(run: Run, sample: Path) -> None:
    said = json.loads(run("--info", "--json").stdout)
    assert said["model"]["dimension"] == 8
    assert "files" not in said
    assert said["sizes"]["runner"] == (sample / "embed.exe").stat().st_size
