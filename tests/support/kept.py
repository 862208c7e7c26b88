"""Answers that are the same for the same content, kept in the user's cache: each test process would ask for seconds."""

import inspect
import pickle
import platform
from collections.abc import Callable, Mapping
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import tokenizers

from edgepack.files.store import Store, default_root, digest_of_code
from edgepack.models.fuse import fusion
from edgepack.runner.tokenizer import added_tokens, byte_level_bpe, compile, unigram

CODE_POINTS = (
    (compile, "_normalizer_sections"),
    (compile, "_pieces"),
    (compile, "compositions"),
    (byte_level_bpe, "character_kinds"),
    (unigram, "cluster_kinds"),
    (added_tokens, "word_points"),
)
"""Functions that ask a tokenizer about every code point: where they are called, and by which names."""
ROOT = default_root()
"""Not asked for later: tests name caches of their own."""
SMALL = 1 << 20
"""Bytes of a model whose fused form is kept."""


def kept(kind: str, inputs: Mapping[str, str], ask: Callable[[], Any]) -> Any:
    """What ``ask`` returned for the same inputs, in this or an earlier run."""

    def make(folder: Path) -> None:
        (folder / "answer").write_bytes(pickle.dumps(ask()))

    folder = Store(root=ROOT).cached(f"test-{kind}", {**inputs, "python": platform.python_version()}, make)
    return pickle.loads((folder / "answer").read_bytes())


def keep_answers() -> None:
    """From now on, in this process, answers are those that the same code got from the same library before."""
    for module, name in CODE_POINTS:
        setattr(module, name, _of_code_points(name, getattr(module, name)))
    fusion._optimized = _of_small_models(fusion._optimized)


def _of_code_points(name: str, ask: Callable[..., Any]) -> Callable[..., Any]:
    @cache
    def answer(*arguments: str) -> Any:
        inputs = {
            "function": name,
            "arguments": repr(arguments),
            "by": digest_of_code("runner/tokenizer"),
            "tokenizers": tokenizers.__version__,
        }
        return kept("code-points", inputs, lambda: ask(*arguments))

    return answer


def _of_small_models(ask: Callable[..., onnx.ModelProto]) -> Callable[..., onnx.ModelProto]:
    """As ``ask`` fuses a model; the rest of fusing, and the proof that no vector changes, is done each time."""
    by = sha256(inspect.getsource(fusion).encode()).hexdigest()

    def answer(model: onnx.ModelProto, *options: Any) -> onnx.ModelProto:
        given = model.SerializeToString(deterministic=True)
        if len(given) > SMALL or any(tensor.external_data for tensor in model.graph.initializer):
            return ask(model, *options)
        inputs = {
            "model": sha256(given).hexdigest(),
            "options": repr(options),
            "by": by,
            "onnx": version("onnx"),
            "onnxruntime": onnxruntime.__version__,
        }
        made: bytes = kept("fused", inputs, lambda: ask(model, *options).SerializeToString())
        return onnx.ModelProto.FromString(made)

    return answer
