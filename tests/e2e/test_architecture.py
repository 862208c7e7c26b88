"""Bundles of models whose graphs plugins write: one against sentence-transformers, and with ``--slow`` one of each architecture."""

import json
from pathlib import Path

import pytest
from tests.support.bundles import made_bundle
from tests.support.families import FAMILIES, write_family

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["fp32", "int8-download"])
@pytest.mark.parametrize("kind", FAMILIES)
def test_every_architecture_has_a_bundle_that_verifies(tmp_path: Path, kind: str, recipe: str) -> None:
    """With all kernels that it needs, on all processors. Its 60 words make many texts alike, whose nearest neighbour is a matter of chance."""
    folder = tmp_path / f"sentence-{kind}"
    write_family(folder, kind, std=0.05)
    (folder / "modules.json").write_text(MODULES)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    limits = ("model.min_cosine=0.9", "model.min_agreement=0.5", "model.min_top10=0.5")
    options = [word for limit in limits for word in ("--set", limit)]
    bundle = made_bundle("linux-x86-min", tmp_path, "-m", str(folder), "--recipe", recipe, *options)
    report = json.loads(Path(f"{bundle.directory}.report.json").read_text())["verification"]
    assert report["status"] == "passed"
    assert report["min_cosine"] >= (0.99999 if recipe == "fp32" else 0.9)
    assert report["batch_cosine"] >= 0.999


MODULES = json.dumps(
    [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
)
