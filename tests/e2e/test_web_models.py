"""Bundles for browsers of other models than BERT, on npm's runtime: what they compute, and their tokenizers."""

import json
import shutil
from pathlib import Path

import pytest
from tests.support.bundles import made_bundle
from tests.support.families import write_family
from tests.support.small_models import unigram
from tests.support.static_models import write_with_words
from tests.support.tiny import write_json
from tests.support.vocabularies import tokenlearn_model

from edgepack.console import Story
from edgepack.plugins.context import host_context
from edgepack.records.model import ModelSource

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(1800)]

LIMITS = ("model.min_cosine=0.9", "model.min_agreement=0.5", "model.min_top10=0.5")
"""Random weights make many texts alike, whose nearest neighbour is a matter of chance."""


@pytest.fixture(scope="module")
def tokenlearn() -> Path:
    with host_context(story=Story(quiet=True), offline=False) as context:
        return tokenlearn_model(context)


def transformer(folder: Path, kind: str, tokenizer: Path) -> Path:
    """A small model with random weights and as many rows as the tokenizer has tokens."""
    document = json.loads(tokenizer.read_text(encoding="utf-8"))
    tokens = max(len(document["model"]["vocab"]), 1 + max(added["id"] for added in document["added_tokens"]))
    write_family(folder, kind, vocab_size=tokens, std=0.05)
    shutil.copyfile(tokenizer, folder / "tokenizer.json")
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
    write_json(
        folder / "modules.json",
        [
            {"idx": at, "name": str(at), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for at, (path, kind) in enumerate(modules)
        ],
    )
    write_json(folder / "1_Pooling" / "config.json", {"pooling_mode_mean_tokens": True})
    return folder


def small_unigram(folder: Path) -> Path:
    unigram().save(str(folder / "small.json"))
    return folder / "small.json"


@pytest.mark.parametrize("kind", ["modernbert", "xlm-roberta", "static", "static, real"])
def test_it_verifies(tmp_path: Path, minilm: ModelSource, kind: str, request: pytest.FixtureRequest) -> None:
    """Vectors and tokens in Node; of Unigram models by the page's own tokenizer."""
    folder = tmp_path / "model"
    if kind == "static":
        write_with_words(folder, minilm.tokenizer)
    elif kind == "static, real":
        shutil.copytree(request.getfixturevalue("tokenlearn"), folder)
    elif kind == "modernbert":
        transformer(folder, kind, minilm.tokenizer)
    else:
        transformer(folder, kind, small_unigram(tmp_path))
    options = [word for limit in LIMITS for word in ("--set", limit)]
    settings = ("--set", "runtime=stock", "--set", "copies=false", "--set", "budget.download=120 MB")
    bundle = made_bundle("web-wasm", tmp_path / "out", "-m", str(folder), *settings, *options)
    report = json.loads(Path(f"{bundle.directory}.report.json").read_text())["verification"]
    assert report["status"] == "passed"
    described = json.loads((bundle.directory / "bundle.json").read_text())
    assert described["tokenizer"]["kind"] == ("wordpiece" if kind in ("modernbert", "static") else "unigram")
