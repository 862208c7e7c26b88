"""What tutorials show is written as they say, installed, and its tests and the kit pass."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from edgepack.template import write_plugin

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]


def files_in(page: Path) -> dict[str, str]:
    """Path → content: each fenced block that stands below a line with a path alone."""
    return dict(re.findall(r"^`([\w./]+)`\n\n```\w+\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL))


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
