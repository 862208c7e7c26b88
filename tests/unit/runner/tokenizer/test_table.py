"""A compiled tokenizer: always the same, noticed when it is damaged; that of the real model gives the library's ids."""

import json
import subprocess
from pathlib import Path

import pytest
from tests.support.parity import pair_of
from tests.unit.runner.tokenizer.test_parity import wordpiece

from edgepack.errors import UnsupportedModelError
from edgepack.models.read.tokenizer import minimal_json
from edgepack.records.model import ModelSource
from edgepack.runner.tokenizer.compile import compile_tokenizer

pytestmark = pytest.mark.tools("c++")


def test_minilm_on_fuzz_texts(minilm: ModelSource, tokenizer_tool: Path, tmp_path: Path, fuzz: int) -> None:
    pair = pair_of(minimal_json(minilm), tokenizer_tool, tmp_path / "table.bin")
    assert list(pair.mismatches(pair.texts(fuzz, seed=5))) == []


@pytest.mark.parametrize("place", [0, 9, 20, 40, 400, -1])
def test_a_damaged_table_is_noticed(tokenizer_tool: Path, tmp_path: Path, place: int) -> None:
    content = bytearray(compile_tokenizer(wordpiece().to_str()))
    assert content == compile_tokenizer(wordpiece().to_str())
    content[place] ^= 1
    (tmp_path / "table.bin").write_bytes(content)
    done = subprocess.run([tokenizer_tool, tmp_path / "table.bin", "8"], capture_output=True, check=False)
    assert done.returncode == 4
    assert b"is damaged" in done.stderr


def test_a_document_that_the_library_reads_and_does_not_write() -> None:
    """It knows a component by its fields alone."""
    document = json.loads(wordpiece().to_str())
    del document["post_processor"]["type"]
    with pytest.raises(
        UnsupportedModelError, match=r"tokenizer\.json is not as the tokenizers library writes it"
    ):
        compile_tokenizer(json.dumps(document))
