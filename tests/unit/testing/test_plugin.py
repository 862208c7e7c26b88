"""The kit as pytest runs it: what is collected, what is expected to fail, and what is said at the end."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.kiosk import install, prepare_site

pytestmark = pytest.mark.tools("python")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project, with the plugin on the path."""
    install(prepare_site(tmp_path / "site", monkeypatch), monkeypatch)
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def run(project: Path, *words: str, ini: str = "") -> subprocess.CompletedProcess[str]:
    (project / "pytest.ini").write_text(f"[pytest]\n{ini}")
    paths = {"PYTHONPATH": str(project.parent / "site"), "EDGEPACK_CACHE": str(project.parent / "cache")}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--color=no", *words]
    return subprocess.run(
        command, cwd=project, env={**os.environ, **paths}, capture_output=True, text=True, check=False
    )


CHEAP = "hooks-are-marked or unknown-option or requires-edgepack"


@pytest.mark.slow
def test_a_target_brings_its_plugin_and_what_was_left_out_is_said(project: Path) -> None:
    (project / "test_own.py").write_text("def test_hooks_are_marked(): pass\n")
    done = run(project, "--edgepack-target", "kiosk-one", "-v", "-k", CHEAP)
    assert done.returncode == 0, done.stdout
    for name in ("kiosk::hooks-are-marked", "kiosk::requires-edgepack", "kiosk-one::unknown-option"):
        assert f"edgepack::{name} PASSED" in done.stdout
    assert re.search(r"collected \d+ items / \d+ deselected / 3 selected", done.stdout), done.stdout
    assert "3 checks hold" in done.stdout
    assert "were deselected" in done.stdout


@pytest.mark.slow
def test_a_plugin_brings_its_targets(project: Path) -> None:
    done = run(project, "--edgepack-plugin", "kiosk", "--collect-only", "-q")
    assert "edgepack::kiosk::loads" in done.stdout
    assert "edgepack::kiosk-one::builds" in done.stdout


def test_a_failure_says_rule_and_remedy_and_can_be_expected(project: Path) -> None:
    code = project.parent / "site/edgepack_kiosk/__init__.py"
    code.write_text(code.read_text().replace("    api.read_options(target, OPTIONS)\n", ""))
    words = ("--edgepack-target", "kiosk-one", "-k", "unknown-option or unknown-platform")
    done = run(project, *words)
    assert done.returncode == 1
    assert "rule:  An option that the builder does not know is refused" in done.stdout
    assert "seen:  the option no_such_option was taken" in done.stdout
    assert "do:    let `make` call api.read_options" in done.stdout
    assert "1 check holds, 1 does not" in done.stdout
    assert "Traceback" not in done.stdout
    expected = run(project, *words, ini="edgepack_xfail =\n    kiosk-one/unknown-option: until 1.4\n")
    assert expected.returncode == 0, expected.stdout
    assert "1 check holds, 1 is known not to" in expected.stdout
    stale = run(project, *words, ini="edgepack_xfail =\n    unknown-option: old\n    unknown-platform: old\n")
    assert stale.returncode == 1
    assert "[XPASS(strict)]" in stale.stdout


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("line", "words"),
    [("unknown-option", "has no reason"), ("unknown-opinion: no", "there is no check unknown-opinion")],
)
def test_what_is_expected_to_fail_is_named_rightly(project: Path, line: str, words: str) -> None:
    done = run(project, "--edgepack-target", "kiosk-one", "-k", CHEAP, ini=f"edgepack_xfail =\n    {line}\n")
    assert done.returncode == 4
    assert words in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("flag", "words"), [("target", "there is no target kiosk-on (did you mean kiosk-one?)"), ("plugin", "there is no plugin kiosk-on")])  # fmt: skip
def test_a_name_that_is_wrong_is_said(project: Path, flag: str, words: str) -> None:
    done = run(project, f"--edgepack-{flag}", "kiosk-on")
    assert done.returncode == 4
    assert words in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("setting", [True, False])
def test_a_model_that_is_not_there_is_said(project: Path, setting: bool) -> None:
    words = [] if setting else ["--edgepack-model", "models/t5"]
    ini = "edgepack_model =\n    models/t5\n" if setting else ""
    done = run(project, "--edgepack-target", "kiosk-one", *words, ini=ini)
    assert done.returncode == 4
    assert "--edgepack-model models/t5: there is no such folder" in done.stderr


@pytest.mark.slow
def test_it_is_light_while_it_is_not_asked_for(project: Path) -> None:
    (project / "test_own.py").write_text(
        "import sys\ndef test_own():\n    print(sorted(name for name in sys.modules if name.startswith('edgepack')))\n"
    )
    done = run(project, "-s")
    assert "'edgepack.testing.plugin'" in done.stdout
    for name in ("edgepack.testing.items", "edgepack.plugins", "numpy"):
        assert name not in done.stdout
