"""Web bundles on edgepack's engine: in Node and in a browser the vectors have the bits of a program for this processor."""

import base64
import hashlib
import json
import shutil
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support.browsers import in_browsers
from tests.support.bundles import made_bundle
from tests.support.golden import ROOT
from tests.support.node_tests import run_node_tests
from tests.support.npm_tools import required_tools
from tests.support.pages import blocks
from tests.support.small_models import write_small_bert

from edgepack.records.bundle import Bundle
from edgepack_web.npm.node import find_node

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.timeout(3600)]
RECIPE = ("--set", "model.recipe=int8")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_bert(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory, model: Path) -> Bundle:
    return made_bundle("web-fast", tmp_path_factory.mktemp("web"), "--model", str(model), *RECIPE)


def test_it_is_verified_and_has_the_bits_of_a_program(bundle: Bundle, model: Path, tmp_path: Path) -> None:
    program = made_bundle("linux-x86-fast", tmp_path, "--model", str(model), *RECIPE)
    report = json.loads(Path(f"{bundle.directory}.report.json").read_text())
    assert report["verification"]["status"] == "passed"
    assert bundle.manifest["runtime"] is None
    for key in ("vectors_sha256", "embedder"):
        assert bundle.manifest["model"][key] == program.manifest["model"][key]


@in_browsers
def test_the_bits_in_a_browser(browser: str, bundle: Bundle, tmp_path: Path) -> None:
    found = tmp_path / "vectors.json"
    environment = {"BUNDLE": str(bundle.directory), "BROWSER": browser, "VECTORS": str(found)}
    assert "# fail 0" in run_node_tests("engine", **environment)
    assert digest(json.loads(found.read_text())) == bundle.manifest["model"]["vectors_sha256"]


def test_in_deno_and_from_an_address(bundle: Bundle) -> None:
    done = run_node_tests("deno", BUNDLE=str(bundle.directory), TOOLS=str(required_tools()))
    assert "# fail 0" in done


def test_the_host_of_the_page_on_other_programs(bundle: Bundle, model: Path, tmp_path: Path) -> None:
    pytest.importorskip("wasmtime")
    page = ROOT / "docs/howto/wasm-host.md"
    host = tmp_path / "host.py"
    host.write_text(next(block.text for block in blocks(page) if block.language == "python"))
    texts = json.loads((bundle.directory / "golden.json").read_text())["texts"]
    command: list[str | Path] = [sys.executable, host, bundle.directory, model / "tokenizer.json"]
    # A line is a text there.
    lines = [text for text in texts if "\n" not in text]
    done = subprocess.run(
        command,
        input="".join(f"{text}\n" for text in lines),
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    program = [find_node(), bundle.directory / "node.mjs"]
    asked = "".join(json.dumps({"text": text}) + "\n" for text in lines)
    node = subprocess.run(program, input=asked, capture_output=True, encoding="utf-8", check=True)
    expected = [json.loads(line)["embedding"] for line in node.stdout.splitlines()]
    assert digest([json.loads(line) for line in done.stdout.splitlines()]) == digest(expected)


def digest(vectors: Sequence[Sequence[float]]) -> str:
    return hashlib.sha256(b"".join(struct.pack(f"<{len(each)}f", *each) for each in vectors)).hexdigest()


def test_a_plan_that_was_cut_is_no_bundle(bundle: Bundle, tmp_path: Path) -> None:
    """Nor where its digest in bundle.json was changed with it."""
    copy = tmp_path / "copy"
    shutil.copytree(bundle.directory, copy)
    document = json.loads((copy / "bundle.json").read_text())
    last = document["model"]["parts"][-1]
    content = bytearray((copy / last["path"]).read_bytes())
    content[-1] ^= 1
    (copy / last["path"]).write_bytes(content)
    assert "IntegrityError" in failure_of(copy)
    last |= {"integrity": integrity(bytes(content[:-64])), "size": len(content) - 64}
    (copy / last["path"]).write_bytes(content[:-64])
    (copy / "bundle.json").write_text(json.dumps(document))
    said = failure_of(copy)
    assert "BundleError" in said
    assert "the plan is damaged: it is not the plan that was made" in said


def integrity(content: bytes) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(content).digest()).decode()}"


def failure_of(folder: Path) -> str:
    command = [find_node(), folder / "node.mjs"]
    done = subprocess.run(
        command, input='{"text": "a cat"}\n', capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 1
    assert done.stdout == ""
    return done.stderr
