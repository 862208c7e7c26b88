"""A real web bundle, made by the real command, at work in Node."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from tests.support.bundles import bundle_in, made_for_all
from tests.support.command import edgepack
from tests.support.node_tests import run_node_tests
from tests.support.once import made_once

from edgepack.records.bundle import Bundle

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]


@pytest.fixture(params=["web-fast", pytest.param("web-wasm", marks=pytest.mark.slow)])
def bundle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """Of a small model: to prove the real one in WebAssembly takes half a minute."""
    model: Path = request.getfixturevalue("tiny_model")
    runtime = ("--set", "runtime=stock") if request.param == "web-wasm" else ()
    options = (*runtime, "--model", str(model), "--set", "model.min_agreement=0.8")
    folder = made_once(
        tmp_path_factory, request.param, lambda folder: made_for_all(request.param, folder, *options)
    )
    return bundle_in(next(each for each in folder.iterdir() if each.is_dir()))


def test_the_module_in_node(bundle: Bundle) -> None:
    assert "# fail 0" in run_node_tests("module", BUNDLE=str(bundle.directory))


@pytest.mark.slow
def test_verify_finds_the_vectors_of_the_build(web_bundle: Bundle, tmp_path: Path) -> None:
    vectors = tmp_path / "vectors.npy"
    done = edgepack(
        "verify", str(web_bundle.directory), "--offline", "--json", "--write-vectors", str(vectors)
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["status"] == "passed"
    assert found["mean_cosine"] >= 0.99
    assert np.load(vectors).shape == (200, 384)


@pytest.mark.slow
def test_the_bill_is_of_a_first_visit(web_bundle: Bundle) -> None:
    done = edgepack("report", str(web_bundle.directory), "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    cold, warm = report["visits"]
    assert (cold["name"], warm["name"]) == ("cold", "warm")
    assert cold["brotli"] < cold["gzip"] < cold["raw"]
    assert warm["brotli"] < 50_000
    copies = [web_bundle.directory / f"{path}.br" for path in web_bundle.manifest["visits"]["cold"]]
    assert sum(copy.stat().st_size for copy in copies if copy.exists()) <= cold["brotli"]
    assert all(cost["bytes_total"] == cold["brotli"] * cost["devices"] for cost in report["costs"])


@pytest.mark.slow
def test_no_file_is_larger_than_hosts_take(web_bundle: Bundle) -> None:
    assert max(file["size"] for file in web_bundle.manifest["files"]) <= 25 * 2**20


def test_the_page_asks_nobody_else_for_anything(bundle: Bundle) -> None:
    for name in ("index.html", "demo.mjs", "demo.css", "embed.mjs", "service-worker.js"):
        text = (bundle.directory / name).read_text(encoding="utf-8")
        assert "http://" not in text.replace("http://www.w3.org", "")
        # What a visitor may click on is asked for by nobody else.
        asked = re.sub(r'<a href="https://[^"]*"', "", text)
        assert "https://" not in asked or name == "embed.mjs", name


@pytest.mark.slow
def test_a_damaged_file_is_found_by_verify(web_bundle: Bundle, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(web_bundle.directory, copy)
    piece = copy / web_bundle.manifest["model"]["pieces"][-1]
    content = bytearray(piece.read_bytes())
    content[100] ^= 1
    piece.write_bytes(content)
    done = edgepack("verify", str(copy), "--offline")
    assert done.returncode == 17
    assert piece.name in done.stderr
