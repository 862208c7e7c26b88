"""ColBERT: tokens' vectors of queries and documents, as sentence-transformers' MultiVectorEncoder makes them."""

import json
from dataclasses import replace
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
from edgepack.models.outputs.colbert import without_company
from edgepack.models.token_reference import reference_outputs
from edgepack.plugins.context import HostContext
from edgepack.records.outputs import MultiVector, Side

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


def test_folders_of_pylate_before_sentence_transformers_5(tmp_path: Path, context: HostContext) -> None:
    """GTE-ModernColBERT-v1 and others: no model_type says it, but a module of PyLate's."""
    now, before = (write_pylate(tmp_path / name / "model") for name in ("now", "before"))
    settings = before / "config_sentence_transformers.json"
    said = json.loads(settings.read_text())
    del said["model_type"]
    write_json(settings, said)
    sources = [ingest(str(folder), context=context) for folder in (now, before)]
    vectors = [
        [one.vectors for one in reference_outputs(source, TEXTS, query=True, context=context)]
        for source in sources
    ]
    assert all(np.array_equal(one, other) for one, other in zip(*vectors, strict=True))
    modules = json.loads((before / "modules.json").read_text())
    modules[1]["type"] = "sentence_transformers.models.Dense"
    write_json(before / "modules.json", modules)
    with pytest.raises(UnsupportedModelError):
        ingest(str(before), context=context)


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


def write_native(folder: Path, *kinds: str, **prompts: str) -> Path:
    """As sentence-transformers saves it: the modules behind the Transformer."""
    write_encoder(folder)
    found = {f"{number}_{kind}": kind for number, kind in enumerate(kinds, start=1)}
    for place, kind in found.items():
        if kind == "Dense":
            write_dense(folder / place)
        change_new(folder / place / "config.json", module_input_name="token_embeddings")
    write_modules(folder, {"": "Transformer", **found})
    said = {"model_type": "MultiVectorEncoder", "prompts": prompts}
    write_json(folder / "config_sentence_transformers.json", said)
    return folder


def write_modules(folder: Path, kinds: dict[str, str]) -> None:
    rows = [{"type": f"sentence_transformers.x.{kind}", "path": place} for place, kind in kinds.items()]
    write_json(folder / "modules.json", rows)


def change_new(file: Path, **fields: Any) -> None:
    file.parent.mkdir(exist_ok=True)
    change(file, **fields)


def test_prompts_of_sentence_transformers_are_text(tmp_path: Path, context: HostContext) -> None:
    folder = write_native(tmp_path / "model", "Dense", "Normalize", query="hello world ", document="")
    vectors = ingest(str(folder), context=context).outputs
    assert vectors and vectors.multi_vector
    assert (vectors.multi_vector.query.marker, vectors.multi_vector.query.prefix) == (None, "hello world ")


def test_a_prompt_behind_the_prefix_of_pylate_is_text(tmp_path: Path, context: HostContext) -> None:
    folder = write_pylate(tmp_path / "model", query_prefix="[Q]", prompts={"query": "[Q]a small "})
    source = ingest(str(folder), context=context)
    assert source.outputs and source.outputs.multi_vector
    query = source.outputs.multi_vector.query
    assert (query.marker, query.prefix) == (None, "[Q]a small ")
    change(folder / "config_sentence_transformers.json", query_prefix="hello a", prompts={"query": " model"})
    query = ingest(str(folder), context=context).outputs.multi_vector.query  # type: ignore[union-attr]
    assert (query.marker is None, query.prefix) == (False, " a model")


@pytest.mark.parametrize(
    "kinds",
    [("Dense",), ("Normalize", "Dense"), ("Dense", "MultiVectorMask"), ("Dense", "Normalize", "Dense")],
)
def test_vectors_of_other_lengths_are_refused(
    tmp_path: Path, context: HostContext, kinds: tuple[str, ...]
) -> None:
    with pytest.raises(UnsupportedModelError, match="does not give its tokens' vectors length 1"):
        ingest(str(write_native(tmp_path / "model", *kinds)), context=context)


@pytest.mark.parametrize("place", ["1_Dense", "2_Normalize"])
def test_modules_of_texts_vectors_are_refused(tmp_path: Path, context: HostContext, place: str) -> None:
    folder = write_native(tmp_path / "model", "Dense", "Normalize")
    ingest(str(folder), context=context)
    change(folder / place / "config.json", module_input_name="sentence_embedding")
    with pytest.raises(UnsupportedModelError, match="does not turn one token's vector into another"):
        ingest(str(folder), context=context)


def test_an_activation_across_a_batch_is_refused(tmp_path: Path, context: HostContext) -> None:
    folder = write_native(tmp_path / "model", "Dense", "Normalize")
    softmax = "torch.nn.modules.activation.Softmax"
    change(folder / "1_Dense/config.json", activation_function=softmax)
    with pytest.raises(UnsupportedModelError, match="is activated by Softmax"):
        ingest(str(folder), context=context)


def test_settings_of_pylate_in_a_model_that_it_did_not_save(tmp_path: Path, context: HostContext) -> None:
    folder = write_native(tmp_path / "model", "Dense", "Normalize")
    change(folder / "config_sentence_transformers.json", query_length=9)
    with pytest.raises(UnsupportedModelError, match="has query_length for a model that PyLate did not save"):
        ingest(str(folder), context=context)


def test_classes_of_others_are_refused(tmp_path: Path, context: HostContext) -> None:
    folder = write_pylate(tmp_path / "model")
    write_json(
        folder / "modules.json",
        [*json.loads((folder / "modules.json").read_text())[:1], {"type": "my.Dense", "path": "1_Dense"}],
    )
    with pytest.raises(UnsupportedModelError, match=r"requires my\.Dense, which is not"):
        ingest(str(folder), context=context)


def test_what_pylate_leaves_open_is_as_it_reads_it(tmp_path: Path, context: HostContext) -> None:
    folder = write_pylate(tmp_path / "model", skiplist_words=None, document_length=None)
    said = json.loads((folder / "config_sentence_transformers.json").read_text())
    said = {**said, "skiplist_words": None, "document_length": None, "attend_to_mask_tokens": True}
    write_json(folder / "config_sentence_transformers.json", said)
    change(folder / "sentence_bert_config.json", document_length=11)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.add_tokens(["!"])
    tokenizer.save(str(folder / "tokenizer.json"))
    source = ingest(str(folder), context=context)
    assert source.outputs and source.outputs.multi_vector
    document, query = source.outputs.multi_vector.document, source.outputs.multi_vector.query
    assert (document.length, query.attend, bool(document.skip)) == (11, True, True)


def test_filling_tokens_that_see_nothing(tmp_path: Path, context: HostContext) -> None:
    config, query = {"model_type": "modernbert", "local_attention": 18}, Side(expand=1, least=12)
    assert without_company(config, query, "m") == ()
    (warning,) = without_company({**config, "local_attention": 8}, query, "m")
    assert "of fewer than 8 tokens lie further" in warning
    assert without_company({**config, "local_attention": 8}, replace(query, attend=True), "m") == ()
    with pytest.raises(UnsupportedModelError, match="which in DeBERTa attend to nothing"):
        without_company({"model_type": "deberta-v2"}, query, "m")
    assert without_company({"model_type": "deberta-v2"}, replace(query, attend=True), "m") == ()


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
        folder / "modules.json",
        [*modules, {"idx": 2, "name": "2", "path": "2", "type": "sentence_transformers.x.TokenPooling"}],
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
