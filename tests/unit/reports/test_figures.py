"""Each figure beside its limit."""

from dataclasses import replace

import pytest

from edgepack.records.report import Retrieval, Verification
from edgepack.reports.figures import figures

FOUND = Verification(
    status="passed",
    texts=200,
    mean_cosine=0.99,
    min_cosine=0.9,
    neighbour_agreement=0.95,
    batch_cosine=0.9991,
)


@pytest.mark.parametrize(
    ("key", "limit", "what", "shown", "mark"),
    [
        ("min_cosine", 0.985, "mean cosine", "≥ 0.985", "✓"),
        ("min_cosine", 0.991, "mean cosine", "≥ 0.991", "✗"),
        ("min_worst_cosine", 0.9, "lowest cosine", "≥ 0.9", "✓"),
        ("min_agreement", 0.96, "nearest neighbour unchanged", "≥ 96%", "✗"),
        ("min_batch_cosine", 0.999, "batch-independent (alone, in a batch of 32)", "≥ 0.999", "✓"),
    ],
)
def test_a_figure_has_its_own_limit_and_no_other(
    key: str, limit: float, what: str, shown: str, mark: str
) -> None:
    rows = {each.what: (each.limit, each.mark) for each in figures(replace(FOUND, limits={key: limit}))}
    assert rows.pop(what) == (shown, mark)
    assert set(rows.values()) == {("", "")}


def test_retrieval_that_was_asked_for_and_not_measured_is_not_met() -> None:
    (last,) = figures(replace(FOUND, retrieval_missing="no WordNet"))[-1:]
    assert (last.value, last.mark) == ("NOT MEASURED: no WordNet", "✗")


@pytest.mark.parametrize(("recall", "mark"), [(0.62, "✓"), (0.60, "✗")])
def test_a_loss_of_retrieval_is_held_to_its_limit(recall: float, mark: str) -> None:
    task = Retrieval(
        glosses=2000,
        queries=500,
        recall=recall,
        recall_fp32=0.625,
        mrr=0.5,
        mrr_fp32=0.5,
        top10_agreement=0.9,
    )
    found = replace(FOUND, retrieval=task, limits={"max_retrieval_loss": 0.01})
    row = next(each for each in figures(found) if each.what.startswith("recall@10"))
    assert (row.value, row.limit, row.mark) == (f"{recall:.4f}", "fp32 0.6250 - 0.01", mark)


def test_a_bundle_that_did_not_run_has_no_figures() -> None:
    assert figures(Verification(status="not verified", reason="elsewhere")) == []
