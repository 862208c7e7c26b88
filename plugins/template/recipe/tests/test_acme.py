"""What the recipe is for: a smaller model."""

import subprocess
import sys
from pathlib import Path

from edgepack.testing import write_model


def test_the_model_becomes_small(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model")
    sizes = {}
    for recipe in ("fp32", "acme"):
        made = tmp_path / recipe
        words = ["quantize", model, "--recipe", recipe, "--output", made, "--offline"]
        subprocess.run([sys.executable, "-m", "edgepack", *map(str, words)], check=True)
        sizes[recipe] = (made / "model.ort").stat().st_size
    assert sizes["acme"] < sizes["fp32"]
