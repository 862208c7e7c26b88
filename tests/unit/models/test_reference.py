"""The full-precision reference: texts in, vectors out, by the stock onnxruntime package."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.support.berts import Tokens, change_weights, expected_vectors, write_bert
from tests.support.installed import export_onnx
from tests.support.tiny import tokenizer_document, write_json

from edgepack.errors import ModelError, OutputError
from edgepack.models.export.source_key import source_key
from edgepack.models.find.source import ingest
from edgepack.models.fuse.fusion import fuse
from edgepack.models.ort.convert import convert_to_ort
from edgepack.models.reference import (
    cached_reference,
    embed_with_onnxruntime,
    exported_model,
    reference_vectors,
    well_formed,
)
from edgepack.plugins.context import HostContext
from edgepack.recipes.prepare import prepare_model
from edgepack.records.model import ModelSource
from edgepack.records.target import ModelOptions

TEXTS = ("hello world", "a", "small models", "a small world hello a model", "", "unknown words")
IDS = {"hello": 8, "world": 9, "a": 4, "small": 5, "model": 6}


@pytest.fixture
def source(tmp_path: Path) -> ModelSource:
    return write_bert(tmp_path / "model")[0]


def test_texts_are_tokenized_as_the_tokenizer_says(tmp_path: Path) -> None:
    source, model = write_bert(tmp_path / "model")
    exported = export_onnx(source, tmp_path / "model.onnx")
    ids = np.array([[2, IDS["hello"], IDS["world"], 3]])
    tokens = Tokens(ids=ids, mask=np.ones_like(ids), types=np.zeros_like(ids))
    vectors = embed_with_onnxruntime(exported, source, ["hello world"])
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected_vectors(model, tokens, source.pooling), atol=1e-5)


@pytest.mark.parametrize("batch_size", [2, 4, 100])
def test_a_batch_gives_what_texts_alone_give(tmp_path: Path, batch_size: int) -> None:
    source, _ = write_bert(tmp_path / "model")
    exported = export_onnx(source, tmp_path / "model.onnx")
    alone = embed_with_onnxruntime(exported, source, TEXTS)
    assert alone.shape == (len(TEXTS), 32)
    together = embed_with_onnxruntime(exported, source, TEXTS, batch_size=batch_size)
    np.testing.assert_allclose(together, alone, atol=1e-6)


def test_long_texts_are_cut_at_the_models_length(tmp_path: Path) -> None:
    source, _ = write_bert(tmp_path / "model")
    exported = export_onnx(source, tmp_path / "model.onnx")
    cut, whole, longer = embed_with_onnxruntime(
        exported, source, ["hello " * 14 + "world", "hello " * 14, "hello " * 10_000]
    )
    np.testing.assert_allclose(cut, whole, atol=1e-6)
    np.testing.assert_allclose(longer, whole, atol=1e-6)
    short = replace(source, max_length=5)
    assert np.abs(embed_with_onnxruntime(exported, short, ["hello " * 14])[0] - whole).max() > 1e-4


def test_no_texts_give_no_vectors(tmp_path: Path) -> None:
    source, _ = write_bert(tmp_path / "model")
    exported = export_onnx(source, tmp_path / "model.onnx")
    assert embed_with_onnxruntime(exported, source, []).shape == (0, 32)


def test_ort_files_are_read_as_well(tmp_path: Path) -> None:
    import onnx

    source, _ = write_bert(tmp_path / "model")
    exported = export_onnx(source, tmp_path / "model.onnx")
    converted = convert_to_ort(fuse(onnx.load(exported), print), tmp_path / "model.ort")
    np.testing.assert_allclose(
        embed_with_onnxruntime(converted, source, TEXTS),
        embed_with_onnxruntime(exported, source, TEXTS),
        atol=1e-5,
    )


def test_a_damaged_model_file_is_named(tmp_path: Path) -> None:
    source, _ = write_bert(tmp_path / "model")
    (tmp_path / "model.ort").write_bytes(b"not a model at all" * 20)
    with pytest.raises(ModelError, match=r"model\.ort"):
        embed_with_onnxruntime(tmp_path / "model.ort", source, ["a"])


def test_the_reference_is_exported_once(tmp_path: Path, context: HostContext) -> None:
    source, model = write_bert(tmp_path / "model")
    first = reference_vectors(source, ["hello world"], context=context)
    file = exported_model(source, context=context)
    written = file.stat().st_mtime_ns
    np.testing.assert_array_equal(reference_vectors(source, ["hello world"], context=context), first)
    assert exported_model(source, context=context) == file
    assert file.stat().st_mtime_ns == written
    ids = np.array([[2, 8, 9, 3]])
    tokens = Tokens(ids=ids, mask=np.ones_like(ids), types=np.zeros_like(ids))
    np.testing.assert_allclose(first, expected_vectors(model, tokens, source.pooling), atol=1e-5)


def test_what_another_edition_made_is_not_taken(
    tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache outlives the mend of what reads models."""
    source, _ = write_bert(tmp_path / "model")
    before = exported_model(source, context=context)
    monkeypatch.setattr("edgepack.models.export.source_key.digest_of_code", lambda *rooms: "another")
    assert exported_model(source, context=context) != before


def test_the_code_of_edgepacks_own_architectures_is_in_the_key(source: ModelSource) -> None:
    keys = [source_key(replace(source, graph_package=each))["by"] for each in ("", "edgepack_nomic")]
    assert keys[0] != keys[1]


@pytest.mark.parametrize("step", ["exported", "reference", "prepared"])
def test_a_model_that_is_changed_while_it_is_read_leaves_nothing_in_the_cache(
    tmp_path: Path, context: HostContext, step: str
) -> None:
    """As a training does that saves its next state over the last one: each of the two would be judged by the other for good."""
    folder = write_bert(tmp_path / "model")[0].directory
    source = ingest(str(folder), context=context)
    weights = folder / "model.safetensors"
    before = weights.read_bytes()
    make: Callable[[], object] = {
        "exported": lambda: exported_model(source, context=context),
        "reference": lambda: cached_reference(source, TEXTS, context=context),
        "prepared": lambda: prepare_model(source, options=ModelOptions(recipe="fp32"), context=context),
    }[step]
    if step == "reference":
        exported_model(source, context=context)
    change_weights(source, {"encoder.layer.0.output.dense.bias": np.ones(32, np.float32)})
    with pytest.raises(OutputError, match=r"model\.safetensors was changed while it was read"):
        make()
    assert set(context.store.kinds()) <= ({"onnx"} if step == "reference" else set())
    weights.write_bytes(before)
    make()


def test_other_weights_are_another_reference(tmp_path: Path, context: HostContext) -> None:
    source, _ = write_bert(tmp_path / "model")
    before = exported_model(source, context=context)
    change_weights(source, {"encoder.layer.0.output.dense.bias": np.ones(32, np.float32)})
    changed = replace(source, files=())
    assert exported_model(changed, context=context) != before


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "hello " * 10_000,
        "🍕👩‍👩‍👧‍👦🏳️‍🌈",
        "a\ud800b",
        "\udfff",
        "\x00\x01",
        "a\u0301" * 500,
        "\U0010ffff",
    ],
    ids=lambda text: repr(text[:12]),
)
def test_odd_texts_have_vectors(source: ModelSource, tmp_path: Path, text: str) -> None:
    exported = export_onnx(source, tmp_path / "model.onnx")
    (vector,) = embed_with_onnxruntime(exported, source, [text])
    assert np.isfinite(vector).all()
    assert np.linalg.norm(vector) == pytest.approx(1.0, abs=1e-5)
    together = embed_with_onnxruntime(exported, source, ["hello", text, "a small model"], batch_size=3)
    np.testing.assert_allclose(together[1], vector, atol=1e-5)


def test_an_unpaired_surrogate_counts_as_the_replacement_character() -> None:
    assert well_formed("a\ud800b") == "a\ufffdb"
    assert well_formed("🍕 é \U0010ffff") == "🍕 é \U0010ffff"


def test_an_empty_text_without_special_tokens(source: ModelSource, tmp_path: Path) -> None:
    document = tokenizer_document()
    document["post_processor"] = None
    write_json(source.tokenizer, document)
    exported = export_onnx(source, tmp_path / "model.onnx")
    vectors = embed_with_onnxruntime(exported, replace(source, files=()), ["", "hello"], batch_size=2)
    assert np.isfinite(vectors).all()


@pytest.mark.parametrize("padding", [10**30, "x", [0], 0.5])
def test_padding_that_is_no_token(source: ModelSource, tmp_path: Path, padding: object) -> None:
    file = export_onnx(source, tmp_path / "model.onnx")
    odd = replace(source, config={**source.config, "pad_token_id": padding})
    with pytest.raises(ModelError, match=r"config\.json: pad_token_id is .*, expected a token's number"):
        embed_with_onnxruntime(file, odd, ["a text"])
