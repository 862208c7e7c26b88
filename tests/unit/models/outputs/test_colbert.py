"""ColBERT: tokens' vectors of queries and documents, as sentence-transformers' MultiVectorEncoder makes them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tests.support.berts import SHAPE
from tests.support.checkpoints import WIDTH, change, with_tokenizer
from tests.support.families import FAMILIES
from tests.support.tiny import write_json
from tokenizers import Tokenizer

from edgepack.errors import EdgepackError, ModelError, UnsupportedModelError
from edgepack.models.find.source import ingest
from edgepack.models.token_reference import reference_outputs
from edgepack.plugins.context import HostContext
from edgepack.records.outputs import MultiVector

TEXTS = ("hello world", "a small model, of models!", "hello " * 40, "")
LENGTHS = {"query_length": 12, "document_length": 14}
DIMENSION = 8


def write_encoder(folder: Path, kind: str = "bert") -> Any:
    """A bare encoder with room for markers; the torch model."""
    torch.manual_seed(6)
    family = FAMILIES[kind]
    shape = SHAPE if kind == "bert" else family.small
    model: Any = getattr(transformers, family.model)(
        getattr(transformers, family.config)(**{**shape, "vocab_size": 70})
    )
    with torch.no_grad():
        for name, weight in model.named_parameters():
            is_norm = "norm" in name.lower() and name.endswith("weight")
            weight.normal_(mean=1.0 if is_norm else 0.0, std=0.3)
    model.save_pretrained(folder)
    with_tokenizer(folder, longest=30)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_special_tokens(["[MASK]", "[unused0]", "[unused1]"])
    tokenizer.add_tokens(["[Q] ", "[D] "])
    tokenizer.save(str(folder / "tokenizer.json"))
    change(folder / "tokenizer_config.json", mask_token="[MASK]")
    return model


def write_dense(folder: Path) -> np.ndarray:
    """A Dense module as PyLate saves it."""
    from safetensors.numpy import save_file

    folder.mkdir()
    weight = np.random.default_rng(3).normal(size=(DIMENSION, WIDTH)).astype(np.float32)
    save_file({"linear.weight": weight}, folder / "model.safetensors")
    config = {"in_features": WIDTH, "out_features": DIMENSION, "bias": False}
    write_json(folder / "config.json", {**config, "activation_function": "torch.nn.modules.linear.Identity"})
    return weight


def write_pylate(folder: Path, **settings: Any) -> Path:
    write_encoder(folder)
    write_dense(folder / "1_Dense")
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Dense", "type": "pylate.models.Dense.Dense"},
    ]
    write_json(folder / "modules.json", modules)
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": 13, "do_lower_case": False})
    said = {
        "model_type": "ColBERT",
        "query_prefix": "[Q] ",
        "document_prefix": "[D] ",
        "prompts": {},
        **LENGTHS,
    }
    write_json(
        folder / "config_sentence_transformers.json", {**said, "similarity_fn_name": "MaxSim", **settings}
    )
    return folder


def write_stanford(folder: Path, **metadata: Any) -> Path:
    from safetensors.numpy import load_file, save_file

    write_encoder(folder)
    tensors = {f"bert.{name}": each for name, each in load_file(folder / "model.safetensors").items()}
    tensors["linear.weight"] = np.random.default_rng(3).normal(size=(DIMENSION, WIDTH)).astype(np.float32)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    change(folder / "config.json", architectures=["HF_ColBERT"])
    write_json(
        folder / "artifact.metadata", {"query_maxlen": 10, "doc_maxlen": 14, "dim": DIMENSION, **metadata}
    )
    return folder


def write_native(folder: Path, **lengths: Any) -> Path:
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.base.modules import Dense, Normalize, Transformer
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

    write_encoder(folder.with_name("encoder"))
    modules = [
        Transformer(str(folder.with_name("encoder")), **lengths),
        Dense(
            WIDTH,
            DIMENSION,
            bias=True,
            activation_function=torch.nn.Tanh(),
            module_input_name="token_embeddings",
        ),
        MultiVectorMask(
            skiplist_words=["##s", "model", "no such word"], skiplist_tasks=["query", "document"]
        ),
        Normalize(module_input_name="token_embeddings"),
    ]
    model = MultiVectorEncoder(
        modules=modules, device="cpu", prompts={"query": "hello world ", "document": ""}
    )
    model.save(str(folder), create_model_card=False)
    return folder


def theirs(folder: Path, *, query: bool) -> list[np.ndarray]:
    from sentence_transformers import MultiVectorEncoder

    model = MultiVectorEncoder(str(folder), device="cpu", model_kwargs={"attn_implementation": "eager"})
    made = (model.encode_query if query else model.encode_document)(list(TEXTS))
    return [np.asarray(each) for each in made]


def require_same(folder: Path, context: HostContext) -> MultiVector:
    source = ingest(str(folder), context=context)
    assert source.outputs is not None and source.outputs.multi_vector is not None
    assert (source.gives, source.dimension) == (("tokens",), DIMENSION)
    for query in (True, False):
        made = reference_outputs(source, TEXTS, query=query, context=context)
        for one, exact in zip(made, theirs(folder, query=query), strict=True):
            assert one.vectors.shape == exact.shape
            assert np.abs(one.vectors - exact).max(initial=0) < 1e-4
            assert np.linalg.norm(one.vectors, axis=1) == pytest.approx(1, abs=1e-5)
    return source.outputs.multi_vector


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"attend_to_expansion_tokens": True, "skiplist_words": ["hello", "!"]},
        {"do_query_expansion": False, "skiplist_words": []},
    ],
)
def test_folders_of_pylate(tmp_path: Path, context: HostContext, settings: dict[str, Any]) -> None:
    found = require_same(write_pylate(tmp_path / "model", **settings), context)
    expanded = settings.get("do_query_expansion", True)
    assert (found.query.length, found.query.least) == (12, 12 if expanded else 0)
    assert (found.document.length, found.document.marker) == (
        14,
        found.query.marker and found.query.marker + 1,
    )


@pytest.mark.parametrize("metadata", [{}, {"attend_to_mask_tokens": True, "mask_punctuation": False}])
def test_folders_of_stanford(tmp_path: Path, context: HostContext, metadata: dict[str, Any]) -> None:
    found = require_same(write_stanford(tmp_path / "model", **metadata), context)
    assert (found.query.least, found.query.attend) == (10, bool(metadata))


@pytest.mark.parametrize(
    "lengths",
    [
        {},
        {
            "query_length": 20,
            "query_expansion": {"strategy": "min", "length": 16, "attend": True, "token": "hello"},
        },
    ],
)
def test_folders_of_sentence_transformers(
    tmp_path: Path, context: HostContext, lengths: dict[str, Any]
) -> None:
    found = require_same(write_native(tmp_path / "model", **lengths), context)
    assert found.query.skip and found.query.skip == found.document.skip
    assert (found.query.marker, found.query.least) == (8, 16 if lengths else 0)


def _without_dense(folder: Path) -> None:
    modules = json.loads((folder / "modules.json").read_text())
    write_json(folder / "modules.json", modules[:1])


def _odd_module(folder: Path) -> None:
    modules = json.loads((folder / "modules.json").read_text())
    write_json(
        folder / "modules.json", [*modules, {"idx": 2, "name": "2", "path": "2", "type": "x.TokenPooling"}]
    )


@pytest.mark.parametrize(
    ("spoil", "error", "words"),
    [
        (
            _without_dense,
            ModelError,
            ("without a linear layer", "its Dense module makes the tokens' vectors"),
        ),
        (
            _odd_module,
            UnsupportedModelError,
            ("modules.json requires TokenPooling", "edgepack takes a Transformer"),
        ),
        (
            lambda folder: change(folder / "tokenizer_config.json", mask_token=None),
            ModelError,
            ("expanded by the token mask_token", "get the model whole"),
        ),
    ],
)
def test_what_cannot_be_read_is_named(
    tmp_path: Path, context: HostContext, spoil: Any, error: type[EdgepackError], words: tuple[str, str]
) -> None:
    folder = write_pylate(tmp_path / "model")
    spoil(folder)
    with pytest.raises(error) as found:
        ingest(str(folder), context=context)
    assert words[0] in found.value.message
    assert words[1] in (found.value.hint or "")


def test_a_checkpoint_of_stanford_without_its_linear_layer_is_named(
    tmp_path: Path, context: HostContext
) -> None:
    write_encoder(tmp_path / "model")
    change(tmp_path / "model/config.json", architectures=["HF_ColBERT"])
    with pytest.raises(ModelError, match=r"has no tensor linear\.weight"):
        ingest(str(tmp_path / "model"), context=context)
