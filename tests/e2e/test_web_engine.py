"""Web bundles on edgepack's engine: in Node and in a browser the vectors have the bits of a program for this processor."""

import base64
import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support.browsers import in_browsers
from tests.support.bundles import made_bundle
from tests.support.debian_packages import unpacked
from tests.support.golden import ROOT
from tests.support.languages import go
from tests.support.node_tests import run_node_tests
from tests.support.npm_tools import required_tools
from tests.support.pages import blocks
from tests.support.small_models import write_small_bert
from tokenizers import Tokenizer

from edgepack.records.bundle import Bundle
from edgepack_web.npm.node import find_node

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.timeout(3600)]
GO_PACKAGES = ("golang-github-tetratelabs-wazero-dev", "golang-golang-x-sys-dev")
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


@pytest.mark.parametrize("language", ["python", "go"])
def test_the_hosts_of_the_page_on_other_programs(
    language: str, bundle: Bundle, model: Path, tmp_path: Path
) -> None:
    # A line is a text there.
    texts = json.loads((bundle.directory / "golden.json").read_text())["texts"]
    lines = [text for text in texts if "\n" not in text]
    page = ROOT / "docs/howto/wasm-host.md"
    text = next(block.text for block in blocks(page) if block.language == language)
    command, given = (in_python if language == "python" else in_go)(text, lines, bundle, model, tmp_path)
    done = subprocess.run(
        command,
        input="".join(f"{line}\n" for line in given),
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    program = [find_node(), bundle.directory / "node.mjs"]
    asked = "".join(json.dumps({"text": text}) + "\n" for text in lines)
    node = subprocess.run(program, input=asked, capture_output=True, encoding="utf-8", check=True)
    expected = [json.loads(line)["embedding"] for line in node.stdout.splitlines()]
    assert digest([json.loads(line) for line in done.stdout.splitlines()]) == digest(expected)


def in_python(
    text: str, lines: list[str], bundle: Bundle, model: Path, folder: Path
) -> tuple[list[str | Path], list[str]]:
    pytest.importorskip("wasmtime")
    (folder / "host.py").write_text(text)
    return [sys.executable, folder / "host.py", bundle.directory, model / "tokenizer.json"], lines


def in_go(
    text: str, lines: list[str], bundle: Bundle, model: Path, folder: Path
) -> tuple[list[str | Path], list[str]]:
    """The packages are Debian's; the module takes tokens."""
    debian = unpacked("forky", *GO_PACKAGES) / "usr/share/gocode/src"
    needed = ("github.com/tetratelabs/wazero v1.12.0", "golang.org/x/sys v0.44.0")
    said = ["module host", "go 1.25"]
    for each in needed:
        name = each.split()[0]
        said += [f"require {each}", f"replace {name} => {debian / name}"]
    (folder / "go.mod").write_text("\n".join(said) + "\n")
    (folder / "host.go").write_text(text)
    alone = {"GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
    subprocess.run([go(), "build", "-o", "host", "."], cwd=folder, env={**os.environ, **alone}, check=True)
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(json.loads((bundle.directory / "bundle.json").read_text())["model"]["maxLength"])  # fmt: skip
    return [folder / "host", bundle.directory], [json.dumps(tokenizer.encode(line).ids) for line in lines]


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
