"""What ``edgepack plugin new`` writes and refuses; e2e tests install and run it."""

import json
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgepack import template
from edgepack.cli import cli
from edgepack.errors import OutputError, UsageError
from edgepack.plugins.spec import INTERFACES


def test_there_is_a_template_for_every_axis() -> None:
    assert set(template.axes()) == set(INTERFACES)


@pytest.mark.parametrize("axis", template.axes())
def test_it_is_called_by_its_own_name_everywhere(tmp_path: Path, axis: str) -> None:
    folder = template.write_plugin("red-kiosk", axis=axis, output=tmp_path)
    assert folder == tmp_path / "edgepack-red-kiosk"
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    assert {"pyproject.toml", "README.md", ".github/workflows/test.yml"} < files.keys()
    assert {
        "edgepack_red_kiosk/__init__.py",
        "edgepack_red_kiosk/py.typed",
        "tests/test_red_kiosk.py",
    } < files.keys()
    for name, path in files.items():
        text = path.read_text()
        assert "acme" not in (name + text).lower()
        if name.endswith(".py"):
            compile(text, name, "exec")
        if name.endswith(".toml"):
            tomllib.loads(text)
    project = tomllib.loads(files["pyproject.toml"].read_text())["project"]
    assert project["name"] == "edgepack-red-kiosk"
    assert project["entry-points"]["edgepack"] == {"red-kiosk": "edgepack_red_kiosk"}


@pytest.mark.parametrize(
    "name", ["Kiosk", "red_kiosk", "-red", "red--kiosk", "", "9lives", "../up", "edgepack"]
)
def test_names_that_cannot_be_one_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="invalid plugin name") as caught:
        template.write_plugin(name, axis="builder", output=tmp_path)
    assert "raspberry" in str(caught.value.hint)
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_stays(tmp_path: Path) -> None:
    (tmp_path / "edgepack-kiosk").mkdir()
    with pytest.raises(OutputError, match="already exists"):
        template.write_plugin("kiosk", axis="builder", output=tmp_path)


def test_an_axis_without_template_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no template for axis 'pas' \(did you mean pass\?\)") as caught:
        template.write_plugin("kiosk", axis="pas", output=tmp_path)
    assert ", builder, " in str(caught.value.hint)


def test_the_command_says_what_comes_next(tmp_path: Path) -> None:
    words = ["plugin", "new", "kiosk", "--axis", "pass", "--output", str(tmp_path)]
    said = CliRunner().invoke(cli, words)
    assert said.exit_code == 0
    assert f"pip install -e '{tmp_path}/edgepack-kiosk[test]'" in said.output
    words[2] = "other"
    made = json.loads(CliRunner().invoke(cli, [*words, "--json"]).stdout)
    assert made == {"directory": str(tmp_path / "edgepack-other")}


def test_two_axes_are_refused_and_it_is_said_how_both_are_had(tmp_path: Path) -> None:
    words = ["plugin", "new", "kiosk", "--axis", "pass", "--axis", "checks", "--output", str(tmp_path)]
    refused = CliRunner().invoke(cli, words).exception
    assert isinstance(refused, UsageError)
    assert refused.message == "--axis is given 2 times: pass, checks; a new plugin has one axis"
    assert "return all Specs from one edgepack_specs" in str(refused.hint)
    assert list(tmp_path.iterdir()) == []
