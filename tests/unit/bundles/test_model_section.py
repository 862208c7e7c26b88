"""Prefixes and shorter vectors, as the manifest says them."""

from dataclasses import replace
from typing import Any

import pytest

from edgepack.bundles.model_section import prefixes, shortening
from edgepack.records.model import ModelSource


@pytest.mark.parametrize(
    ("prompts", "expected"),
    [
        ({"query": "query: ", "passage": "passage: "}, {"query": "query: ", "passage": "passage: "}),
        ({"query": "for this: "}, {"query": "for this: ", "passage": ""}),
        (
            {"search_query": "q ", "search_document": "d ", "clustering": "c "},
            {"query": "q ", "passage": "d "},
        ),
        ({"query": "Q: ", "document": "D: "}, {"query": "Q: ", "passage": "D: "}),
        ({"clustering": "c "}, {}),
        ({}, {}),
    ],
)
def test_what_goes_before_a_query_or_a_passage(
    source: ModelSource, prompts: dict[str, str], expected: dict[str, str]
) -> None:
    assert prefixes(replace(source, prompts=prompts)) == expected


@pytest.mark.parametrize(
    ("lengths", "config", "expected"),
    [
        ((), {}, None),
        ((4, 2), {}, {"dimensions": [2, 4], "layer_norm": False}),
        ((4, 2), {"model_type": "nomic_bert"}, {"dimensions": [2, 4], "layer_norm": True}),
        ((), {"matryoshka_dimensions": [2, 100_000]}, {"dimensions": [2], "layer_norm": False}),
        ((), {"matryoshka_dimensions": ["many"]}, None),
    ],
)
def test_lengths_that_a_vector_may_be_cut_to(
    source: ModelSource, lengths: tuple[int, ...], config: dict[str, Any], expected: dict[str, Any] | None
) -> None:
    assert shortening(replace(source, matryoshka=lengths, config=config)) == expected
