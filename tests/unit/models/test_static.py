"""Static models are read as their own libraries read them: sentence-transformers' StaticEmbedding, and model2vec."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from tests.support.recorded import answer
from tests.support.static_models import (
    TOKENS,
    UNKNOWN,
    WIDTH,
    quantized,
    table,
    write_model2vec,
    write_module,
)
from tests.support.tiny import tokenizer_document, write_json, write_model

from edgepack.errors import EdgepackError, ModelError, UnsupportedModelError
from edgepack.models.find.source import ingest
from edgepack.models.read.static import UNLIMITED, static_table
from edgepack.models.reference import embed_with_onnxruntime, exported_model, reference_vectors
from edgepack.plugins.context import HostContext

TEXTS = ("hello world", "a", "small models hello", "zebra hello", "Hello A SMALL world", "hello small " * 40)


def agree(folder: Path, expected: Any, context: HostContext, texts: tuple[str, ...] = TEXTS) -> None:
    """Each text alone, and all of them in one batch, padded."""
    source = ingest(str(folder), context=context)
    for size in (1, len(texts)):
        found = embed_with_onnxruntime(
            exported_model(source, context=context), source, texts, batch_size=size
        )
        np.testing.assert_allclose(found, expected, atol=1e-5 * max(1, np.abs(expected).max()), rtol=0)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("place", ["", "0_StaticEmbedding"])
def test_a_module_of_sentence_transformers(
    tmp_path: Path, context: HostContext, place: str, normalize: bool
) -> None:
    folder = write_module(tmp_path / "model", normalize=normalize, place=place)
    agree(folder, answer("static_vectors", f"normalize {normalize}", folder, TEXTS), context)
    source = ingest(str(folder), context=context)
    assert (source.max_length, source.dimension, source.pooling.normalize) == (UNLIMITED, WIDTH, normalize)
    assert {file.path for file in source.files} >= {"modules.json", f"{place}/tokenizer.json".strip("/")}


def test_a_prompt_that_is_put_before_texts_unasked_is_said(tmp_path: Path, context: HostContext) -> None:
    folder = write_model2vec(tmp_path / "model")
    said = {"prompts": {"query": "query: "}, "default_prompt_name": "query"}
    write_json(folder / "config_sentence_transformers.json", said)
    (warning,) = ingest(str(folder), context=context).warnings
    assert warning.endswith("before each text unasked, a bundle does not")


@pytest.mark.parametrize("place", [".", "./", "./."])
def test_a_module_in_the_models_own_folder(tmp_path: Path, context: HostContext, place: str) -> None:
    """As model2vec writes modules.json."""
    folder = write_model2vec(tmp_path / "model", modules=True)
    rows = [{"path": place, "type": "sentence_transformers.models.StaticEmbedding"}]
    write_json(
        folder / "modules.json",
        [*rows, {"path": "1_Normalize", "type": "sentence_transformers.models.Normalize"}],
    )
    assert ingest(str(folder), context=context).weights == folder / "model.safetensors"


def test_a_text_is_cut_where_the_tokenizer_cuts_it(tmp_path: Path, context: HostContext) -> None:
    folder = write_module(tmp_path / "model")
    cut = {"max_length": 7, "strategy": "LongestFirst", "stride": 0, "direction": "Right"}
    write_json(folder / "tokenizer.json", {**tokenizer_document(), "truncation": cut})
    agree(folder, answer("static_vectors", "cut at 7", folder, TEXTS), context)
    assert ingest(str(folder), context=context).max_length == 7
    write_json(
        folder / "tokenizer.json",
        {**tokenizer_document(), "truncation": {**cut, "direction": "Left"}},
    )
    with pytest.raises(UnsupportedModelError, match="truncates long texts at the beginning"):
        ingest(str(folder), context=context)


MODEL2VEC: dict[str, Any] = {
    "plain": {},
    "named": {"model_type": "model2vec", "architectures": ["StaticModel"], "embedding_dtype": None},
    "not normalized": {"normalize": False},
    "with modules.json": {"modules": True},
    "float16": {"tensors": {"embeddings": table().astype(np.float16)}},
    "int8": {"tensors": {"embeddings": np.rint(table() * 40).astype(np.int8)}},
    "quantized vocabulary": {"tensors": quantized()},
    "quantized vocabulary, int8": {"tensors": quantized(np.int8)},
}


@pytest.mark.parametrize("how", MODEL2VEC)
def test_models_of_model2vec(tmp_path: Path, context: HostContext, how: str) -> None:
    folder = write_model2vec(tmp_path / "model", **MODEL2VEC[how])
    said = answer("model2vec_vectors", how, folder, TEXTS)
    expected, half = said.astype(np.float32), said.dtype == np.float16
    source = ingest(str(folder), context=context)
    found = reference_vectors(source, TEXTS, context=context)
    # model2vec gives float16 tables' means as float16.
    np.testing.assert_allclose(
        found, expected, atol=2e-3 if half else 1e-5 * max(1, np.abs(expected).max()), rtol=0
    )


def test_a_text_is_cut_where_model2vec_s_configuration_says(tmp_path: Path, context: HostContext) -> None:
    assert ingest(str(write_model2vec(tmp_path / "usual")), context=context).max_length == 512
    whole = write_model2vec(tmp_path / "whole", max_length=None)
    assert ingest(str(whole), context=context).max_length == UNLIMITED
    source = ingest(str(write_model2vec(tmp_path / "short", max_length=2)), context=context)
    found = reference_vectors(source, ["a hello", "a hello small small"], context=context)
    np.testing.assert_array_equal(found[0], found[1])


def test_unknown_tokens_count_where_there_are_no_others(tmp_path: Path, context: HostContext) -> None:
    source = ingest(str(write_model2vec(tmp_path / "model", normalize=False)), context=context)
    rows = static_table(source).vectors
    alone, beside, hello, empty = reference_vectors(
        source, ["zebra", "zebra hello zebra", "hello", ""], context=context
    )
    np.testing.assert_allclose(alone, rows[UNKNOWN], atol=1e-6)
    np.testing.assert_allclose(beside, hello, atol=1e-6)
    np.testing.assert_allclose(empty, rows[0], atol=1e-6)  # the padding token's


@pytest.mark.parametrize("said", ["config.json", "head.safetensors", "pipeline.skops"])
def test_a_classifier_says_that_it_is_one(said: str, tmp_path: Path, context: HostContext) -> None:
    more: dict[str, Any] = {"head_config": {"classes": ["a", "b"]}} if said == "config.json" else {}
    folder = write_model2vec(tmp_path / "model", **more)
    assert bool(ingest(str(folder), context=context).warnings) is bool(more)
    if not more:
        (folder / said).write_bytes(b"1")
    (warning,) = ingest(str(folder), context=context).warnings
    assert warning == "it is a classifier of model2vec, of which the embeddings alone are taken"


def test_a_table_in_few_bits_says_so(tmp_path: Path, context: HostContext) -> None:
    source = ingest(str(write_model2vec(tmp_path / "model", quantized(np.int8))), context=context)
    assert source.precision == "int8"
    assert "quantized already (int8)" in source.warnings[0]
    found = static_table(source)
    assert (found.vectors.shape, found.tokens, found.unknown) == ((4, WIDTH), TOKENS, UNKNOWN)


def bad(folder: Path, **tensors: Any) -> Path:
    """A model2vec model with other tensors than it should have."""
    write_model2vec(folder, quantized())
    save_file({**quantized(), **tensors}, folder / "model.safetensors")
    return folder


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({"embeddings": table(4)[:, 0].copy()}, "no table called embedding.weight or embeddings"),
        ({"mapping": np.full(TOKENS, 4)}, "mapping names rows that embeddings does not have"),
        ({"mapping": np.full(TOKENS, -1)}, "mapping names rows that embeddings does not have"),
        ({"mapping": np.zeros(TOKENS, np.float32)}, "mapping is of type F32, expected whole numbers"),
        (
            {"mapping": np.zeros(TOKENS - 1, np.int64), "weights": np.ones(TOKENS - 1, np.float32)},
            "token 9, the table has 9",
        ),
        ({"weights": np.ones(TOKENS + 1, np.float32)}, r"weights has shape \[11\]"),
        ({"embeddings": np.full((4, WIDTH), np.nan, np.float32)}, "NaN or infinite"),
    ],
)
def test_tables_that_make_no_sense(
    tmp_path: Path, context: HostContext, tensors: dict[str, Any], words: str
) -> None:
    with pytest.raises(ModelError, match=words):
        ingest(str(bad(tmp_path / "model", **tensors)), context=context)


def test_what_is_no_static_model_is_refused(tmp_path: Path, context: HostContext) -> None:
    folder = write_module(tmp_path / "model")
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match=r"no model\.safetensors with a tokenizer.json beside it"):
        ingest(str(folder), context=context)
    folder = write_module(tmp_path / "dense")
    dense = {"idx": 1, "name": "1", "path": "1_Dense", "type": "sentence_transformers.models.Dense"}
    first = {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.StaticEmbedding"}
    write_json(folder / "modules.json", [first, dense])
    with pytest.raises(UnsupportedModelError, match="requires Dense behind StaticEmbedding"):
        ingest(str(folder), context=context)
    with pytest.raises(UnsupportedModelError, match="is not a static model"):
        static_table(ingest(str(write_model(tmp_path / "bert")), context=context))


def test_of_two_tables_it_is_the_one_that_modules_json_names(tmp_path: Path, context: HostContext) -> None:
    folder = write_module(tmp_path / "model", place="0_StaticEmbedding")
    write_model2vec(folder, {"embeddings": -table()})
    source = ingest(str(folder), context=context)
    np.testing.assert_array_equal(static_table(source).vectors, table())
    assert source.weights == folder / "0_StaticEmbedding/model.safetensors"


@pytest.mark.parametrize("normalize", [True, False])
def test_two_files_that_say_otherwise_of_the_length_are_refused(
    tmp_path: Path, context: HostContext, normalize: bool
) -> None:
    from edgepack.records.target import Reading

    folder = write_module(tmp_path / "model", normalize=normalize)
    write_model2vec(folder, normalize=not normalize)
    with pytest.raises(ModelError, match=r"config\.json says normalize .*, and modules\.json has"):
        ingest(str(folder), context=context)
    said = ingest(str(folder), reading=Reading(normalize=normalize), context=context)
    assert said.pooling.normalize == normalize


def test_pooling_otherwise_is_refused(tmp_path: Path, context: HostContext) -> None:
    from edgepack.records.target import Reading

    folder = str(write_module(tmp_path / "model"))
    with pytest.raises(EdgepackError, match="no pooling but mean"):
        ingest(folder, reading=Reading(pooling="cls"), context=context)
    assert not ingest(folder, reading=Reading(normalize=False), context=context).pooling.normalize
