"""What tutorials show is written as they say, installed, and its tests and the kit pass; what they have people type runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.families import write_family
from tests.support.pages import PAGES, blocks

from edgepack.template import write_plugin

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]


def files_in(page: Path) -> dict[str, str]:
    """Path → content: each fenced block that stands below a line with a path alone."""
    return dict(re.findall(r"^`([\w./]+)`\n\n```\w+\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL))


@pytest.mark.slow
def test_a_target_in_an_afternoon(tmp_path: Path) -> None:
    folder = write_plugin("kiosk", axis="builder", output=tmp_path)
    shown = files_in(ROOT / "docs/tutorials/target.md")
    assert len(shown) == 5
    for path, text in shown.items():
        (folder / path).write_text(text)
    site = tmp_path / "site"
    pip = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "--target",
        site,
    ]
    subprocess.run([sys.executable, *map(str, pip), str(folder)], check=True)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "NOT CHECKED" not in done.stdout


RUN = [page for page in PAGES if any(block.run for block in blocks(page))]


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
def test_what_a_page_has_people_type_runs(page: Path, tmp_path: Path) -> None:
    """The blocks that are marked so, one after the other in one shell, on a small model in ``my-model``; nothing is fetched."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, words in {"edgepack": "-m edgepack", "python3": ""}.items():
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
        program.chmod(0o755)
    write_family(tmp_path / "my-model", "bert", hidden_size=64, intermediate_size=128)
    typed = "".join(block.text for block in blocks(page) if block.run)
    done = subprocess.run(
        ["bash", "-euxo", "pipefail", "-c", typed],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "HTTPS_PROXY": "http://127.0.0.1:9"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
