"""Static models of a few rows: as sentence-transformers saves them, and as model2vec does."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file
from tokenizers import Tokenizer

from tests.support.tiny import WORDS, tokenizer_document, write_json

TOKENS, WIDTH = len(WORDS), 8
UNKNOWN = WORDS.index("[UNK]")


def table(rows: int = TOKENS, *, width: int = WIDTH) -> npt.NDArray[np.float32]:
    """Random rows, float32 [rows, width]."""
    return np.random.default_rng(5).normal(size=(rows, width)).astype(np.float32)


def write_module(folder: Path, *, normalize: bool = True, place: str = "") -> Path:
    """sentence-transformers' StaticEmbedding; ``place`` is the module's folder."""
    write_json(folder / place / "tokenizer.json", {**tokenizer_document(), "truncation": None})
    save_file({"embedding.weight": table()}, folder / place / "model.safetensors")
    kinds = ["StaticEmbedding", "Normalize"][: 1 + normalize]
    paths = [place, "1_Normalize"]
    modules = [
        {"idx": at, "name": str(at), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for at, (kind, path) in enumerate(zip(kinds, paths, strict=False))
    ]
    write_json(folder / "modules.json", modules)
    return folder


def write_model2vec(
    folder: Path, tensors: dict[str, npt.NDArray[Any]] | None = None, *, modules: bool = False, **config: Any
) -> Path:
    """model2vec's form; without ``modules`` there is no modules.json."""
    if modules:
        write_module(folder)
    write_json(folder / "tokenizer.json", {**tokenizer_document(), "truncation": None})
    tensors = tensors or {"embeddings": table()}
    save_file(tensors, folder / "model.safetensors")
    said = {"normalize": True, "embedding_dtype": tensors["embeddings"].dtype.name}
    write_json(folder / "config.json", {**said, **config})
    return folder


def write_with_words(folder: Path, tokenizer: Path, **tensors: npt.NDArray[Any]) -> Path:
    """model2vec's form with a real tokenizer, so that texts differ: 16 numbers for each of its tokens."""
    tokens = len(Tokenizer.from_file(str(tokenizer)).get_vocab())
    write_model2vec(folder, {"embeddings": table(tokens, width=16), **tensors})
    shutil.copyfile(tokenizer, folder / "tokenizer.json")
    return folder


def quantized(dtype: Any = np.float32) -> dict[str, npt.NDArray[Any]]:
    """Tensors of a model whose vocabulary was quantized: fewer rows than tokens, and a weight for each token."""
    random = np.random.default_rng(6)
    rows = table(4)
    small = np.rint(rows * 40).astype(np.int8) if dtype == np.int8 else rows.astype(dtype)
    return {
        "embeddings": small,
        "mapping": random.integers(0, 4, TOKENS),
        "weights": random.uniform(0.2, 1, TOKENS).astype(np.float32),
    }
