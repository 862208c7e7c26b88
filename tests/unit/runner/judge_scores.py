"""Cohere's client, of a reranker's server."""

# ruff: noqa: F811

from pathlib import Path

import httpx
import pytest
from tests.support.embed_serve import Running
from tests.unit.runner.test_scores import QUERY, TEXTS, program, rank_server, ranker, said  # noqa: F401

pytestmark = pytest.mark.tools("c++", "python")


def test_coheres_client_reads_the_answer(rank_server: tuple[Running, Path]) -> None:
    cohere = pytest.importorskip("cohere", reason="Cohere's client is not installed")
    server, bundle = rank_server
    found = said(bundle, "--rerank", QUERY, *TEXTS)
    with httpx.Client() as connections:
        client = cohere.Client(api_key="none", base_url=server.url, httpx_client=connections)
        answer = client.rerank(model="any", query=QUERY, documents=list(TEXTS), top_n=3)
    assert [one.index for one in answer.results] == [one["index"] for one in found[:3]]
