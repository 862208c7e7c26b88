"""Four models as people bring them: none is in the catalogue, and each is odd in a way of its own."""

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from tests.support.graphs import write_graph_alone
from tests.support.recorded import Weights, form_of, recorded_model
from tests.support.static_models import write_module
from tests.support.tiny import tokenizer_document, write_json

LLAMA = {
    "type": "Sequence",
    "normalizers": [
        {"type": "Prepend", "prepend": "▁"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
    ],
}


def graph_alone(folder: Path) -> Path:
    """A graph of another exporter beside its tokenizer, as wheels carry models: no configuration."""
    folder.mkdir()
    write_graph_alone(folder)
    return folder / "model.onnx"


def odd_widths(folder: Path) -> Path:
    """A BERT of 312 dimensions and 1,200 in its middle, with heads of 26, pooled by its first token."""
    write_wide_bert(folder, hidden=312, middle=1200, heads=12)
    write_modules(folder, "cls_token", 312)
    return folder


def with_dense(folder: Path) -> Path:
    """A BERT of 128 dimensions, and a Dense module with Tanh that makes 64 of them."""
    write_wide_bert(folder, hidden=128, middle=512, heads=4)
    write_modules(folder, "mean_tokens", 128)
    modules = json.loads((folder / "modules.json").read_text())
    kind = "sentence_transformers.models.Dense"
    write_json(folder / "modules.json", [*modules, {"idx": 2, "name": "2", "path": "2_Dense", "type": kind}])
    shape = {"in_features": 128, "out_features": 64, "bias": True}
    tanh = "torch.nn.modules.activation.Tanh"
    write_json(folder / "2_Dense/config.json", {**shape, "activation_function": tanh})
    weights = {"linear.weight": (64, 128), "linear.bias": (64,)}
    drawn = {name: Weights(seed=3).drawn(name, list(shape)) for name, shape in weights.items()}
    save_file(drawn, folder / "2_Dense/model.safetensors")
    return folder


def llama_table(folder: Path) -> Path:
    """Static embeddings whose tokenizer normalizes as Llama 2's and Mistral's do."""
    folder.mkdir()
    write_module(folder)
    (file,) = folder.rglob("tokenizer.json")
    write_json(file, {**json.loads(file.read_text()), "normalizer": LLAMA})
    return folder


def write_wide_bert(folder: Path, *, hidden: int, middle: int, heads: int) -> None:
    """A BERT of two layers and random weights, as transformers saves it: what is recorded of a small one, widened."""
    small = recorded_model(form_of("bert", {}))
    sizes = {small["config"]["hidden_size"]: hidden, small["config"]["intermediate_size"]: middle}
    folder.mkdir(parents=True, exist_ok=True)
    changes = {"hidden_size": hidden, "intermediate_size": middle, "num_attention_heads": heads}
    write_json(folder / "config.json", {**small["config"], **changes})
    tensors = {
        name: Weights(seed=5).drawn(name, [sizes.get(size, size) for size in shape])
        for name, shape in small["tensors"].items()
    }
    save_file(
        {name: np.ascontiguousarray(each) for name, each in tensors.items()}, folder / "model.safetensors"
    )
    write_json(folder / "tokenizer.json", tokenizer_document())


def write_modules(folder: Path, pooling: str, dimension: int) -> None:
    """The modules of sentence-transformers: the transformer and its pooling."""
    kinds = (("", "Transformer"), ("1_Pooling", "Pooling"))
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (path, kind) in enumerate(kinds)
    ]
    write_json(folder / "modules.json", modules)
    modes = {f"pooling_mode_{each}": each == pooling for each in ("cls_token", "mean_tokens")}
    write_json(folder / "1_Pooling/config.json", {"word_embedding_dimension": dimension, **modes})
