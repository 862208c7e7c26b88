"""Runtimes for WebAssembly, with the real compiler and the real model: sizes, vectors, and what takes the bytes."""

import json
from pathlib import Path

import pytest
from tests.support.browsers import CHROMIUM, in_chromium
from tests.support.bundles import made_bundle
from tests.support.command import edgepack
from tests.support.node_tests import run_node_tests

from edgepack.api import prepare_model
from edgepack.foundry.explain.sizes import explain, find_composition
from edgepack.operators.config import required
from edgepack.plugins.context import HostContext
from edgepack.records.model import ModelSource, PreparedModel
from edgepack.records.runtime import RuntimeArtifact
from edgepack.records.target import ModelOptions
from edgepack_web.foundry.platform import WebPlatform
from edgepack_web.foundry.prove import prove_web
from edgepack_web.foundry.reduce import reduce_web_runtime
from edgepack_web.packages import stock_web_runtime

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def model(minilm: ModelSource, online: HostContext) -> PreparedModel:
    return prepare_model(minilm, options=ModelOptions(recipe="int8"), context=online)


@pytest.fixture(scope="module")
def reduced(model: PreparedModel, online: HostContext) -> RuntimeArtifact:
    return reduce_web_runtime(required(model.needs), context=online)


def test_a_reduced_runtime_is_small_and_right(
    model: PreparedModel, reduced: RuntimeArtifact, online: HostContext
) -> None:
    import brotli

    wasm = reduced.file.read_bytes()
    assert len(wasm) < 1_000_000
    assert len(brotli.compress(wasm, quality=11)) < 270_000
    proved = prove_web(model, reduced, context=online)
    assert proved.min_cosine > 0.99
    assert {path.stem.split("-")[0] for path in reduced.licenses} >= {"onnxruntime", "emscripten", "eigen"}


def test_the_stock_runtime_is_right(model: PreparedModel, online: HostContext) -> None:
    stock = stock_web_runtime(context=online)
    assert prove_web(model, stock, context=online).min_cosine > 0.99


def test_with_threads_it_is_as_right(model: PreparedModel, online: HostContext) -> None:
    import brotli

    threaded = reduce_web_runtime(required(model.needs), threads=True, context=online)
    assert len(brotli.compress(threaded.file.read_bytes(), quality=11)) < 270_000
    proof = prove_web(model, threaded, context=online)
    assert proof.min_cosine > 0.99
    assert "1, 2, 4 threads" in proof.by


@in_chromium
def test_threads_in_chromium(online: HostContext, tmp_path: Path) -> None:
    bundle = made_bundle("web-wasm", tmp_path, "--set", "threads=true")
    said = run_node_tests("threads", BUNDLE=str(bundle.directory), CHROMIUM=str(CHROMIUM))
    assert "# fail 0" in said


def test_what_takes_the_bytes_is_known_to_the_byte(reduced: RuntimeArtifact, online: HostContext) -> None:
    found = explain(reduced.file, find_composition(reduced.file, online.store), form=WebPlatform().form)
    size = reduced.file.stat().st_size
    for table in (found.sections, found.areas, found.askers):
        assert sum(row.bytes for row in table) == size
    assert {row.name for row in found.areas} >= {"MLAS", "kernels", "framework", "libc", "allocator"}
    kernel = next(row for row in found.members if row.name.endswith("qgemm_kernel_wasmsimd.cpp"))
    assert kernel.operators == ("com.microsoft:MatMulIntegerToFloat",)


def test_an_exported_archive_is_used_by_another_machine(online: HostContext, tmp_path: Path) -> None:
    archive = tmp_path / "kernels.tar.zst"
    done = edgepack("runtime", "export", "--arch", "wasm32", str(archive), "--offline", "--json")
    assert done.returncode == 0, done.stderr
    other = tmp_path / "other"
    brought = edgepack("runtime", "import", str(archive), "--json", env={"EDGEPACK_CACHE": str(other)})
    assert brought.returncode == 0, brought.stderr
    facts = json.loads(brought.stdout)
    assert facts["added"] == json.loads(done.stdout)["objects"] > 160
    assert facts["toolchain"].startswith("emscripten 3.1.69")
