"""Models with routes: each side is what sentence-transformers makes of it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Router, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling, StaticEmbedding
from tests.support.checkpoints import WIDTH, change, write_encoder
from tests.support.hub import publish
from tests.support.serving import Server
from tests.support.tiny import write_json
from tokenizers import Tokenizer

from edgepack.errors import EdgepackError, ModelError, UnsupportedModelError, UsageError
from edgepack.models.find.source import ingest
from edgepack.models.reference import reference_vectors
from edgepack.plugins.context import HostContext
from edgepack.records.target import Reading

TEXTS = ("hello world", "a small", "models hello")
PROMPTS = {"query": "small: "}


def save(folder: Path, *modules: Any) -> Path:
    SentenceTransformer(modules=list(modules), device="cpu", prompts=PROMPTS).save(
        str(folder), create_model_card=False
    )
    return folder


def static_queries(folder: Path) -> Path:
    """A table for queries, a transformer for documents, as models for search without inference have them."""
    encoder = write_encoder(folder.with_name("encoder"))
    table = StaticEmbedding(Tokenizer.from_file(str(encoder / "tokenizer.json")), embedding_dim=WIDTH)
    router = Router.for_query_document([table], [Transformer(str(encoder)), Pooling(WIDTH)])
    return save(folder, router, Normalize())


def shared_encoder(folder: Path) -> Path:
    """One transformer, and a layer for each side behind it."""
    encoder = Transformer(str(write_encoder(folder.with_name("encoder"))))
    router = Router.for_query_document([Dense(WIDTH, 8)], [Dense(WIDTH, 8), Normalize()])
    return save(folder, encoder, Pooling(WIDTH), router)


def agree(folder: Path, route: str, context: HostContext, *, form: str = "") -> None:
    source = ingest(form or str(folder), reading=Reading(route=route), context=context)
    judge = SentenceTransformer(str(folder), device="cpu")
    exact = np.stack([judge.encode(text, task=route, prompt="") for text in TEXTS])
    np.testing.assert_allclose(reference_vectors(source, TEXTS, context=context), exact, atol=1e-5)
    assert source.prompts == PROMPTS


@pytest.mark.parametrize("route", ["query", "document"])
@pytest.mark.parametrize("make", [static_queries, shared_encoder])
def test_a_side_is_what_sentence_transformers_makes_of_it(
    make: Any, route: str, tmp_path: Path, context: HostContext
) -> None:
    agree(make(tmp_path / "model"), route, context)


def test_a_side_of_a_model_of_the_hub(
    server: Server, tmp_path: Path, online: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", server.base)
    folder = shared_encoder(tmp_path / "model")
    publish(server, folder)
    agree(folder, "document", online, form="hf:tiny/bert")


def test_the_layout_before_version_5(tmp_path: Path, context: HostContext) -> None:
    folder = shared_encoder(tmp_path / "model")
    (folder / "2_Router" / "router_config.json").rename(folder / "2_Router" / "config.json")
    agree(folder, "query", context)


def test_sides_that_are_the_same_need_no_choice(tmp_path: Path, context: HostContext) -> None:
    encoder = Transformer(str(write_encoder(tmp_path / "encoder")))
    same = [encoder, Pooling(WIDTH)]
    folder = save(tmp_path / "model", Router.for_query_document(same, same))
    assert ingest(str(folder), context=context).dimension == WIDTH


def refused(folder: Path, route: str | None, context: HostContext) -> EdgepackError:
    with pytest.raises(EdgepackError) as caught:
        ingest(str(folder), reading=Reading(route=route), context=context)
    assert caught.value.hint
    return caught.value


def test_what_is_refused(tmp_path: Path, context: HostContext, model: Path) -> None:
    folder = static_queries(tmp_path / "model")
    error = refused(folder, None, context)
    assert isinstance(error, UnsupportedModelError)
    assert error.message == "the model has the routes document and query; a bundle holds one"
    assert error.hint == "make a bundle of each: --route query, and so on"
    error = refused(folder, "title", context)
    assert isinstance(error, UsageError)
    assert error.message == "the model has no route title"
    assert "--route query chooses nothing" in refused(model, "query", context).message
    change(folder / "router_config.json", structure={"query": ["../encoder"]}, types={"../encoder": "x"})
    assert "outside the model's folder" in refused(folder, "query", context).message
    write_json(folder / "router_config.json", {"types": {}})
    assert "lists no routes" in refused(folder, "query", context).message
    (folder / "router_config.json").unlink()
    assert isinstance(refused(folder, "query", context), ModelError)
