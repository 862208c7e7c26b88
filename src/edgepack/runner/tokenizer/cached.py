"""Compiled tokenizers, from the store."""

import hashlib
from pathlib import Path

import tokenizers

from edgepack.context import BuildContext
from edgepack.runner.tokenizer.compile import compile_tokenizer

FILE = "tokenizer.bin"


def compiled_tokenizer(text: str, *, context: BuildContext) -> Path:
    """The table file of a tokenizer.json. Raises what ``compile_tokenizer`` raises."""

    def make(folder: Path) -> None:
        (folder / FILE).write_bytes(compile_tokenizer(text))

    inputs = {
        "document": hashlib.sha256(text.encode()).hexdigest(),
        "tokenizers": tokenizers.__version__,
        "by": compiler_digest(),
    }
    return context.store.cached("tokenizer", inputs, make) / FILE


def compiler_digest() -> str:
    """Of what compiles tokenizers: this folder's sources."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
