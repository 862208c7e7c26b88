"""The example plugin for OpenVINO, installed into an environment of its own: its wheel is fetched, 59 MB."""

import json
import subprocess
from pathlib import Path

import pytest
from tests.support.strangers import ROOT, copied, install, new_environment, run

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(3600)]

LARGEST_RUNTIME = 90_000_000
LARGEST_PROGRAM = 250_000


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("openvino")
    scripts = new_environment(folder)
    install(scripts, copied(ROOT / "plugins" / "examples" / "edgepack_openvino", folder / "plugin"))
    return scripts


def test_openvino_runs_the_model(environment: Path, tiny_model: Path, tmp_path: Path) -> None:
    run(environment, "fetch", "--target", "linux-x86-openvino", "--model", tiny_model)
    made = json.loads(
        run(
            environment,
            "bundle",
            "-t",
            "linux-x86-openvino",
            "-m",
            tiny_model,
            "-o",
            tmp_path,
            "--offline",
            "--json",
        )
    )
    assert made["verification"]["status"] == "passed"
    assert made["verification"]["min_cosine"] >= 0.9999
    assert made["verification"]["same_tokens"] >= 4200
    folder = Path(made["directory"])
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["runtime"]["name"] == "OpenVINO"
    assert manifest["runtime"]["operators"] is None
    assert manifest["model"]["format"] == "openvino"
    sizes = {
        part: sum(f["size"] for f in manifest["files"] if f["part"] == part) for part in ("runtime", "runner")
    }
    assert sizes["runtime"] <= LARGEST_RUNTIME
    assert sizes["runner"] <= LARGEST_PROGRAM
    assert not [file for file in manifest["files"] if "onnx" in file["path"]]
    said = subprocess.run([folder / "embed", "--info"], capture_output=True, text=True, check=True, env={})
    assert "runtime  OpenVINO 2026.4.1 (wheel)\n" in said.stdout
    subprocess.run([folder / "embed", "--self-test"], capture_output=True, check=True, env={})
