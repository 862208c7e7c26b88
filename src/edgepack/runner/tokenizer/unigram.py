"""Unigram models (XLM-RoBERTa, multilingual E5 and their like), compiled."""

import base64
import json
import struct
from array import array
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from tokenizers import Tokenizer

from edgepack.models.read.tokenizer import pad_id_of
from edgepack.runner.tokenizer.code_point_tables import FIRST_FORM, form_texts, two_stage
from edgepack.runner.tokenizer.code_points import LIMIT
from edgepack.runner.tokenizer.graphemes import cluster_kinds
from edgepack.runner.tokenizer.sections import u32
from edgepack.runner.tokenizer.trie import build_trie
from edgepack.runner.tokenizer.unsupported import unsupported

AT_SPACES, META, META_SPLITS, PREPEND, PREPEND_FIRST, DOUBLES = 1, 2, 4, 8, 16, 32
UNKNOWN_PENALTY = 10.0
LONGEST_CLUSTER = 5
"""Bytes; longer clusters are looked at character by character."""


def unigram_sections(
    document: Mapping[str, Any], steps: list[Mapping[str, Any]], tokenizer: Tokenizer
) -> dict[str, bytes]:
    """Vocabulary, scores and how the text is split; ``steps`` are the pre-tokenizer's. ``tokenizer`` is what the library makes of the document."""
    model = document["model"]
    if model.get("byte_fallback"):
        raise unsupported("Unigram with", "byte_fallback")
    if model.get("unk_id") is None:
        raise unsupported("Unigram without", "unk_id")
    tokens = {token.encode(): number for number, (token, _) in enumerate(model["vocab"]) if token}
    # Not those of the document: of one in four with 16 digits or more the library reads another last bit (serde_json without
    # `float_roundtrip`), and of two ways to cut a text that have one sum it then takes the other.
    read = json.loads(tokenizer.to_str())["model"]["vocab"]
    scores = array("d", (score for _, score in read))
    single = array("f", scores)
    flags, mark = _splits(steps)
    exact = all(a == b for a, b in zip(scores, single, strict=True))
    if not exact:
        flags |= DOUBLES
    longest = max(map(len, tokens), default=1)
    settings = u32([flags, model["unk_id"], pad_id_of(tokenizer), longest])
    return {
        "model": b"unigram\0" + settings + struct.pack("<d", min(scores) - UNKNOWN_PENALTY),
        "vocab": build_trie(tokens),
        "scores": single.tobytes() if exact else scores.tobytes(),
        "meta": mark.encode(),
    }


def _splits(steps: list[Mapping[str, Any]]) -> tuple[int, str]:
    kinds = [step["type"] for step in steps]
    if kinds not in (["WhitespaceSplit", "Metaspace"], ["Metaspace"], ["WhitespaceSplit"], []):
        raise unsupported("pre_tokenizer", " and ".join(kinds))
    flags, mark = AT_SPACES * ("WhitespaceSplit" in kinds), ""
    if "Metaspace" in kinds:
        step = steps[-1]
        mark = step["replacement"]
        scheme = step.get("prepend_scheme") or ("always" if step.get("add_prefix_space", True) else "never")
        if scheme == "first" and flags:
            raise unsupported("pre_tokenizer WhitespaceSplit with", "prepend_scheme first")
        flags |= META | META_SPLITS * bool(step.get("split", True))
        flags |= {"always": PREPEND, "first": PREPEND_FIRST, "never": 0}[scheme]
    return flags, mark


@lru_cache(maxsize=4)
def precompiled_sections(charsmap: str) -> dict[str, bytes]:
    """SentencePiece's map of characters: forms by code point, and the clusters that it knows as wholes."""
    entries = dict(_entries(base64.b64decode(charsmap)))
    numbers: dict[str, int] = {}
    forms = array("H", bytes(2 * LIMIT))
    clusters: dict[bytes, int] = {}
    for key, text in entries.items():
        number = FIRST_FORM + numbers.setdefault(text, len(numbers))
        letters = key.decode()
        if len(letters) == 1 and text != letters:
            forms[ord(letters)] = number
        elif len(key) <= LONGEST_CLUSTER:
            clusters[key] = number
    return {
        "pcforms": two_stage(forms, width=2),
        "pctext": form_texts(numbers),
        "clusters": build_trie(clusters),
        "graphem": two_stage(cluster_kinds(), width=1),
    }


def _entries(blob: bytes) -> Iterator[tuple[bytes, str]]:
    """Keys and texts of a map: a double array (https://github.com/s-yata/darts-clone), then texts that end with NUL."""
    import numpy as np

    (size,) = struct.unpack_from("<I", blob)
    units = np.frombuffer(blob, dtype="<u4", count=size // 4, offset=4).astype(np.int64)
    texts = blob[4 + size :]
    offsets = ((units >> 10) << ((units & (1 << 9)) >> 6)).tolist()
    children = _children(units)
    ends = (units >> 8 & 1).tolist()
    stack = [(offsets[0], b"")]
    while stack:
        base, key = stack.pop()
        for label, place in children.get(base, ()):
            below = place ^ offsets[place]
            longer = key + bytes([label])
            if ends[place]:
                start = int(units[below]) & ((1 << 31) - 1)
                yield longer, texts[start : texts.index(b"\0", start)].decode()
            stack.append((below, longer))


def _children(units: Any) -> dict[int, list[tuple[int, int]]]:
    """From int64 [units]: base → label and place of what lies below it, by label: a unit lies at its parent's base, changed by its own label."""
    kept = units & ((1 << 31) | 0xFF)
    (places,) = ((kept > 0) & (kept < 256)).nonzero()
    found: dict[int, list[tuple[int, int]]] = {}
    for label, place in sorted(zip(kept[places].tolist(), places.tolist(), strict=True)):
        found.setdefault(place ^ label, []).append((label, place))
    return found
