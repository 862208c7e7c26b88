"""The section is in the report of a bundle."""

import json
import subprocess
import sys
from pathlib import Path

from edgepack.testing import write_model


def test_the_section_is_in_the_report(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model")
    words = ["bundle", "-t", "linux-x86-min", "-m", model, "-o", tmp_path, "--offline", "--json"]
    words += ["--set", "model.min_agreement=0", "--set", "model.min_top10=0"]
    done = subprocess.run(
        [sys.executable, "-m", "edgepack", *map(str, words)], capture_output=True, text=True, check=True
    )
    assert "bundles on one stick" in json.dumps(json.loads(done.stdout)["sections"])
