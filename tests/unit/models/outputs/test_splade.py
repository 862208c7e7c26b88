"""SPLADE: sparse vectors of masked language models, as transformers and sentence-transformers compute them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.checkpoints import change, says, write_felt
from tests.support.recorded import Judged
from tests.support.tiny import write_json
from tokenizers import Encoding

from edgepack.errors import EdgepackError, ModelError, UnsupportedModelError
from edgepack.models.find.source import ingest
from edgepack.models.outputs.splade import HEADS
from edgepack.models.read import architectures
from edgepack.models.read.tokenizer import load_tokenizer
from edgepack.models.reference import embed_with_onnxruntime, exported_model
from edgepack.models.token_reference import TextOutputs, reference_outputs
from edgepack.plugins.context import HostContext
from edgepack.records.target import Reading

KINDS = ("bert", "camembert", "distilbert", "modernbert", "mpnet", "roberta", "xlm-roberta")

TEXTS = ("hello world", "a small model of models", "hello " * 30, "")


def write_masked(folder: Path, kind: str, **shape: Any) -> Judged:
    """A masked language model with random weights, all of them felt; and whom to ask about it."""
    return write_felt(folder, kind, "ForMaskedLM", **shape)


def expected(model: Judged, encoding: Encoding) -> np.ndarray:
    """What SPLADE makes of transformers' numbers."""
    logits = says(model, "logits", encoding).astype(np.float64)
    weights: np.ndarray = np.log1p(np.maximum(logits, 0)).max(axis=0)
    return weights


def require_same(made: TextOutputs, exact: np.ndarray) -> None:
    """Identical ids, but for weights that are no more than rounding, and weights within 1e-4."""
    assert all(token in made.sparse for token in np.flatnonzero(exact > 1e-5))
    for token, weight in made.sparse.items():
        assert weight == pytest.approx(float(exact[token]), abs=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_those_of_transformers(tmp_path: Path, context: HostContext, kind: str) -> None:
    model = write_masked(tmp_path / "splade-tiny", kind)
    source = ingest(str(tmp_path / "splade-tiny"), context=context)
    assert source.outputs is not None and source.outputs.sparse is not None
    assert (source.further_outputs, source.dimension, source.noun) == (("sparse",), 60, "a sparse encoder")
    tokenizer = load_tokenizer(source)
    made = reference_outputs(source, TEXTS, context=context)
    for text, one in zip(TEXTS, made, strict=True):
        exact = expected(model, tokenizer.encode(text))
        require_same(one, exact)
        assert 0 < (exact > 0).sum() < len(exact) or text == ""


def test_every_architecture_with_a_head_is_tried() -> None:
    assert set(KINDS) == HEADS.keys()


def test_padding_of_a_batch_has_no_weight(tmp_path: Path, context: HostContext) -> None:
    write_masked(tmp_path / "splade-tiny", "bert")
    source = ingest(str(tmp_path / "splade-tiny"), context=context)
    file = exported_model(source, context=context)
    alone, together = (embed_with_onnxruntime(file, source, TEXTS, batch_size=size) for size in (1, 4))
    assert np.abs(alone - together).max() < 1e-5


def test_a_masked_language_model_must_be_called_splade(tmp_path: Path, context: HostContext) -> None:
    write_masked(tmp_path / "plain", "bert")
    with pytest.raises(UnsupportedModelError, match="is a masked language model") as caught:
        ingest(str(tmp_path / "plain"), context=context)
    assert "splade in its name, or by the tag splade" in (caught.value.hint or "")
    (tmp_path / "plain/README.md").write_text("---\ntags:\n- splade\n---\n")
    assert ingest(str(tmp_path / "plain"), context=context).further_outputs == ("sparse",)


def _drop_bias(folder: Path) -> None:
    from safetensors.numpy import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    save_file(
        {name: each for name, each in tensors.items() if "predictions.bias" not in name},
        folder / "model.safetensors",
    )


@pytest.mark.parametrize(
    ("spoil", "kind", "error", "words"),
    [
        (_drop_bias, "bert", ModelError, ("has no cls.predictions.bias", "the head was not saved")),
        (
            lambda folder: change(folder / "config.json", hidden_act="silu"),
            "bert",
            UnsupportedModelError,
            ("hidden_act 'silu' is not supported", "edgepack knows gelu"),
        ),
        (
            lambda folder: change(folder / "config.json", model_type="electra"),
            "bert",
            UnsupportedModelError,
            ("of the architecture 'electra'", "it reads those of bert"),
        ),
        (
            lambda folder: change(folder / "config.json", vocab_size=70),
            "bert",
            ModelError,
            ("has shape [60]", "different models"),
        ),
    ],
)
def test_what_cannot_be_read_is_named(
    tmp_path: Path,
    context: HostContext,
    monkeypatch: pytest.MonkeyPatch,
    spoil: Any,
    kind: str,
    error: type[EdgepackError],
    words: tuple[str, str],
) -> None:
    # Without PyTorch an Electra is refused before anything is looked at.
    monkeypatch.setattr(architectures, "find_spec", lambda name: name)
    folder = tmp_path / "splade-tiny"
    write_masked(folder, kind)
    spoil(folder)
    with pytest.raises(error) as found:
        ingest(str(folder), context=context)
    assert words[0] in found.value.message
    assert words[1] in (found.value.hint or "")


def test_pooling_is_part_of_the_model(tmp_path: Path, context: HostContext) -> None:
    write_masked(tmp_path / "splade-tiny", "bert")
    with pytest.raises(UnsupportedModelError, match="its pooling is part of the model"):
        ingest(str(tmp_path / "splade-tiny"), reading=Reading(pooling="cls"), context=context)


@pytest.mark.parametrize("place", ["1_SpladePooling", "1_Pooling"])
def test_a_pooling_of_another_kind_is_rejected(place: str, tmp_path: Path, context: HostContext) -> None:
    folder = tmp_path / "model"
    write_masked(folder, "bert")
    modules = [
        {
            "idx": 0,
            "name": "0",
            "path": "",
            "type": "sentence_transformers.sparse_encoder.models.MLMTransformer",
        },
        {
            "idx": 1,
            "name": "1",
            "path": place,
            "type": "sentence_transformers.sparse_encoder.models.SpladePooling",
        },
    ]
    write_json(folder / "modules.json", modules)
    (folder / place).mkdir()
    change(folder / place / "config.json", pooling_strategy="mean")
    with pytest.raises(UnsupportedModelError, match="requires mean of relu"):
        ingest(str(folder), context=context)


def test_a_model_that_keeps_some_weights_alone_is_given_with_a_warning(
    tmp_path: Path, context: HostContext
) -> None:
    folder = tmp_path / "splade-tiny"
    write_masked(folder, "bert")
    write_json(folder / "config_sentence_transformers.json", {"max_active_dims": 16})
    assert ingest(str(folder), context=context).warnings == (
        "sentence-transformers keeps the 16 largest weights of a text (max_active_dims), a bundle gives all",
    )


def test_a_transformer_that_gives_something_else_is_refused(tmp_path: Path, context: HostContext) -> None:
    folder = tmp_path / "splade-tiny"
    write_masked(folder, "bert")
    kinds = {"": "Transformer", "1_SpladePooling": "SpladePooling"}
    rows = [{"type": f"sentence_transformers.models.{kind}", "path": path} for path, kind in kinds.items()]
    write_json(folder / "modules.json", rows)
    write_json(folder / "1_SpladePooling/config.json", {})
    said = {"transformer_task": "fill-mask", "modality_config": {"text": {"method_output_name": "logits"}}}
    write_json(folder / "sentence_bert_config.json", said)
    assert ingest(str(folder), context=context).outputs
    write_json(
        folder / "sentence_bert_config.json", {**said, "processing_kwargs": {"text": {"max_length": 2}}}
    )
    with pytest.raises(UnsupportedModelError, match="requires processing_kwargs"):
        ingest(str(folder), context=context)
    chats = {"text": {"method_output_name": "logits"}, "message": {"method_output_name": "logits"}}
    for inputs in (chats, {"image": {"method_output_name": "logits"}}):
        write_json(folder / "sentence_bert_config.json", {**said, "modality_config": inputs})
        with pytest.raises(UnsupportedModelError, match="requires modality_config"):
            ingest(str(folder), context=context)


@pytest.mark.parametrize("name", ["cls.predictions.decoder.weight", "cls.predictions.decoder.bias"])
def test_tied_tensors_that_differ_are_a_warning(tmp_path: Path, context: HostContext, name: str) -> None:
    from safetensors.numpy import load_file, save_file

    folder = tmp_path / "splade-tiny"
    write_masked(folder, "bert")
    tensors = load_file(folder / "model.safetensors")
    other = "bert.embeddings.word_embeddings.weight" if "weight" in name else "cls.predictions.bias"
    for differs in (0, 1):
        save_file({**tensors, name: tensors[other] + np.float32(differs)}, folder / "model.safetensors")
        found = ingest(str(folder), context=context).warnings
        assert [f"ties {name} and {other}, which differ" in each for each in found] == [True] * differs
    change(folder / "config.json", tie_word_embeddings=False)
    assert ingest(str(folder), context=context).warnings == ()
