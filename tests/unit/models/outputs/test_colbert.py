"""ColBERT: tokens' vectors of queries and documents, as sentence-transformers' MultiVectorEncoder makes them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.checkpoints import WIDTH, change, with_tokenizer
from tests.support.recorded import Weights, answer, form_of, save_model
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


def write_encoder(folder: Path) -> None:
    """A bare encoder with room for markers."""
    save_model(folder, form_of("bert", {"vocab_size": 70}), Weights(seed=6))
    with_tokenizer(folder, longest=30)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_special_tokens(["[MASK]", "[unused0]", "[unused1]"])
    tokenizer.add_tokens(["[Q] ", "[D] "])
    tokenizer.save(str(folder / "tokenizer.json"))
    change(folder / "tokenizer_config.json", mask_token="[MASK]")


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


def require_same(folder: Path, key: str, context: HostContext) -> MultiVector:
    """As recorded under a key: ``judge_colbert.py`` asks sentence-transformers."""
    source = ingest(str(folder), context=context)
    assert source.outputs is not None and source.outputs.multi_vector is not None
    assert (source.further_outputs, source.dimension) == (("tokens",), DIMENSION)
    for query in (True, False):
        made = reference_outputs(source, TEXTS, query=query, context=context)
        exact = answer("multi_vectors", f"{key} query {query}", folder, TEXTS, query)
        together = np.concatenate([one.vectors for one in made])
        assert together.shape == exact.shape
        assert np.abs(together - exact).max(initial=0) < 1e-4
        for one in made:
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
    found = require_same(write_pylate(tmp_path / "model", **settings), f"PyLate {settings}", context)
    expanded = settings.get("do_query_expansion", True)
    assert (found.query.length, found.query.least) == (12, 12 if expanded else 0)
    assert (found.document.length, found.document.marker) == (
        14,
        found.query.marker and found.query.marker + 1,
    )


@pytest.mark.parametrize("metadata", [{}, {"attend_to_mask_tokens": True, "mask_punctuation": False}])
def test_folders_of_stanford(tmp_path: Path, context: HostContext, metadata: dict[str, Any]) -> None:
    found = require_same(write_stanford(tmp_path / "model", **metadata), f"Stanford {metadata}", context)
    assert (found.query.least, found.query.attend) == (10, bool(metadata))


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
