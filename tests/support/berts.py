"""BERT models with random weights, as transformers saves them, and what it says of their vectors (``recorded``)."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime
from safetensors.numpy import load_file, save_file

from edgepack.files.store import digest_tree
from edgepack.records.model import ModelSource, Pooling
from tests.support.recorded import Judged, Weights, form_of, save_model
from tests.support.tiny import tokenizer_document, write_json

Vectors = npt.NDArray[np.float32]

SHAPE: dict[str, Any] = {
    "vocab_size": 60,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 40,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
}
"""What ``write_bert`` writes."""


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """Inputs of a run, int64 [batch, sequence] each."""

    ids: npt.NDArray[np.int64]
    mask: npt.NDArray[np.int64]
    types: npt.NDArray[np.int64]


def write_bert(
    folder: Path, *, seed: int = 1, pooling: Pooling | None = None, **shape: Any
) -> tuple[ModelSource, Judged]:
    """A model folder with random weights of a shape, as a source, and whom to ask what transformers makes of it."""
    judged = save_model(folder, form_of("bert", shape), Weights(seed=seed))
    write_json(folder / "tokenizer.json", tokenizer_document())
    return source_of(folder, pooling=pooling or Pooling()), judged


def source_of(folder: Path, *, pooling: Pooling | None = None, onnx: str | None = None) -> ModelSource:
    """A folder's model as a source."""
    config = json.loads((folder / "config.json").read_text())
    return ModelSource(
        name="test/random-bert",
        origin=folder.name,
        directory=folder,
        weights=None if onnx else folder / "model.safetensors",
        onnx=folder / onnx if onnx else None,
        tokenizer=folder / "tokenizer.json",
        config=config,
        pooling=pooling or Pooling(),
        max_length=16,
        dimension=next(config[key] for key in ("embedding_dim", "hidden_size", "dim") if key in config),
        license="apache-2.0",
        files=tuple(digest_tree(folder)),
    )


def change_config(source: ModelSource, **changes: Any) -> ModelSource:
    """The source with other things in its config.json; the weights stay."""
    return replace(source, config={**source.config, **changes})


def change_weights(source: ModelSource, changes: dict[str, Any], *, drop: Sequence[str] = ()) -> None:
    """Write some tensors anew, leave others out."""
    assert source.weights is not None
    tensors = {name: tensor for name, tensor in load_file(source.weights).items() if name not in drop}
    save_file({**tensors, **changes}, source.weights)


def some_tokens(*, lengths: Sequence[int] = (9, 5, 1, 12), vocabulary: int = 60, seed: int = 3) -> Tokens:
    """Texts of these lengths, padded on the right; both token types occur."""
    random = np.random.default_rng(seed)
    longest = max(lengths)
    mask = (np.arange(longest)[None, :] < np.array(lengths)[:, None]).astype(np.int64)
    ids = random.integers(1, vocabulary, mask.shape) * mask
    types = (np.arange(longest)[None, :] > longest // 2).astype(np.int64) * mask
    return Tokens(ids=ids, mask=mask, types=types)


def expected_vectors(model: Judged, tokens: Tokens, pooling: Pooling) -> Vectors:
    """Vectors by transformers, pooled as sentence-transformers does it; float32 [batch, dimension]."""
    vectors = model.says(str(pooling.mode), ids=tokens.ids, mask=tokens.mask, types=tokens.types)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True) if pooling.normalize else vectors


def onnx_vectors(model: Path | bytes, tokens: Tokens) -> Vectors:
    """Vectors by ONNX Runtime; the graph must have exactly one output, ``sentence_embedding``."""
    session = onnxruntime.InferenceSession(model if isinstance(model, bytes) else str(model))
    assert [each.name for each in session.get_outputs()] == ["sentence_embedding"]
    values = {"input_ids": tokens.ids, "attention_mask": tokens.mask, "token_type_ids": tokens.types}
    feed = {each.name: values[each.name] for each in session.get_inputs()}
    vectors: Vectors = session.run(None, feed)[0]
    return vectors
