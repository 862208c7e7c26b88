"""Small sound inputs: a compiled tokenizer of each kind, a manifest."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from edgepack.runner.freeze.sample_bundle import sample_tokenizer, write_manifest
from edgepack.runner.tokenizer.byte_level_bpe import PATTERNS
from edgepack.runner.tokenizer.compile import compile_tokenizer
from tests.support.sentencepieces import charsmap, pieces

TEXTS = Path(__file__).parents[2] / "src/edgepack/verifier/data/texts.txt"


def small_tables() -> Iterator[bytes]:
    """WordPiece, BPE as RoBERTa, Qwen and Gemma have it, Unigram with a map of characters."""
    yield compile_tokenizer(sample_tokenizer())
    yield compile_tokenizer(byte_level())
    yield compile_tokenizer(by_lines())
    yield compile_tokenizer(json.dumps(characters()))
    yield compile_tokenizer(json.dumps(unigram()))


def byte_level() -> str:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<s>", "<pad>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train([str(TEXTS)], trainer)
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, rstrip=True)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return str(tokenizer.to_str())


def by_lines() -> str:
    """Composed, and split by Qwen's regular expression."""
    tokenizer = Tokenizer.from_str(byte_level())
    tokenizer.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(next(iter(PATTERNS))), "isolated")
    rest = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, rest])
    return str(tokenizer.to_str())


def characters() -> dict[str, Any]:
    """Four letters, and bytes for all others."""
    tokens = [*(f"<0x{byte:02X}>" for byte in range(256)), "\u2581", "a", "b", "é", "ab", "aba", "\u2581a"]
    return {
        "version": "1.0",
        "added_tokens": [],
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "Prepend", "prepend": "\u2581"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
            ],
        },
        "pre_tokenizer": None,
        "post_processor": None,
        "model": {
            "type": "BPE",
            "byte_fallback": True,
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": [["a", "b"], ["ab", "a"], ["\u2581", "a"]],
        },
    }


def unigram() -> dict[str, Any]:
    special = ("<s>", "<pad>", "</s>", "<unk>")
    vocabulary = [
        *([token, 0.0] for token in special),
        *pieces(),
    ]
    steps = [
        {"type": "Precompiled", "precompiled_charsmap": charsmap()},
        {"type": "Strip", "strip_left": False, "strip_right": True},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"},
    ]
    return {
        "version": "1.0",
        "added_tokens": [
            {
                "id": number,
                "content": token,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for number, token in enumerate(special)
        ],
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        "post_processor": None,
        "model": {"type": "Unigram", "unk_id": 3, "vocab": vocabulary, "byte_fallback": False},
    }


def small_manifest() -> bytes:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path in ("model/model.onnx", "model/tokenizer.bin", "lib/libonnxruntime.so", "golden.json"):
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_bytes(b"x")
        write_manifest(folder, library="lib/libonnxruntime.so")
        return (folder / "manifest.json").read_bytes()
