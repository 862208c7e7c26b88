"""SentencePiece's BPE as tokenizers has it (Gemma and its like), compiled: characters are joined, unknown ones are bytes."""

from collections.abc import Mapping
from typing import Any

from edgepack.runner.tokenizer.byte_level_bpe import merge_table
from edgepack.runner.tokenizer.code_point_tables import two_stage
from edgepack.runner.tokenizer.code_points import LIMIT
from edgepack.runner.tokenizer.sections import u32
from edgepack.runner.tokenizer.trie import build_trie
from edgepack.runner.tokenizer.unsupported import unsupported

CHARACTERS = 32
SPACE = {"String": " "}


def character_sections(document: Mapping[str, Any], pad_id: int) -> dict[str, bytes]:
    """Characters of the vocabulary, bytes and merges. Raises ``UnsupportedModelError``."""
    model = document["model"]
    for key in ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "ignore_merges"):
        if model.get(key):
            raise unsupported("BPE with byte_fallback and", key)
    _require_whole_text(document)
    vocabulary = model["vocab"]
    by_byte = [vocabulary.get(f"<0x{byte:02X}>") for byte in range(256)]
    if None in by_byte:
        raise unsupported("BPE with byte_fallback without", "all 256 bytes")
    characters = {token.encode(): number for token, number in vocabulary.items() if len(token) == 1}
    return {
        "model": b"bytebpe\0" + u32([CHARACTERS, 0, pad_id]),
        "vocab": build_trie(characters),
        "bytes": u32([number for number in by_byte if number is not None]),
        "merges": merge_table(model),
        # What splits a text into words, which is not done here.
        "pieces": two_stage(bytearray(LIMIT), width=1),
    }


def _require_whole_text(document: Mapping[str, Any]) -> None:
    """No pre-tokenizer, or one that splits at spaces, which the normalizer has made something else of."""
    splitter, normalizer = document.get("pre_tokenizer"), document.get("normalizer") or {}
    if splitter is None:
        return
    last = (normalizer.get("normalizers") or [normalizer])[-1]
    gone = last.get("type") == "Replace" and last["pattern"] == SPACE and " " not in last["content"]
    if splitter["type"] != "Split" or splitter["pattern"] != SPACE or splitter["invert"] or not gone:
        raise unsupported("BPE with byte_fallback and pre_tokenizer", splitter["type"])
