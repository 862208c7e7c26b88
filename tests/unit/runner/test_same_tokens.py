"""A bundle's own tokenizer is compared with Hugging Face's when the bundle is verified."""

import json
from pathlib import Path

import pytest

from edgepack.bundles.manifest import open_bundle
from edgepack.errors import VerificationError
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.records.model import ModelSource, Pooling
from edgepack.runner.freeze.sample_bundle import DIMENSION, MAX_LENGTH, sample_tokenizer
from edgepack.verifier.run import BundleRunner
from edgepack.verifier.tokens import compare_tokens, first_difference

pytestmark = pytest.mark.tools("c++", "env", "python")

TEXTS = ("a cat sat on the mat", "", "the kitten")


def source_of(folder: Path, document: str) -> ModelSource:
    (folder / "tokenizer.json").write_text(document)
    return ModelSource(
        name="sample",
        origin="test",
        directory=folder,
        weights=None,
        onnx=None,
        tokenizer=folder / "tokenizer.json",
        config={},
        pooling=Pooling(),
        max_length=MAX_LENGTH,
        dimension=DIMENSION,
    )


def test_the_same_tokens_pass(sample: Path, tmp_path: Path, shared_context: HostContext) -> None:
    source = source_of(tmp_path, sample_tokenizer())
    assert (
        compare_tokens(open_bundle(sample), source, TEXTS, BundleRunner(context=shared_context).tokens) > 1000
    )


def test_another_token_fails_and_shows_the_text(
    sample: Path, tmp_path: Path, shared_context: HostContext
) -> None:
    document = json.loads(sample_tokenizer())
    vocabulary = document["model"]["vocab"]
    vocabulary["sat"], vocabulary["on"] = vocabulary["on"], vocabulary["sat"]
    source = source_of(tmp_path, json.dumps(document))
    with pytest.raises(VerificationError, match="a cat sat on the mat") as caught:
        compare_tokens(open_bundle(sample), source, TEXTS, BundleRunner(context=shared_context).tokens)
    assert "at token 3" in caught.value.message


def test_a_compiled_tokenizer_is_asked_whatever_its_manifest_calls_it(sample: Path, tmp_path: Path) -> None:
    manifest = json.loads((sample / "manifest.json").read_text())
    (tmp_path / "table.dat").write_bytes((sample / manifest["model"]["tokenizer"]).read_bytes())
    manifest["model"]["tokenizer"] = "table.dat"
    bundle = Bundle(directory=tmp_path, manifest=manifest)
    with pytest.raises(VerificationError, match="the bundle's tokenizer makes"):
        compare_tokens(
            bundle, source_of(tmp_path, sample_tokenizer()), TEXTS, lambda _, texts: [[0]] * len(texts)
        )


def test_a_bundle_with_the_library_s_own_file_is_not_asked(
    sample: Path, tmp_path: Path, shared_context: HostContext
) -> None:
    source = source_of(tmp_path, sample_tokenizer())
    manifest = json.loads((sample / "manifest.json").read_text())
    manifest["model"]["tokenizer"] = "model/tokenizer.json"
    bundle = Bundle(directory=sample, manifest=manifest)
    assert compare_tokens(bundle, source, TEXTS, BundleRunner(context=shared_context).tokens) == 0


def test_a_longer_list_is_shown_from_where_the_other_ends() -> None:
    assert first_difference([1, 2, 3, 4], [1, 2]) == "[3, 4] at token 2"
    assert first_difference([1, 2], [1, 2, 3, 4]) == "[] at token 2"
