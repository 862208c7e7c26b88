"""A static model of sentence-transformers' own on another processor."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.e2e.test_static import UNKNOWN, static_bundle, vectors
from tests.support.bundles import made_bundle
from tests.support.static_models import table

from edgepack.records.model import ModelSource

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(1800),
    pytest.mark.builds("a table in place of a graph: a program of its own, made in seconds"),
]


@pytest.mark.slow
def test_a_module_of_sentence_transformers_for_another_processor(tmp_path: Path, minilm: ModelSource) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(minilm.tokenizer))
    judge = SentenceTransformer(modules=[StaticEmbedding(tokenizer, table(30_522, width=16))], device="cpu")
    judge.save(str(tmp_path / "model"), create_model_card=False)
    made = made_bundle("linux-arm64-static", tmp_path / "out", "--model", str(tmp_path / "model"))
    report = json.loads(made.directory.with_name(f"{made.directory.name}.report.json").read_text())
    assert report["verification"]["status"] == "passed"
    here = static_bundle(tmp_path / "here", tmp_path / "model")
    texts = ["hello small world", f"{UNKNOWN} hello", "A longer text, with more words than before."]
    np.testing.assert_allclose(vectors(here, *texts), judge.encode(texts), atol=2e-3)
