"""Released ONNX Runtimes out of PyPI's own wheels: with ``--slow``, for they are fetched."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from tests.support.command import edgepack
from tests.support.newer_models import write_new_model

from edgepack.console import Story
from edgepack.files.elf import glibc_floor, needed_libraries
from edgepack.models.ort.releases import stock_release
from edgepack.models.read.tokenizer import load_tokenizer
from edgepack.models.reference import reference_vectors
from edgepack.plugins.context import HostContext, host_context

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
RELEASE = "1.31.1"


@pytest.fixture
def fetching() -> Iterator[HostContext]:
    """A context on the user's cache that may fetch wheels."""
    with host_context(story=Story(quiet=True), offline=False) as made:
        yield made


def test_a_newer_release_judges_a_model_that_only_it_runs(tmp_path: Path, fetching: HostContext) -> None:
    source = write_new_model(tmp_path)
    (vector,) = reference_vectors(source, ["a cat"], context=fetching)
    table = numpy_helper.to_array(onnx.load(str(tmp_path / "model.onnx")).graph.initializer[0])
    mean = table[load_tokenizer(source).encode("a cat").ids].mean(axis=0)
    assert np.abs(vector - mean / np.linalg.norm(mean)).max() < 1e-5


@pytest.mark.parametrize("target", ["linux-x86-min", "linux-x86"])
def test_a_model_that_no_reduced_runtime_runs_ships(target: str, tmp_path: Path) -> None:
    """Native and frozen: made, proved, verified; what it came from is recorded, what it costs is said."""
    model = tmp_path / "model"
    model.mkdir()
    write_new_model(model)
    settings = [
        "model.recipe=fp32",
        "runtime=stock",
        f"onnxruntime={RELEASE}",
        "model.format=onnx",
        'budget.download="60 MB"',
    ]
    words = [word for setting in settings for word in ("--set", setting)]
    made = edgepack("bundle", "-t", target, "-m", str(model), *words, "-o", str(tmp_path / "out"))
    assert made.returncode == 0, made.stderr
    (bundle,) = (path for path in (tmp_path / "out").iterdir() if path.is_dir())
    manifest = json.loads((bundle / "manifest.json").read_text())
    library = bundle / manifest["runtime"]["library"]
    assert (manifest["runtime"]["kind"], manifest["runtime"]["version"]) == ("stock", RELEASE)
    assert glibc_floor(library) == "2.28" and "librt.so.1" not in needed_libraries(library)
    wheel = stock_release(RELEASE).wheels["x86_64"]
    provenance = bundle.with_name(f"{bundle.name}.provenance.json").read_text()
    assert wheel.sha256 in provenance and "libstdc++6_10.2.1-6_amd64.deb" in provenance
    assert wheel.sha256 in (bundle / "LICENSES/sbom.cdx.json").read_text()
    report = json.loads(bundle.with_name(f"{bundle.name}.report.json").read_text())
    (price,) = (each for each in report["sections"] if each["name"] == "stock-runtime")
    assert "which edgepack compiles, lacks opset 26" in price["rows"][1]["value"]
    refused = edgepack("bundle", "-t", target, "-m", str(model), "-o", str(tmp_path / "none"))
    assert "uses BitCast of opset 26" in refused.stderr and not (tmp_path / "none").exists()
