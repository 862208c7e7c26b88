"""The action for GitHub and the snippet for GitLab: read as YAML, and their steps run in bash, with an edgepack that only notes its calls."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.golden import ROOT

pytestmark = pytest.mark.tools("bash")

ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
EXPRESSION = re.compile(r"\$\{\{ (\S+) \}\}")

EDGEPACK = r"""#!/bin/bash
echo "edgepack $*" >> "$CALLS"
case "$1 $2" in
"--version "*) echo "edgepack 0.1.0" ;;
"runtime import") ! grep -q damaged "$3" ;;
"runtime export") case "$*" in *riscv64*|*EMPTY*) exit 2 ;; esac; [ -z "$NOTHING" ] || exit 2; echo new > "$3"; echo '{"objects": 207}' ;;
esac
"""
PYTHON = f"""#!/bin/bash
if [ "$1" = -m ]; then echo "python $*" >> "$CALLS"; else exec {sys.executable} "$@"; fi
"""
PIP = '#!/bin/bash\necho "pip $*" >> "$CALLS"\n'


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Programs that note how they were called, and a cache."""

    folder: Path
    saved: dict[str, dict[str, str]] = field(default_factory=dict)
    """Key of the cache → file → content."""

    def environment(self, **more: str) -> dict[str, str]:
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        return {"PATH": path, "CALLS": str(self.folder / "calls"), "HOME": str(self.folder), **more}

    @property
    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()

    def bash(self, script: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """As GitHub's ``shell: bash``."""
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        return subprocess.run(
            command, env=environment, cwd=self.folder, capture_output=True, text=True, check=False
        )

    def act(self, *, inputs: Mapping[str, str] | None = None, **environment: str) -> None:
        """All steps of the action."""
        known = {f"inputs.{name}": said["default"] for name, said in ACTION["inputs"].items()}
        known |= {f"inputs.{name}": value for name, value in (inputs or {}).items()}
        (self.folder / "calls").write_text("")
        temp = self.folder / "temp"
        subprocess.run(["bash", "-c", f"rm -rf {temp}; mkdir {temp}"], check=True)
        for step in STEPS:
            values = {
                name: EXPRESSION.sub(lambda found: known[found[1]], value)
                for name, value in {**step.get("env", {}), **step.get("with", {})}.items()
            }
            if "uses" in step:
                self._cache(step, values, known)
                continue
            output = temp / "output"
            output.write_text("")
            said = {"RUNNER_TEMP": str(temp), "GITHUB_OUTPUT": str(output), **values, **environment}
            done = self.bash(step["run"], self.environment(**said))
            assert done.returncode == 0, f"{step['name']}: {done.stderr}"
            for line in output.read_text().splitlines():
                name, _, value = line.partition("=")
                known[f"steps.{step['id']}.outputs.{name}"] = value

    def _cache(self, step: Mapping[str, Any], values: Mapping[str, str], known: Mapping[str, str]) -> None:
        folder = Path(values["path"])
        if "restore" in step["uses"]:
            kept = [files for key, files in self.saved.items() if key.startswith(values["restore-keys"])]
            for name, content in (kept or [{}])[-1].items():
                folder.mkdir(exist_ok=True)
                (folder / name).write_text(content)
        elif known["steps.export.outputs.objects"] != "0":
            files = {file.name: file.read_text() for file in folder.iterdir()}
            self.saved.setdefault(values["key"], files)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "bin").mkdir()
    for name, content in (("edgepack", EDGEPACK), ("python", PYTHON), ("pip", PIP)):
        (tmp_path / "bin" / name).write_text(content)
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "calls").touch()
    return Machine(folder=tmp_path)


def test_it_is_a_composite_action_whose_every_expression_is_known() -> None:
    assert ACTION["name"] and ACTION["description"] and ACTION["runs"]["using"] == "composite"
    known = {f"inputs.{name}" for name in ACTION["inputs"]}
    used = set()
    for step in STEPS:
        assert ("run" in step) != ("uses" in step)
        assert "run" not in step or step["shell"] == "bash"
        # A value that is pasted into a script could be a script.
        assert "${{" not in step.get("run", "")
        named = set(EXPRESSION.findall(str({**step.get("env", {}), **step.get("with", {})})))
        assert named <= known, step["name"]
        used |= named
        outputs = re.findall(r'echo "(\w+)=', step.get("run", ""))
        known |= {f"steps.{step['id']}.outputs.{name}" for name in outputs}
    assert known == used


def test_what_was_compiled_is_there_the_next_time(machine: Machine) -> None:
    machine.act()
    assert machine.calls == [
        "python -m pip install edgepack[build]",
        "edgepack --version",
        "edgepack build",
        (
            f"edgepack runtime export {machine.folder}/temp/edgepack-kernels/minimal-x86_64.tar.zst "
            "--kind minimal --arch x86_64 --offline --json"
        ),
    ]
    (key,) = machine.saved
    assert key == "edgepack-0.1.0-minimal-x86_64-207"
    machine.act()
    assert machine.calls[2:4] == [
        f"edgepack runtime import {machine.folder}/temp/edgepack-kernels/minimal-x86_64.tar.zst",
        "edgepack build",
    ]
    assert list(machine.saved) == [key], "the same objects are not kept twice"


def test_several_archives_are_kept_of_which_one_may_be_empty(machine: Machine) -> None:
    kernels = "minimal:x86_64 full:aarch64 minimal:riscv64"
    machine.act(inputs={"kernels": kernels, "command": "edgepack build one\nedgepack build two"})
    assert [call for call in machine.calls if call.startswith("edgepack build")] == [
        "edgepack build one",
        "edgepack build two",
    ]
    ((key, files),) = machine.saved.items()
    assert key == "edgepack-0.1.0-minimal-x86_64-full-aarch64-minimal-riscv64-414"
    assert set(files) == {"minimal-x86_64.tar.zst", "full-aarch64.tar.zst"}


def test_an_archive_that_cannot_be_imported_is_made_anew(machine: Machine) -> None:
    machine.saved["edgepack-0.1.0-minimal-x86_64-9"] = {"minimal-x86_64.tar.zst": "damaged\n"}
    machine.act()
    assert machine.saved["edgepack-0.1.0-minimal-x86_64-207"] == {"minimal-x86_64.tar.zst": "new\n"}


def test_where_nothing_was_compiled_nothing_is_kept(machine: Machine) -> None:
    machine.act(NOTHING="yes")
    assert machine.saved == {}


def test_a_build_that_fails_fails_the_action(machine: Machine) -> None:
    with pytest.raises(AssertionError, match="Build: "):
        machine.act(inputs={"command": "false\nedgepack build"})


def test_the_snippet_for_gitlab_imports_and_exports(machine: Machine) -> None:
    page = (ROOT / "docs/project.md").read_text(encoding="utf-8")
    (job,) = (
        found["models"]
        for block in re.findall(r"```yaml\n(# \.gitlab.*?)```", page, re.DOTALL)
        if (found := yaml.safe_load(block))
    )
    assert job["variables"]["KERNELS"].startswith(job["cache"]["paths"][0])
    for _ in range(2):
        done = machine.bash("\n".join(job["script"]), machine.environment(**job["variables"]))
        assert done.returncode == 0, done.stderr
    first = [
        "pip install edgepack[build]",
        "edgepack build",
        "edgepack runtime export kernels/minimal-x86_64.tar.zst",
    ]
    second = [first[0], "edgepack runtime import kernels/minimal-x86_64.tar.zst", *first[1:]]
    assert machine.calls == [*first, *second]


def test_the_workflow_in_the_pages_uses_the_action() -> None:
    page = (ROOT / "docs/project.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(# \.github.*?)```", page, re.DOTALL)
    steps = yaml.safe_load(block)["jobs"]["models"]["steps"]
    assert "edgepack/edgepack@main" in [step["uses"] for step in steps]
    listed = re.findall(
        r"^\| `(\w+)` \| `([^`]+)` \|", page.partition("input of the action")[2], re.MULTILINE
    )
    assert dict(listed[: len(ACTION["inputs"])]) == {
        name: said["default"] for name, said in ACTION["inputs"].items()
    }
