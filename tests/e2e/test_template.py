"""What ``edgepack plugin new`` writes, for each axis: installed as a wheel beside edgepack's, its own tests and the kit pass."""

import json
import re
import subprocess
from email import message_from_string
from pathlib import Path

import pytest
from tests.support.strangers import ROOT, install, new_environment, run, site_packages

from edgepack import template

AXES = template.axes()
OFTEN = ("builder", "package", "source")
"""What is written most often; the others' own tests and the kit on them are for ``--slow``."""

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts folder of an environment with edgepack, and a plugin of each axis, which that wrote."""
    folder = tmp_path_factory.mktemp("template")
    scripts = new_environment(folder)
    for axis in AXES:
        run(scripts, "plugin", "new", f"our-{axis}", "--axis", axis, "--output", folder)
    install(scripts, *(folder / f"edgepack-our-{axis}" for axis in AXES))
    return scripts


def test_the_wheel_holds_every_file_of_the_source(environment: Path) -> None:
    package = site_packages(environment) / "edgepack"
    for source, place in (
        (ROOT / "src/edgepack", package),
        (ROOT / "plugins/template", package / "plugin_template"),
    ):
        for file in source.rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                assert (place / file.relative_to(source)).is_file(), f"{file} is not in the wheel"


def test_the_wheel_s_description_leads_to_pages_that_are_there(environment: Path) -> None:
    (info,) = site_packages(environment).glob("edgepack-*.dist-info")
    metadata = message_from_string((info / "METADATA").read_text(encoding="utf-8"))
    text = metadata.get_payload()
    assert isinstance(text, str) and text.startswith("# edgepack\n")
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert (info / "licenses/LICENSE").is_file()
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    ours = [link for link in links if link.startswith("https://github.com/edgepack/edgepack/")]
    assert len(ours) > 10
    assert [link for link in links if "://" not in link] == []
    for link in ours:
        path = re.sub(r".*?/(blob|raw)/main/|#.*", "", link)
        assert (ROOT / path).exists(), link


def test_they_are_listed_like_our_own(environment: Path) -> None:
    plugins = {row["plugin"]: row for row in json.loads(run(environment, "plugins", "--json"))}
    for axis in AXES:
        assert plugins[f"our-{axis}"]["state"] == "ready"
        assert plugins[f"our-{axis}"]["distribution"] == f"edgepack-our-{axis} 0.1.0"
    targets = {row["target"]: row for row in json.loads(run(environment, "targets", "--json"))}
    assert targets["our-builder"]["state"] == "ready"
    assert "linux-x86-min" in targets


@pytest.mark.parametrize(
    "axis", [pytest.param(axis, marks=() if axis in OFTEN else pytest.mark.slow) for axis in AXES]
)
def test_its_own_tests_and_the_kit_pass(environment: Path, axis: str) -> None:
    folder = environment.parents[1] / f"edgepack-our-{axis}"
    done = subprocess.run(
        [environment / "python", "-m", "pytest", "-p", "no:cacheprovider", "-rs"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "checks hold" in done.stdout
    # The kit has no model that such a plugin finds, or writes the graph of: its author names one.
    assert ("NOT CHECKED" in done.stdout) == (axis in ("architecture", "source"))
    assert done.stdout.count("--edgepack-model") == (1 if axis in ("architecture", "source") else 0)
