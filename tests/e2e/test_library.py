"""A bundle made from Python."""

from pathlib import Path

import numpy as np
import pytest

import edgepack

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]


@pytest.mark.slow
def test_a_bundle_is_made_run_reported_and_verified(tiny_model: Path, tmp_path: Path) -> None:
    made = edgepack.bundle(
        tiny_model,
        target="linux-x86-min",
        output=tmp_path,
        packages=("deb",),
        settings={"model.min_cosine": 0.5, "model.min_agreement": 0, "model.min_top10": 0},
        offline=True,
    )
    assert made.path == tmp_path / "tiny-bert-linux-x86-min"
    assert made.archive.is_file() and [each.suffix for each in made.packages] == [".deb"]
    assert made.verification.status == "passed"
    vectors = made.embed(["a cat", "a dog"])
    assert vectors.shape == (2, made.manifest["model"]["dimension"]) and vectors.dtype == np.float32
    with pytest.raises(TypeError, match="a list of texts"):
        made.embed("a cat")
    again = edgepack.report(made.path, html=tmp_path / "report.html")
    assert again.archive_bytes == made.report.archive_bytes
    page = (tmp_path / "report.html").read_text()
    assert "<!doctype html>" in page
    assert '<th scope="row">onnxruntime</th>' in page and '<th scope="row">golden.json</th>' not in page
    assert edgepack.verify(made.path, model=tiny_model, offline=True).status == "passed"
