"""What is read of model folders of every kind, and the graphs that are made of it, against digests that do not change unasked."""

import dataclasses
import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tests.support.checkpoints import WIDTH, change, older_files, write_felt
from tests.support.families import FAMILIES, write_family
from tests.support.golden import GOLDEN, in_rows
from tests.support.static_models import quantized, write_model2vec, write_module
from tests.support.tiny import MODULES, add_dense, write_json, write_model, write_onnx
from tests.support.torch_files import write_torch_file
from tokenizers import Tokenizer

from edgepack.models.export.from_source import export_onnx
from edgepack.models.find.source import ingest
from edgepack.plugins.context import HostContext
from edgepack.records.model import FileDigest, ModelSource
from edgepack.testing import write_static_model

pytestmark = pytest.mark.tools("python")

FILE = GOLDEN / "model-sources.json"
HEADS = ("albert", "bert", "deberta-v2", "distilbert", "gte", "modernbert", "mpnet", "roberta", "xlm-roberta")
MASKED = ("bert", "camembert", "distilbert", "modernbert", "mpnet", "roberta", "xlm-roberta")
DECODERS = ("gemma3_text", "llama", "mistral", "qwen2", "qwen3")
DIMENSION = 8


def _matrix(outputs: int) -> np.ndarray:
    return np.random.default_rng(3).normal(size=(outputs, WIDTH)).astype(np.float32)


def _dense(folder: Path) -> Path:
    return add_dense(write_model(folder))


def _colbert(folder: Path) -> Path:
    write_felt(folder, "bert", "", vocab_size=70)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_special_tokens(["[MASK]", "[unused0]", "[unused1]"])
    tokenizer.save(str(folder / "tokenizer.json"))
    change(folder / "tokenizer_config.json", mask_token="[MASK]")
    return folder


def _pylate(folder: Path) -> Path:
    _colbert(folder)
    config = {"in_features": WIDTH, "out_features": DIMENSION, "bias": False}
    write_json(
        folder / "1_Dense/config.json", {**config, "activation_function": "torch.nn.modules.linear.Identity"}
    )
    save_file({"linear.weight": _matrix(DIMENSION)}, folder / "1_Dense/model.safetensors")
    dense = {"idx": 1, "name": "1", "path": "1_Dense", "type": "pylate.models.Dense.Dense"}
    write_json(folder / "modules.json", [MODULES[0], dense])
    said = {
        "model_type": "ColBERT",
        "query_prefix": "[unused0]",
        "document_prefix": "[unused1]",
        "query_length": 12,
        "document_length": 14,
        "skiplist_words": [",", "a"],
    }
    write_json(folder / "config_sentence_transformers.json", said)
    return folder


def _stanford(folder: Path) -> Path:
    _colbert(folder)
    change(folder / "config.json", architectures=["HF_ColBERT"])
    tensors = load_file(folder / "model.safetensors")
    save_file({**tensors, "linear.weight": _matrix(DIMENSION)}, folder / "model.safetensors")
    write_json(folder / "artifact.metadata", {"query_maxlen": 12, "doc_maxlen": 14})
    return folder


def _three(folder: Path) -> Path:
    write_felt(folder, "xlm-roberta", "")
    for name, outputs in (("sparse", 1), ("colbert", WIDTH)):
        layer = {"weight": _matrix(outputs), "bias": np.zeros(outputs, np.float32)}
        write_torch_file(folder / f"{name}_linear.pt", layer)
    write_json(folder / "modules.json", MODULES)
    write_json(
        folder / "1_Pooling/config.json", {"word_embedding_dimension": WIDTH, "pooling_mode_cls_token": True}
    )
    return folder


def _settings(folder: Path) -> Path:
    """Prompts, a cut, lower case, a card: all that stands beside the weights."""
    write_model(folder)
    prompts = {"query": "query: ", "document": ""}
    said = {"prompts": prompts, "default_prompt_name": "query", "truncate_dim": 4}
    write_json(folder / "config_sentence_transformers.json", said)
    change(folder / "sentence_bert_config.json", do_lower_case=True)
    return folder


def _without_modules(folder: Path) -> Path:
    write_model(folder)
    (folder / "modules.json").unlink()
    (folder / "README.md").write_text("---\nlicense: mit\nbase_model: a/bge-small\n---\n")
    return folder


def _older(folder: Path) -> Path:
    older_files(write_model(folder))
    return folder


def _graph(folder: Path) -> Path:
    write_model(folder)
    (folder / "model.safetensors").unlink()
    write_onnx(folder / "onnx/model.onnx", external="model.onnx_data")
    (folder / "onnx/model.onnx_data").write_bytes(bytes(10 * 8 * 4))
    return folder


def _model2vec(folder: Path) -> Path:
    return write_model2vec(folder, quantized(np.int8), normalize=False)


def _family(kind: str) -> Callable[[Path], object]:
    """With modules.json: decoders embed only where something says so."""

    def write(folder: Path) -> None:
        write_family(folder, kind)
        write_json(folder / "modules.json", MODULES)
        mode = "lasttoken" if kind in DECODERS else "mean"
        write_json(folder / "1_Pooling/config.json", {"pooling_mode": mode})

    return write


def _head(kind: str, head: str, **shape: Any) -> Callable[[Path], object]:
    return lambda folder: write_felt(folder, kind, head, **shape)


def _cross_encoder(folder: Path) -> Path:
    write_felt(folder, "bert", "ForSequenceClassification", num_labels=1)
    write_json(folder / "modules.json", MODULES[:1])
    activation = "torch.nn.modules.linear.Identity"
    said = {"model_type": "CrossEncoder", "activation_fn": activation}
    write_json(folder / "config_sentence_transformers.json", said)
    return folder


CASES: Mapping[str, Callable[[Path], object]] = {
    **{f"family-{kind}": _family(kind) for kind in sorted(FAMILIES)},
    **{f"rank-{kind}": _head(kind, "ForSequenceClassification", num_labels=1) for kind in HEADS},
    "classes-bert": _head("bert", "ForSequenceClassification", num_labels=3),
    "cross-encoder": _cross_encoder,
    **{f"splade-{kind}": _head(kind, "ForMaskedLM") for kind in MASKED},
    "colbert-pylate": _pylate,
    "colbert-stanford": _stanford,
    "three-heads": _three,
    "static-module": write_module,
    "static-model2vec": _model2vec,
    "static-testing": write_static_model,
    "tiny": write_model,
    "dense": _dense,
    "settings": _settings,
    "bge-without-modules": _without_modules,
    "older-files": _older,
    "graph": _graph,
}
GRAPHS = (
    "family-bert",
    "family-modernbert",
    "family-nomic_bert",
    "family-qwen3",
    "rank-bert",
    "splade-distilbert",
    "colbert-pylate",
    "three-heads",
    "static-model2vec",
)
NOT_READ = ("module",)
"""Fields that the folder does not decide."""
DEFAULT = "default of the catalogue"


def canonical(value: Any, source: ModelSource) -> Any:
    """A record as JSON, its paths told from the model's folder."""
    if isinstance(value, FileDigest) and value.path.endswith((".pt", ".bin")):
        # PyTorch's archives hold the time at which they were written.
        value = dataclasses.replace(value, sha256="")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            each.name: canonical(getattr(value, each.name), source)
            for each in dataclasses.fields(value)
            if each.name not in NOT_READ
        }
        return {"": type(value).__name__, **fields}
    if isinstance(value, Path):
        # What was converted lies in the store.
        inside = value.is_relative_to(source.directory)
        return value.relative_to(source.directory).as_posix() if inside else f"store/{value.name}"
    if isinstance(value, Mapping):
        return {str(key): canonical(each, source) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [canonical(each, source) for each in value]
    return value


def digest_of(source: ModelSource) -> str:
    document = canonical(source, source)
    return sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:32]


def matches(name: str, digest: str, *, update: bool) -> None:
    known = json.loads(FILE.read_text(encoding="utf-8")) if FILE.is_file() else {}
    if update:
        known[name] = digest
        FILE.write_text(in_rows(dict(sorted(known.items()))), encoding="utf-8")
    assert digest == known.get(name), f"{name} is read otherwise than before"


@pytest.mark.parametrize("name", CASES)
def test_a_folder_is_read_as_before(
    name: str, tmp_path: Path, context: HostContext, update_golden: bool
) -> None:
    CASES[name](tmp_path / name)
    source = ingest(str(tmp_path / name), context=context)
    matches(name, digest_of(source), update=update_golden)
    if name in GRAPHS:
        graph = export_onnx(source, tmp_path / "made.onnx", context=context)
        matches(f"graph of {name}", sha256(graph.read_bytes()).hexdigest()[:32], update=update_golden)


def test_the_default_model_is_read_as_before(minilm: ModelSource, update_golden: bool) -> None:
    matches(DEFAULT, digest_of(minilm), update=update_golden)
