"""Real web bundles where their users put them: in a browser, from bad hosts, with threads, in an extension, bundled, in Deno."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import made_bundle
from tests.e2e.lean_runtime import too_lean
from tests.e2e.small_models import write_small_model
from tests.node_tests import run_node_tests
from tests.npm_tools import required_tools

from edgepack.bundle.verify import verification_texts
from edgepack.plugins.context import HostContext
from edgepack.recipes.quality import cached_reference
from edgepack.records import Bundle, ModelSource

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or os.environ.get("CHROMIUM")
in_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")


@pytest.fixture(scope="module")
def small_bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """Of a RoBERTa with 32 dimensions, byte-level BPE, prefixes, and shorter dimensions; its runtime is npm's."""
    folder = write_small_model(tmp_path_factory.mktemp("model") / "small", "byte-level")
    return made_bundle(
        "web-wasm",
        tmp_path_factory.mktemp("small-dist"),
        *("--model", str(folder), "--set", "runtime=stock", "--set", "model.recipe=fp32"),
    )


def passed(name: str, bundle: Path, **more: str) -> None:
    assert "# fail 0" in run_node_tests(name, BUNDLE=str(bundle), CHROMIUM=str(CHROMIUM), **more)


@in_chromium
def test_the_bundle_in_chromium(
    web_bundle: Bundle, minilm: ModelSource, shared_context: HostContext, tmp_path: Path
) -> None:
    texts, vectors = tmp_path / "texts.json", tmp_path / "vectors.json"
    texts.write_text(json.dumps(verification_texts()))
    passed("chromium", web_bundle.directory, TEXTS=str(texts), VECTORS=str(vectors))
    found = np.asarray(json.loads(vectors.read_text()), np.float32)
    exact = cached_reference(minilm, verification_texts(), context=shared_context)
    assert float((found * exact).sum(axis=1).mean()) >= 0.99


@in_chromium
def test_what_the_runtime_lacks_restarts_on_the_whole_one(
    request: pytest.FixtureRequest, web_bundle: Bundle, tmp_path: Path
) -> None:
    passed("restart", too_lean(web_bundle, tmp_path), ALL="1" if request.config.getoption("--web") else "")


@in_chromium
def test_threads(small_bundle: Bundle) -> None:
    passed("stock_threads", small_bundle.directory)


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
@pytest.mark.parametrize("runtime", ["reduced", "stub"])
def test_a_small_runtime_with_the_whole_one_beside_it(
    request: pytest.FixtureRequest, tmp_path: Path, runtime: str
) -> None:
    if not request.config.getoption("--web"):
        pytest.skip("compiles or profiles runtimes for minutes: run with --web")
    made = made_bundle("web-wasm", tmp_path, "--set", f"runtime={runtime}", "--set", "fallback=stock")
    names = [each["name"] for each in json.loads((made.directory / "bundle.json").read_text())["runtimes"]]
    assert names == [runtime, "stock"]
    passed("module", made.directory)
    passed("chromium", made.directory)
    # The whole one is what has threads.
    passed("stock_threads", made.directory)
