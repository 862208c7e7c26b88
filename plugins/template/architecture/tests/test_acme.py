"""A model of this kind becomes vectors. Compare real ones with the original: graphs.difference_from_judge."""

import json
import subprocess
import sys
from pathlib import Path

from edgepack.testing import write_model


def test_a_model_of_this_kind_is_made(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "acme", "architectures": ["Acme"]}
    (folder / "config.json").write_text(json.dumps(config))
    words = ["quantize", folder, "--recipe", "fp32", "--output", tmp_path / "made", "--offline"]
    subprocess.run([sys.executable, "-m", "edgepack", *map(str, words)], check=True)
    assert list((tmp_path / "made").glob("model.*"))
