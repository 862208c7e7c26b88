"""Runtimes for WebAssembly, with the real compiler and the real model: sizes, vectors, and what a pruned one still does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from edgepack.api import prepare_model, prove_web, reduce_web_runtime, stock_web_runtime, stub_web_runtime
from edgepack.console import Story
from edgepack.plugins.context import HostContext, host_context
from edgepack.records import ModelOptions, ModelSource, PreparedModel, RuntimeArtifact

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def online(request: pytest.FixtureRequest) -> Iterator[HostContext]:
    """A context on the user's cache that may fetch compilers and npm's package."""
    if not request.config.getoption("--web"):
        pytest.skip("compiles for minutes with compilers of 243 MB: run with --web")
    with host_context(story=Story(quiet=True), offline=False) as made:
        yield made


@pytest.fixture(scope="module")
def model(minilm: ModelSource, online: HostContext) -> PreparedModel:
    return prepare_model(minilm, options=ModelOptions(recipe="int8"), context=online)


@pytest.fixture(scope="module")
def reduced(model: PreparedModel, online: HostContext) -> RuntimeArtifact:
    return reduce_web_runtime(model.needs, context=online)


def test_a_reduced_runtime_is_small_and_right(
    model: PreparedModel, reduced: RuntimeArtifact, online: HostContext
) -> None:
    import brotli

    wasm = reduced.library.read_bytes()
    assert len(wasm) < 1_000_000
    assert len(brotli.compress(wasm, quality=11)) < 270_000
    proved = prove_web(model, reduced, context=online)
    assert proved.proofs[0].min_cosine > 0.99
    assert {path.stem.split("-")[0] for path in reduced.licenses} >= {"onnxruntime", "emscripten", "eigen"}


def test_a_stub_is_smaller_and_still_right(
    model: PreparedModel, reduced: RuntimeArtifact, online: HostContext
) -> None:
    import brotli

    stub = stub_web_runtime(model, reduced, context=online)
    assert len(brotli.compress(stub.library.read_bytes(), quality=11)) < 160_000
    assert prove_web(model, stub, context=online).proofs[0].min_cosine > 0.99


def test_the_stock_runtime_and_its_stub(model: PreparedModel, online: HostContext) -> None:
    stock = stock_web_runtime(model.needs, context=online)
    stub = stub_web_runtime(model, stock, context=online)
    assert stub.library.stat().st_size < 0.4 * stock.library.stat().st_size
    for runtime in (stock, stub):
        assert prove_web(model, runtime, context=online).proofs[0].min_cosine > 0.99
