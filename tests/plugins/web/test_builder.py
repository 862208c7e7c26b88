"""The web builder checks a target before anything is built, and lays out what hosts take."""

import gzip
from pathlib import Path

import brotli
import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper
from tests.support.berts import write_bert

from edgepack.errors import TargetError, ToolError
from edgepack.plugins.context import HostContext
from edgepack.records.target import Target
from edgepack.targets import built_in_targets, read_target
from edgepack_web import node, packages, webgpu
from edgepack_web.builder import create_builder
from edgepack_web.encoded import _decoded, write_encoded
from edgepack_web.hosts import headers_file, nginx_snippet
from edgepack_web.page import Folder


def web(*overrides: str, name: str = "web-wasm") -> Target:
    file = next(file for file in built_in_targets() if file.name == f"{name}.toml")
    return read_target(file, origin="edgepack", overrides=overrides)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("platform.arch=x86_64", "web on wasm32, not web x86_64"),
        ("model.format=onnx", "with runtime reduced, a web bundle holds a model in format ort, not onnx"),
        ("runtime=engine", "with runtime engine, a web bundle holds a model in format plan, not ort"),
        ("attention=float", 'attention is for runtime = "engine"'),
        ("runtime=quantum", "option runtime is 'quantum'"),
        ("asset_cap=many", "asset_cap: 'many' is not a size"),
        ("threads=2", "option threads is 2, expected true or false"),
        ("webgpu=1.30", "option webgpu is 1.3, expected true or false"),
    ],
)
def test_a_target_that_cannot_be_made_is_refused(context: HostContext, override: str, said: str) -> None:
    with pytest.raises(TargetError, match=said):
        create_builder(web(override), context)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("threads=true", 'runtime = "engine" has no threads'),
        ("webgpu=true", 'runtime = "engine" has no webgpu'),
        ("fallback=stock", 'runtime = "engine" has no fallback'),
        ("model.recipe=fp32", "the engine takes int8 weights and activations by token, not recipe fp32"),
        ("model.format=ort", "with runtime engine, a web bundle holds a model in format plan, not ort"),
    ],
)
def test_what_the_engine_does_not_do_is_refused(context: HostContext, override: str, said: str) -> None:
    with pytest.raises(TargetError, match=said) as caught:
        create_builder(web(override, name="web-fast"), context)
    assert caught.value.hint


def test_nothing_of_onnx_runtime_is_fetched_for_the_engine(
    context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = []
    for each in ("emscripten", "fetch_sources", "onnxruntime_web", "npm_package"):
        monkeypatch.setattr(packages, each, lambda *_, _name=each, **__: fetched.append(_name))
    packages.fetch(web(name="web-fast"), context)
    assert fetched == ["npm_package"]


def test_threads_go_with_the_runtime_that_is_compiled(context: HostContext) -> None:
    with pytest.raises(TargetError, match="threads = true requires") as caught:
        create_builder(web("runtime=stock", "threads=true"), context)
    assert "stock" in str(caught.value.hint)


@pytest.mark.parametrize(("overrides", "compiled"), [((), True), (("runtime=stock",), False)])
def test_the_compiler_is_fetched_for_a_runtime_that_is_compiled(
    context: HostContext, monkeypatch: pytest.MonkeyPatch, overrides: tuple[str, ...], compiled: bool
) -> None:
    fetched = []
    for name in ("emscripten", "fetch_sources", "onnxruntime_web", "npm_package"):
        monkeypatch.setattr(packages, name, lambda *_, _name=name, **__: fetched.append(_name))
    packages.fetch(web(*overrides), context)
    expected = ["emscripten", "fetch_sources"] if compiled else []
    assert fetched == [*expected, "onnxruntime_web", "npm_package"]


def test_the_runtime_for_a_gpu_is_fetched_for_who_wants_it(
    context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = []

    def package(name: str, version: str, **_: object) -> Path:
        fetched.append(f"{name}@{version}")
        return Path()

    monkeypatch.setattr(packages, "onnxruntime_web", lambda **_: None)
    for module in (packages, webgpu):
        monkeypatch.setattr(module, "npm_package", package)
    for asked in ("false", "true"):
        packages.fetch(web("runtime=stock", f"webgpu={asked}"), context)
    tokenizers = "@huggingface/tokenizers@0.2.0"
    assert fetched == [tokenizers, tokenizers, "onnxruntime-web@1.30.0"]


def test_a_model_for_gpus_is_a_quarter_in_its_file_and_float32_when_it_is_opened(tmp_path: Path) -> None:
    numbers = np.random.default_rng(5)
    table = numbers.normal(size=(500, 64)).astype(np.float32)
    # Columns of very different size, one of them nothing: each has its own scale.
    matrix = (numbers.normal(size=(64, 96)) * np.logspace(-3, 1, 96)).astype(np.float32)
    matrix[:, 7] = 0
    plain = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 14]>
        g (int64[n] ids) => (float[n, 96] out) { rows = Gather(table, ids) out = MatMul(rows, matrix) }"""
    )
    plain.graph.initializer.extend(
        [numpy_helper.from_array(table, "table"), numpy_helper.from_array(matrix, "matrix")]
    )
    stored = webgpu.stored_as_int8(plain)
    onnx.checker.check_model(stored)
    assert stored.ByteSize() < plain.ByteSize() / 3.5
    assert [tensor.name for tensor in plain.graph.initializer] == ["table", "matrix"]
    expected, found = (_run(model, np.arange(500)) for model in (plain, stored))
    assert not found[:, 7].any()
    errors = np.abs(found - expected).max(axis=0) / np.maximum(np.abs(expected).max(axis=0), 1e-30)
    assert errors.max() < 0.02


def _run(model: onnx.ModelProto, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (out,) = session.run(None, {"ids": ids})
    return np.asarray(out, np.float32)


def test_a_file_over_the_host_s_cap_is_named(tmp_path: Path) -> None:
    folder = Folder(root=tmp_path, cap=2**20)
    with pytest.raises(
        TargetError, match=r"assets/ort\.[0-9a-f]{16}\.wasm has 2\.0 MiB, hosts .* accept 1\.0 MiB"
    ):
        folder.asset("ort.wasm", bytes(2**21), "runtime")
    assert not list(tmp_path.rglob("*.wasm"))


def test_compressed_copies_are_what_they_are_copies_of(context: HostContext, tmp_path: Path) -> None:
    files = {"text.mjs": b"const a = 1;\n" * 500, "noise.bin": bytes(range(256)) * 4, "small.txt": b"abc"}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    written = write_encoded(tmp_path, files, context=context)
    assert "small.txt.br" not in written
    assert gzip.decompress((tmp_path / "text.mjs.gz").read_bytes()) == files["text.mjs"]
    assert brotli.decompress((tmp_path / "text.mjs.br").read_bytes()) == files["text.mjs"]
    for name in written:
        assert (tmp_path / name).stat().st_size < len(files[name.rpartition(".")[0]])


@pytest.mark.parametrize("threads", [True, False])
def test_host_files_keep_assets_for_ever_and_pages_not(threads: bool) -> None:
    """Pages are isolated where a runtime has threads; assets always say what an isolated page asks of them."""
    headers, nginx = headers_file(threads=threads), nginx_snippet(threads=threads)
    everything, assets = headers.split("/assets/*")
    page, _, asset = nginx.partition("location /assets/")
    for text in (everything, page):
        assert ("Cross-Origin-Opener-Policy" in text) is threads
        assert ("require-corp" in text) is threads
    # Hosts send what two rules say both: of one file a single rule may say how long it is kept.
    assert "Cache-Control" not in everything
    assert assets.count("Cache-Control") == 1
    assert headers.count("require-corp") == 1
    assert asset.count("require-corp") == 1
    assert "no-cache" in page
    # An asset that is not there yet must not be remembered as absent.
    assert 'immutable";' in asset


def other_copies(content: bytes) -> dict[str, list[bytes]]:
    """By suffix, what is no copy of this content."""
    other = content.replace(b"a", b"b")
    return {
        ".gz": [
            gzip.compress(other),
            gzip.compress(content) + gzip.compress(b"x"),
            gzip.compress(bytes(10**7)),
            b"",
        ],
        ".br": [
            brotli.compress(other),
            brotli.compress(bytes(10**8), quality=1),
            brotli.compress(content)[:-1],
            b"",
        ],
    }


@pytest.mark.parametrize("suffix", [".br", ".gz"])
def test_a_copy_is_of_its_file(suffix: str, tmp_path: Path) -> None:
    """What a store that others write to may give in its place."""
    content, file = b"alert " * 500, tmp_path / "content"
    file.write_bytes(gzip.compress(content) if suffix == ".gz" else brotli.compress(content))
    assert _decoded(file, suffix, len(content)) == content
    for other in other_copies(content)[suffix]:
        file.write_bytes(other)
        assert _decoded(file, suffix, len(content)) != content


@pytest.mark.tools("sh", "sleep")
def test_a_tokenizer_that_javascript_is_never_done_with_is_given_up(
    tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`(?:\\w|\\w)+Z7QX`: the tokenizers library gives it up at once, and Node stood in it for good."""
    source, _ = write_bert(tmp_path / "model")
    never = tmp_path / "node"
    never.write_text("#!/bin/sh\nexec sleep 600\n")
    never.chmod(0o755)
    monkeypatch.setattr("edgepack_web.node.find_node", lambda: never)
    monkeypatch.setattr("edgepack_web.node.SECONDS", 0.5)
    with pytest.raises(ToolError, match=r"node did not finish within 0\.5 s"):
        node.require_same_tokens(tmp_path, source, context=context)
