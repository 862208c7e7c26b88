"""Models with random weights, small and real in every other respect: a BERT and a static table, with one WordPiece tokenizer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from string import ascii_lowercase, digits, punctuation
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HIDDEN, LAYERS, HEADS, INNER, POSITIONS = 32, 2, 4, 64, 128
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = ["the", "a", "an", "of", "to", "in", "and", "is", "are", "was", "it", "that", "this", "for", "on", "with", "as", "by", "from", "how", "do", "i", "my", "you", "what", "when", "where", "which", "model", "small", "text", "vector", "device", "battery", "water", "coffee", "bread", "river", "city", "light", "door", "window", "paper", "music", "step", "cover", "clean", "filter", "note", "loose", "screw", "number", "lift", "each", "reading", "ing", "ed", "er", "ly", "tion"]  # fmt: skip
SPREAD = 0.3
"""Standard deviation of the weights: attention is sharp, and every nonlinearity is felt."""
MODULES = (("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))


def write_model(folder: Path, *, seed: int = 1) -> Path:
    """Fill a folder as Hugging Face lays models out: 32 dimensions, two layers, mean pooling. A seed gives the same bytes always.

    ``edgepack bundle --model FOLDER`` takes it. Its vectors mean nothing, but no two texts have the same.
    """
    words = vocabulary()
    config = {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "hidden_size": HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": INNER,
        "max_position_embeddings": POSITIONS,
        "type_vocab_size": 2,
        "vocab_size": len(words),
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
    }
    modules = [
        {"idx": at, "name": str(at), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for at, (path, kind) in enumerate(MODULES)
    ]
    documents = {
        "config.json": config,
        "tokenizer.json": _tokenizer(words),
        "modules.json": modules,
        "sentence_bert_config.json": {"max_seq_length": POSITIONS, "do_lower_case": False},
        "1_Pooling/config.json": {"word_embedding_dimension": HIDDEN, "pooling_mode_mean_tokens": True},
    }
    return _write(folder, documents, _weights(len(words), seed))


def write_static_model(folder: Path, *, seed: int = 1) -> Path:
    """Fill a folder as model2vec saves a static model whose vocabulary was quantized. A seed gives the same bytes always.

    Its table has all that a ``StaticTable`` can have: a row for each token that is not the one of its number, a scale for each
    token, and an unknown token, which does not count beside others.
    """
    import numpy as np

    words = vocabulary()
    random = np.random.default_rng(seed)
    documents = {
        "config.json": {"normalize": True, "embedding_dtype": "float32"},
        "tokenizer.json": _tokenizer(words),
    }
    tensors: dict[str, NDArray[Any]] = {
        "embeddings": random.normal(size=(len(words), HIDDEN)).astype(np.float32),
        "mapping": random.permutation(len(words)).astype(np.int64),
        "weights": random.uniform(0.2, 1, len(words)).astype(np.float32),
    }
    return _write(folder, documents, tensors)


def _write(folder: Path, documents: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> Path:
    for name, document in documents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(document), encoding="utf-8")
    (folder / "README.md").write_text("---\nlicense: mit\n---\n# Random weights\n")
    (folder / "model.safetensors").write_bytes(_safetensors(tensors))
    return folder


def vocabulary() -> tuple[str, ...]:
    """The tokens by their ids: special ones, characters of several scripts at the start of a word and within it, words."""
    scripts = "àéîõüßøłабвгдежзиклмнопрстуאבגابتकखগあいカ日本語文中国한🚀🔥🎉"
    characters = [*ascii_lowercase, *digits, *scripts]
    inside = [f"##{character}" for character in characters]
    found = dict.fromkeys((*SPECIAL, *punctuation, *characters, *inside, *WORDS, *(f"##{w}" for w in WORDS)))
    return tuple(found)


def _tokenizer(words: tuple[str, ...]) -> dict[str, Any]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    cls, sep = ({"SpecialToken": {"id": name, "type_id": 0}} for name in ("[CLS]", "[SEP]"))
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": at, "content": word, **flags} for at, word in enumerate(SPECIAL)],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [cls, {"Sequence": {"id": "A", "type_id": 0}}, sep],
            "pair": [
                cls,
                {"Sequence": {"id": "A", "type_id": 0}},
                sep,
                {"Sequence": {"id": "B", "type_id": 1}},
            ],
            "special_tokens": {
                name: {"id": name, "ids": [words.index(name)], "tokens": [name]}
                for name in ("[CLS]", "[SEP]")
            },
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {word: at for at, word in enumerate(words)},
        },
    }


def _weights(words: int, seed: int) -> dict[str, NDArray[np.float32]]:
    """Tensors by the names that BERT has for them; LayerNorms are not the identity."""
    import numpy as np

    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (words, HIDDEN),
        "embeddings.position_embeddings.weight": (POSITIONS, HIDDEN),
        "embeddings.token_type_embeddings.weight": (2, HIDDEN),
        **_norm("embeddings.LayerNorm"),
    }
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}"
        for name in ("query", "key", "value"):
            shapes |= _linear(f"{at}.attention.self.{name}", HIDDEN, HIDDEN)
        shapes |= _linear(f"{at}.attention.output.dense", HIDDEN, HIDDEN) | _norm(
            f"{at}.attention.output.LayerNorm"
        )
        shapes |= _linear(f"{at}.intermediate.dense", INNER, HIDDEN)
        shapes |= _linear(f"{at}.output.dense", HIDDEN, INNER) | _norm(f"{at}.output.LayerNorm")
    random = np.random.default_rng(seed)
    return {
        name: random.normal(float(name.endswith("LayerNorm.weight")), SPREAD, shape).astype(np.float32)
        for name, shape in shapes.items()
    }


def _linear(name: str, outputs: int, inputs: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def _norm(name: str) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (HIDDEN,), f"{name}.bias": (HIDDEN,)}


def _safetensors(tensors: Mapping[str, NDArray[Any]]) -> bytes:
    """The file of these tensors: the header's length, the header, the data without gaps."""
    header, data = {}, b""
    for name, tensor in tensors.items():
        content = tensor.tobytes()
        header[name] = {
            "dtype": {"float32": "F32", "int64": "I64"}[tensor.dtype.name],
            "shape": list(tensor.shape),
            "data_offsets": [len(data), len(data) + len(content)],
        }
        data += content
    words = json.dumps(header).encode()
    return len(words).to_bytes(8, "little") + words + data
