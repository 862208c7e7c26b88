"""What the kit cannot know: what this target is for."""

import json
import subprocess
import sys
from pathlib import Path

from edgepack.testing import write_model


def test_the_installer_installs(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model")
    words = ["bundle", "--target", "acme", "--model", model, "--output", tmp_path, "--offline", "--json"]
    words += ["--prefix", tmp_path / "installed"]
    done = subprocess.run(
        [sys.executable, "-m", "edgepack", *map(str, words)], capture_output=True, text=True, check=True
    )
    bundle = Path(json.loads(done.stdout)["directory"])
    subprocess.run(["sh", bundle / "install.sh"], check=True)
    said = subprocess.run(
        [tmp_path / "installed" / "embed", "hello"], capture_output=True, text=True, check=True
    )
    assert len(json.loads(said.stdout)[0]["embedding"]) == 32
