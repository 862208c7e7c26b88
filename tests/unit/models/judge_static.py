"""Static models are read as their own libraries read them: sentence-transformers' StaticEmbedding, and model2vec."""

from pathlib import Path

from sentence_transformers import SentenceTransformer
from tests.support.judges import asked_again
from tests.support.static_models import (
    write_module,
)
from tests.unit.models.test_static import (
    TEXTS,
    agree,
    test_a_module_of_sentence_transformers,
    test_a_text_is_cut_where_the_tokenizer_cuts_it,
    test_models_of_model2vec,
)

from edgepack.models.find.source import ingest
from edgepack.plugins.context import HostContext

__all__ = [
    "asked_again",
    "test_a_module_of_sentence_transformers",
    "test_a_text_is_cut_where_the_tokenizer_cuts_it",
    "test_models_of_model2vec",
]


def test_what_sentence_transformers_saves_of_it(tmp_path: Path, context: HostContext) -> None:
    judge = SentenceTransformer(str(write_module(tmp_path / "written")), device="cpu", truncate_dim=5)
    judge.prompts = {"query": "hello "}
    judge.save(str(tmp_path / "model"), create_model_card=False)
    agree(tmp_path / "model", judge.encode(list(TEXTS)), context)
    source = ingest(str(tmp_path / "model"), context=context)
    assert (source.dimension, source.pooling.unit, source.prompts) == (5, False, {"query": "hello "})
