"""The straight line: the real model, the real compiler, the real runner."""

import json
import subprocess
from pathlib import Path

import pytest
from tests.support.command import edgepack

from edgepack.files.store import sha256_of
from edgepack.foundry.releases.registry import RELEASE
from edgepack.operators.config import parse_config
from edgepack.records.bundle import Bundle

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]


@pytest.fixture(
    scope="module", params=["native_bundle", pytest.param("frozen_bundle", marks=pytest.mark.slow)]
)
def bundle(request: pytest.FixtureRequest) -> Bundle:
    """The bundles of linux-x86-min and linux-x86."""
    made: Bundle = request.getfixturevalue(request.param)
    return made


def embed(bundle: Bundle, *arguments: str, stdin: str = "") -> str:
    done = subprocess.run(
        [bundle.program, *arguments], capture_output=True, encoding="utf-8", input=stdin, env={}, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_is_as_small_and_as_right_as_promised(bundle: Bundle) -> None:
    report = json.loads(Path(f"{bundle.directory}.report.json").read_text())
    assert report["verification"]["status"] == "passed"
    assert report["verification"]["texts"] == 200
    assert report["verification"]["mean_cosine"] >= 0.985
    assert report["verification"]["neighbour_agreement"] >= 0.9
    assert report["verification"]["top10_agreement"] >= 0.9
    assert report["verification"]["batch_cosine"] >= 0.999
    native = bundle.manifest["runner"]["kind"] == "native"
    assert bundle.archive is not None
    assert bundle.archive.stat().st_size < (13_500_000 if native else 27_000_000)
    library = bundle.directory / bundle.manifest["runtime"]["library"]
    assert library.stat().st_size < (1_500_000 if native else 1_100_000)


def test_what_is_compiled_before_the_model_is_known_is_what_it_needs(native_bundle: Bundle) -> None:
    assert RELEASE.usual == parse_config("\n".join(native_bundle.manifest["runtime"]["operators"]))


def test_meaning_survives(bundle: Bundle) -> None:
    near = float(embed(bundle, "--similarity", "A man is eating food.", "Someone is having a meal."))
    far = float(embed(bundle, "--similarity", "A man is eating food.", "The stock market fell today."))
    assert near > 0.5 > far + 0.2


def test_json_lines_keep_their_fields(bundle: Bundle) -> None:
    lines = "".join(json.dumps({"id": number, "text": f"text {number}"}) + "\n" for number in range(20))
    out = [json.loads(line) for line in embed(bundle, "--jsonl", "--out", "jsonl", stdin=lines).splitlines()]
    assert [line["id"] for line in out] == list(range(20))
    assert {len(line["embedding"]) for line in out} == {384}


def test_the_bundle_tests_itself(bundle: Bundle) -> None:
    embed(bundle, "--self-test")
    assert "all-MiniLM-L6-v2" in embed(bundle, "--info")


@pytest.mark.slow
def test_it_is_verified_again_from_its_archive(bundle: Bundle) -> None:
    done = edgepack("verify", str(bundle.archive), "--offline", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "passed"


@pytest.mark.sample(1)
def test_a_damaged_file_is_named(bundle: Bundle, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", bundle.directory, copy], check=True)
    model = copy / bundle.manifest["model"]["file"]
    content = bytearray(model.read_bytes())
    content[len(content) // 2] ^= 1
    model.chmod(0o644)
    model.write_bytes(content)
    done = edgepack("verify", str(copy), "--offline")
    assert done.returncode == 17, done.stderr
    assert "model/model.ort" in done.stderr


@pytest.mark.sample(1)
def test_the_report_is_repeated_with_other_prices(bundle: Bundle, tmp_path: Path) -> None:
    done = edgepack("report", str(bundle.directory), "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["verification"]["status"] == "passed"
    assert {part["name"] for part in report["parts"]} >= {"model", "runner", "tokenizer"}


def test_the_same_inputs_give_the_same_bytes(bundle: Bundle, tmp_path: Path) -> None:
    assert bundle.archive is not None
    target = bundle.manifest["target"]["name"]
    done = edgepack("bundle", "-t", target, "-r", "int8-download", "-o", str(tmp_path), "--offline", "--json")
    assert done.returncode == 0, done.stderr
    again = tmp_path / bundle.archive.name
    assert sha256_of(again) == sha256_of(bundle.archive)


@pytest.mark.slow
def test_the_story_is_on_stderr_and_the_result_on_stdout(tiny_model: Path, tmp_path: Path) -> None:
    """Without --output the bundle goes to dist/ in the folder that the command is typed in."""
    done = edgepack(
        *("bundle", "-t", "linux-x86-min", "-m", str(tiny_model), "--offline"),
        *("--gate", "off"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "THE GATE IS OFF" in done.stderr
    assert "not verified: THE GATE IS OFF" in done.stdout
    manifest = json.loads((tmp_path / "dist" / "tiny-bert-linux-x86-min" / "manifest.json").read_text())
    assert manifest["gate"]["gate"] == "off"
    for step in ("model", "prepare", "runtime", "runner", "bundle", "verify", "pack"):
        assert f"\n{step} " in f"\n{done.stderr}"
    assert "zstd" in done.stdout
    assert '  dist/tiny-bert-linux-x86-min/embed "A man is eating food."\n' in done.stdout
    assert (tmp_path / "dist" / "tiny-bert-linux-x86-min.tar.zst").is_file()


@pytest.mark.slow
def test_a_model_is_inspected() -> None:
    shown = edgepack("inspect", "--offline")
    assert shown.returncode == 0, shown.stderr
    assert "input_ids [batch, sequence]" in shown.stdout
    assert "recommended: --target linux-x86-fast --recipe int8-download" in shown.stdout
    inspection = json.loads(edgepack("inspect", "--offline", "--json").stdout)
    assert inspection["parameters"] == 22_565_376
    assert {operator["name"] for operator in inspection["fused_operators"]} >= {"Attention", "BiasGelu"}
