"""The native tokenizer on the vocabularies of Qwen3 and Gemma 3, which packages of npm carry: only with ``--slow``."""

from pathlib import Path

import pytest
from tests.support.parity import pair_of
from tests.support.vocabularies import NPM, npm_vocabulary

pytestmark = [pytest.mark.slow, pytest.mark.tools("c++", "npm", "node"), pytest.mark.timeout(900)]


@pytest.mark.parametrize("package", NPM)
def test_fuzz_texts(package: str, tokenizer_tool: Path, tmp_path: Path) -> None:
    content = npm_vocabulary(package).read_text(encoding="utf-8")
    pair = pair_of(content, tokenizer_tool, tmp_path / "table.bin")
    assert list(pair.mismatches(pair.texts(100_000, seed=22))) == []
