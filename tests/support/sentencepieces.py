"""What SentencePiece makes of the verification texts, recorded: ``judge_unigram.py`` asks it again."""

import json
import lzma
from functools import cache
from typing import Any

from tests.support.recorded import RECORD

FILE = RECORD / "sentencepiece.json.xz"


@cache
def _recorded() -> dict[str, Any]:
    return dict(json.loads(lzma.decompress(FILE.read_bytes())))


def charsmap() -> str:
    """The map of characters ``nmt_nfkc``, as tokenizer.json has it."""
    return str(_recorded()["charsmap"])


def pieces() -> list[list[Any]]:
    """Some 2000 tokens of a Unigram model without its special ones, each with its score."""
    return [list(each) for each in _recorded()["pieces"]]
