"""Each figure beside its limit."""

from dataclasses import replace

import pytest

from edgepack.records.figures import LIMITS, figures_of
from edgepack.records.report import Retrieval, TaskFigure, Verification

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
        ("min_batch_cosine", 0.999, "batch-independent cosine", "≥ 0.999", "✓"),
    ],
)
def test_a_figure_has_its_own_limit_and_no_other(
    key: str, limit: float, what: str, shown: str, mark: str
) -> None:
    rows = {
        each.name: (each.limit_text, each.mark) for each in figures_of(replace(FOUND, limits={key: limit}))
    }
    assert rows.pop(what) == (shown, mark)
    assert set(rows.values()) == {("", "")}


def test_retrieval_that_was_asked_for_and_not_measured_is_not_met() -> None:
    (last,) = figures_of(replace(FOUND, retrieval_missing="no WordNet"))[-1:]
    assert (last.text, last.mark) == ("NOT MEASURED: no WordNet", "✗")


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
    row = next(each for each in figures_of(found) if each.name.startswith("recall@10"))
    assert (row.text, row.limit_text, row.mark) == (f"{recall:.4f}", "fp32 0.6250 - 0.01", mark)


def test_a_bundle_that_did_not_run_has_no_figures_of() -> None:
    assert figures_of(Verification(status="not verified", reason="elsewhere")) == []


@pytest.mark.parametrize("limit", LIMITS)
def test_each_limit_of_a_target_is_some_figure_s(limit: str) -> None:
    """A limit that nothing is held to would be a promise that nobody keeps."""
    tasks = tuple(
        TaskFigure(limit=key, what=key, value=0.5, value_fp32=0.9)
        for key in ("max_sts_loss", "max_translation_loss")
    )
    found = replace(FOUND, long_cosine=0.9, processor_cosine=0.9, tasks=tasks)
    wanted = 0.01 if limit.startswith("max_") else 1.01
    assert [each for each in figures_of(found, {limit: wanted}) if each.shortfall]
