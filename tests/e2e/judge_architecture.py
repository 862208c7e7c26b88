"""A bundle of a model whose graph a plugin writes, against sentence-transformers."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from tests.support.bundles import made_bundle
from tests.support.electra import install_electra, write_electra

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(1800),
    pytest.mark.builds("of a model that a plugin reads"),
]

TEXTS = ["hello small world", "another text, of a few more words"]


def test_the_bundle_has_the_vectors_of_the_original(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_electra(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    model = write_electra(tmp_path / "electra")
    bundle = made_bundle("linux-x86-min", tmp_path / "out", "--model", str(model), "--recipe", "fp32")
    said = "".join(json.dumps({"text": text}) + "\n" for text in TEXTS)
    done = subprocess.run(
        [bundle.program, "--jsonl", "--out", "jsonl"], input=said, capture_output=True, text=True, check=True
    )
    found = np.array([json.loads(line)["embedding"] for line in done.stdout.splitlines()])
    expected = SentenceTransformer(str(model), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=0)
    assert bundle.manifest["model"]["graph_by"] == "edgepack-electra 1.2, revision 1"
    assert "is written by a plugin" in bundle.manifest["model"]["warnings"][0]
