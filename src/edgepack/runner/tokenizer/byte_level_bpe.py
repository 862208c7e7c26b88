"""Byte-level BPE (RoBERTa and its like), compiled."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from tokenizers import pre_tokenizers

from edgepack.runner.tokenizer.code_point_tables import two_stage
from edgepack.runner.tokenizer.code_points import LIMIT, characters, runs
from edgepack.runner.tokenizer.sections import u24, u32
from edgepack.runner.tokenizer.trie import build_trie
from edgepack.runner.tokenizer.unsupported import unsupported

PREFIX_SPACE, SPLITS, IGNORES_MERGES, LINES, THREE_DIGITS = 1, 2, 4, 8, 16
_LINES = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|DIGITS| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
PATTERNS = {
    _LINES.replace("DIGITS", r"\p{N}"): SPLITS | LINES,
    _LINES.replace("DIGITS", r"\p{N}{1,3}"): SPLITS | LINES | THREE_DIGITS,
}
"""Regular expressions that split as the program can: Qwen's and Llama 3's."""
OTHER, LETTER, NUMBER, SPACE = 0, 1, 2, 3
LARGEST = 2**24 - 1


def byte_level_sections(document: Mapping[str, Any], pad_id: int) -> dict[str, bytes]:
    """Vocabulary, merges and classes of characters. Raises ``UnsupportedModelError``."""
    model = document["model"]
    flags = _splits(document.get("pre_tokenizer") or {"type": "nothing"})
    for key in ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"):
        if model.get(key):
            raise unsupported("BPE with", key)
    byte_of = byte_alphabet()
    vocabulary = {
        bytes(byte_of[letter] for letter in token): number
        for token, number in model["vocab"].items()
        if token and all(letter in byte_of for letter in token)
    }
    alphabet = [vocabulary.get(bytes([byte])) for byte in range(256)]
    if None in alphabet:
        raise unsupported("BPE without", "all 256 bytes")
    flags |= IGNORES_MERGES * bool(model.get("ignore_merges"))
    return {
        "model": b"bytebpe\0" + u32([flags, 0, pad_id]),
        "vocab": build_trie(vocabulary),
        "bytes": u32([number for number in alphabet if number is not None]),
        "merges": merge_table(model),
        "pieces": two_stage(character_kinds(), width=1),
    }


def _splits(splitter: Mapping[str, Any]) -> int:
    """Flags of a pre-tokenizer: ``ByteLevel`` by itself, or behind a split by one of the patterns."""
    if splitter["type"] == "ByteLevel":
        spaced = PREFIX_SPACE * bool(splitter.get("add_prefix_space", True))
        return spaced | SPLITS * bool(splitter.get("use_regex", True))
    steps: Sequence[Mapping[str, Any]] = splitter.get("pretokenizers") or ()
    if [step["type"] for step in steps] != ["Split", "ByteLevel"]:
        raise unsupported("pre_tokenizer", splitter["type"])
    split, after = steps
    flags = PATTERNS.get(split["pattern"].get("Regex"))
    if flags is None or split["behavior"] != "Isolated" or split["invert"]:
        raise unsupported("pre_tokenizer that splits by", str(split["pattern"]))
    if after.get("add_prefix_space", True) or after.get("use_regex", True):
        raise unsupported("pre_tokenizer", "ByteLevel that splits again")
    return flags


def byte_alphabet() -> dict[str, int]:
    """The character that stands for each byte, as GPT-2 chose them (``bytes_to_unicode``)."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    rest = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {chr(256 + index): byte for index, byte in enumerate(rest)}


def merge_table(model: Mapping[str, Any]) -> bytes:
    """Rows by the left id: the right ids, sorted, with the rank and the id of the two together, in three bytes each.

    Raises ``UnsupportedModelError`` for ids that are above that.
    """
    vocabulary = model["vocab"]
    pairs: dict[tuple[int, int], tuple[int, int]] = {}
    for rank, merge in enumerate(model["merges"]):
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        # Of a pair that is listed twice, the library keeps the last.
        pairs[vocabulary[left], vocabulary[right]] = (rank, vocabulary[left + right])
    rows = max((left for left, _ in pairs), default=-1) + 1
    first = [0] * (rows + 1)
    for left, _ in pairs:
        first[left + 1] += 1
    for row in range(rows):
        first[row + 1] += first[row]
    ordered = sorted(pairs)
    right = [pair[1] for pair in ordered]
    ranks, joined = zip(*(pairs[pair] for pair in ordered), strict=True) if ordered else ((), ())
    if rows and max(max(joined), max(right), rows, len(ordered)) > LARGEST:
        raise unsupported("BPE with", f"ids or merges above {LARGEST:,}")
    return u32([rows, len(ordered)]) + u24([*first, *right, *ranks, *joined])


@cache
def character_kinds() -> bytes:
    """For each code point what GPT-2's pattern takes it for, found by asking the library: once in a process."""
    splitter = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    kinds = bytearray(LIMIT)
    for run in runs(characters()):
        if (known := _kind_of_all(run, splitter.pre_tokenize_str)) is not None:
            for letter in run:
                kinds[ord(letter)] = known
            continue
        text = "".join(f"a{letter}\n1{letter}\n!{letter}\n" for letter in run)
        begins = {span[0] for _, span in splitter.pre_tokenize_str(text)}
        for index, letter in enumerate(run):
            joins = [9 * index + 3 * kind + 1 not in begins for kind in range(3)]
            kinds[ord(letter)] = LETTER if joins[0] else NUMBER if joins[1] else OTHER if joins[2] else SPACE
    return bytes(kinds)


def _kind_of_all(run: str, split: Callable[[str], list[Any]]) -> int | None:
    """Kind of a whole run of letters, or of other characters: it joins one that is known. Most runs are such."""
    return next((kind for kind, known in ((OTHER, "!"), (LETTER, "a")) if len(split(known + run)) == 1), None)
