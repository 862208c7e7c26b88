"""A server in the test's own process that makes one mistake, or several: PyTorch, and none of doctor's code."""

import copy
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer

from edgepack.records.model import ModelSource
from tests.support.families import write_family
from tests.support.installed import read_folder
from tests.support.judges import torch_model
from tests.support.small_models import unigram
from tests.support.tiny import MODULES, write_json
from tests.support.word_piece import word_piece

Vectors = npt.NDArray[np.float32]

KINDS = ("bert", "xlm-roberta", "distilbert", "nomic_bert")
LENGTH = 64
HIDDEN = 32
PROMPTS = {"query": "query: ", "passage": "passage: "}


@dataclass(frozen=True, kw_only=True)
class Planted:
    """What a server does; by default as it should."""

    pooling: str = "mean"
    dense: bool = False
    """Whether what 2_Dense holds comes after pooling."""
    normalize: bool = True
    prefix: str = ""
    text: Callable[[str], str] = lambda text: text
    tokenizer: Callable[[dict[str, Any]], None] = lambda document: None
    specials: bool = True
    length: int = LENGTH
    dimension: int = HIDDEN
    again: bool = True
    """Whether cut vectors are normalised again."""
    padding: str = ""
    """``counted`` by the mean, or ``attended`` to; in each batch to its longest text, or to ``to``."""
    to: int = 0
    weights: Callable[[torch.Tensor], torch.Tensor] = lambda weight: weight
    after: Callable[[Vectors], Vectors] = lambda vectors: vectors
    """What is done to all vectors of a batch in the end."""


@dataclass(kw_only=True)
class Emulated:
    """The subject: a torch model served with these mistakes."""

    folder: Path
    model: Any
    does: Planted
    at_once: int = 16
    requests: list[list[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        document = json.loads((self.folder / "tokenizer.json").read_text())
        document["truncation"] = document["padding"] = None
        self.does.tokenizer(document)
        self.tokenizer = Tokenizer.from_str(json.dumps(document))
        torch.set_num_threads(1)
        self.model = copy.deepcopy(self.model)
        with torch.no_grad():
            for name, weight in self.model.named_parameters():
                if weight.ndim == 2 and "position" not in name:
                    weight.copy_(self.does.weights(weight))

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.requests.append(list(texts))
        rows = [self._ids(self.does.prefix + self.does.text(text)) for text in texts]
        longest = max([*map(len, rows), self.does.to])
        padding = self.model.config.pad_token_id or 0
        ids = torch.tensor([row + [padding] * (longest - len(row)) for row in rows])
        real = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
        mask = torch.ones_like(real) if self.does.padding == "attended" else real
        with torch.no_grad():
            hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state.float()
        counted = torch.ones_like(real) if self.does.padding else real
        made = np.stack([self._pooled(row[seen == 1]) for row, seen in zip(hidden, counted, strict=True)])
        if self.does.dense:
            tensors = load_file(self.folder / "2_Dense" / "model.safetensors")
            made = np.tanh(made @ tensors["linear.weight"].T + tensors["linear.bias"])
        if self.does.normalize:
            made = made / np.linalg.norm(made, axis=1, keepdims=True)
        made = made[:, : self.does.dimension]
        if self.does.normalize and self.does.again:
            made = made / np.linalg.norm(made, axis=1, keepdims=True)
        return self.does.after(made.astype(np.float32))

    def _ids(self, text: str) -> list[int]:
        self.tokenizer.enable_truncation(self.does.length)
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=self.does.specials).ids
        return ids

    def _pooled(self, tokens: torch.Tensor) -> Vectors:
        if self.does.pooling == "pooler":
            weight, bias = self.model.pooler.dense.weight, self.model.pooler.dense.bias
            made: Vectors = torch.tanh(weight @ tokens[0] + bias).detach().numpy()
            return made
        pooled = {
            "mean": lambda: tokens.mean(0),
            "cls": lambda: tokens[0],
            "last": lambda: tokens[-1],
            "max": lambda: tokens.max(0).values,
        }[self.does.pooling]()
        vectors: Vectors = pooled.numpy()
        return vectors


def write_planted_model(
    folder: Path, kind: str, *, pooling: str = "mean", dense: int = 0
) -> tuple[ModelSource, Any]:
    """A model of an architecture with a tokenizer of real words, as a source, and the torch model.

    ``dense``: a Dense layer with Tanh makes so many numbers of the pooled vector.
    """
    tokenizer = unigram() if kind == "xlm-roberta" else word_piece()
    sizes = {"vocab_size": max(tokenizer.get_vocab().values()) + 1, "max_position_embeddings": 160}
    _, judged = write_family(folder, kind, **sizes)
    tokenizer.save(str(folder / "tokenizer.json"))
    if dense:
        write_dense(folder / "2_Dense", dense)
    behind: dict[str, Any] = {"path": "2_Dense", "type": "sentence_transformers.models.Dense"}
    modules = [*MODULES[:2], *[behind] * bool(dense), MODULES[2]]
    write_json(folder / "modules.json", [dict(each, idx=at) for at, each in enumerate(modules)])
    mode = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}[pooling]
    write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": HIDDEN, mode: True})
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": LENGTH})
    write_json(folder / "config_sentence_transformers.json", {"prompts": PROMPTS})
    return read_folder(folder, name=f"test/{kind}", origin=folder.name), torch_model(judged)


def write_dense(folder: Path, outputs: int) -> None:
    """A module of sentence-transformers'."""
    random = np.random.default_rng(4)
    tanh = "torch.nn.modules.activation.Tanh"
    sizes = {"in_features": HIDDEN, "out_features": outputs, "bias": True}
    write_json(folder / "config.json", {**sizes, "activation_function": tanh})
    weight = random.normal(size=(outputs, HIDDEN)).astype(np.float32) * 0.2
    bias = random.normal(size=outputs).astype(np.float32)
    save_file({"linear.weight": weight, "linear.bias": bias}, folder / "model.safetensors")


def rounded(bits: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Weights rounded to so many bits a row."""
    most = 2 ** (bits - 1) - 1

    def weights(weight: torch.Tensor) -> torch.Tensor:
        scale = weight.abs().amax(dim=1, keepdim=True).clamp(min=1e-9) / most
        made: torch.Tensor = (weight / scale).round() * scale
        return made

    return weights
