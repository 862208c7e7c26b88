"""The gate's figures: what they are for vectors whose answer is known, and which of them fail a build."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.support.families import write_family

from edgepack.models.reference import cached_reference
from edgepack.plugins.context import HostContext
from edgepack.records.figures import shortfalls
from edgepack.records.model import ModelSource
from edgepack.records.report import Retrieval, Verification
from edgepack.records.target import ModelOptions
from edgepack.verifier import vector_quality
from edgepack.verifier.metrics import lowest_cosine, rank, shared, top
from edgepack.verifier.tasks.wordnet import NoWordNet, Task, read_synsets, retrieval_task
from edgepack.verifier.vector_quality import batch_independence, measure_quality

NOUNS = """\
  1 This software and database is being provided to you, the LICENSEE, by Princeton
00001740 03 n 01 entity 0 003 ~ 00001930 n 0000 | that which exists
00002000 03 n 02 bank 0 depository 0 001 @ 00001740 n 0000 | where money is kept; "she went to the bank"
00003000 03 n 01 bank 1 001 @ 00001740 n 0000 | the land beside a river; it slopes
00004000 03 n 01 rose_garden 0 001 @ 00001740 n 0000 | a garden of roses
"""
ADJECTIVES = """\
00005000 00 a 01 galore(ip) 0 001 & 00001740 n 0000 | in great numbers; "daffodils galore"
"""


def write_wordnet(folder: Path) -> Path:
    for name, text in (("noun", NOUNS), ("verb", ""), ("adj", ADJECTIVES), ("adv", "")):
        (folder / f"data.{name}").write_text(text)
    return folder


def test_words_and_glosses_are_read_from_wordnets_own_files(tmp_path: Path) -> None:
    found = {gloss: (word, alone) for word, gloss, alone in read_synsets(write_wordnet(tmp_path))}
    assert found == {
        "that which exists": ("entity", True),
        "where money is kept": ("bank", False),
        "the land beside a river; it slopes": ("bank", False),
        "a garden of roses": ("rose garden", True),
        "in great numbers": ("galore", True),
    }


def test_the_choice_is_the_same_and_smaller_ones_are_part_of_larger_ones(
    tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    synsets = read_synsets(write_wordnet(tmp_path))
    monkeypatch.setattr("edgepack.verifier.tasks.wordnet._synsets", lambda context: synsets)
    whole = retrieval_task(glosses=9, words=9, context=context)
    assert len(whole.glosses) == 5
    assert {word: whole.glosses[at] for word, at in zip(whole.words, whole.belongs, strict=True)} == {
        "entity": "that which exists",
        "rose garden": "a garden of roses",
        "galore": "in great numbers",
    }
    assert retrieval_task(glosses=3, words=1, context=context).glosses == whole.glosses[:3]


def test_without_network_and_without_the_package_it_says_so(context: HostContext) -> None:
    with pytest.raises(NoWordNet) as missing:
        retrieval_task(glosses=10, words=2, context=context)
    assert "WordNet is not at hand" in missing.value.reason
    assert "wordnet-base" in missing.value.reason


@pytest.mark.e2e
def test_the_real_wordnet(shared_context: HostContext) -> None:
    try:
        task = retrieval_task(glosses=200_000, words=100_000, context=shared_context)
    except NoWordNet as missing:
        pytest.skip(missing.reason)
    assert len(task.glosses) == 116_697
    assert len(task.words) > 50_000
    assert all(0 <= at < len(task.glosses) for at in task.belongs)


def test_ranks_are_counted_from_the_best() -> None:
    texts = np.eye(12, dtype=np.float32)
    queries = np.stack([texts[3], texts[5] + 2 * texts[6], np.ones(12) - 2 * texts[11]]).astype(np.float32)
    found = rank(queries, texts, np.array([3, 5, 11]))
    assert found.mrr == pytest.approx((1 + 1 / 2 + 1 / 12) / 3)
    assert found.recall == pytest.approx(2 / 3)
    assert found.nearest.shape == (3, 10)
    assert found.nearest[1, :2].tolist() == [6, 5]


def test_what_is_shared_of_two_rankings() -> None:
    scores = np.array([[3.0, 2.0, 1.0, 0.0]])
    assert top(scores, 2).tolist() == [[0, 1]]
    assert shared(np.array([[0, 1], [2, 3]]), np.array([[1, 0], [2, 4]])) == 0.75
    assert lowest_cosine(
        np.eye(2, dtype=np.float32), np.array([[5, 0], [1, 1]], np.float32)
    ) == pytest.approx(2**-0.5)


def test_company_is_made_of_the_texts_given() -> None:
    calls: list[int] = []

    def embed(texts: Sequence[str]) -> np.ndarray:
        calls.append(len(texts))
        rows = [[1.0, float(text), len(texts) / 100] for text in texts]
        return np.asarray(rows, np.float32)

    found = batch_independence(embed, embed, [str(number) for number in range(200)])
    assert calls == [32, 1, 1, 1]
    assert 0.9 < found < 0.96, "the first text's own vector is small beside what its company does to it"


@pytest.fixture
def source(tmp_path: Path) -> ModelSource:
    return write_family(tmp_path / "model", "bert")[0]


def test_retrieval_is_measured_beside_the_full_precision_model(
    source: ModelSource, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompted = replace(source, prompts={"query": "a ", "passage": "world "})
    task = Task(
        glosses=("small model", "hello world", "a small world", "models"),
        words=("small", "hello"),
        belongs=(0, 1),
    )
    monkeypatch.setattr(vector_quality, "retrieval_task", lambda **asked: task)
    seen: list[str] = []

    def embed(texts: Sequence[str]) -> np.ndarray:
        seen.extend(texts)
        return cached_reference(prompted, texts, context=context)

    found = measure_quality(
        embed, prompted, ["a", "small", "model", "hello world"] * 8, full=True, context=context
    )
    assert found.retrieval is not None
    assert (found.retrieval.glosses, found.retrieval.queries) == (4, 2)
    assert found.retrieval.recall == found.retrieval.recall_fp32
    assert found.retrieval.mrr == found.retrieval.mrr_fp32
    assert found.retrieval.top10_agreement == 1.0
    assert {"a small", "world small model"} <= set(seen), "prompts stand before words and glosses"


def test_the_reference_is_made_once_for_a_model_and_texts(
    source: ModelSource, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = cached_reference(source, ["hello", "a model"], context=context)

    def never(*asked: object, **more: object) -> None:
        raise AssertionError("made a second time")

    monkeypatch.setattr("edgepack.models.reference.reference_vectors", never)
    np.testing.assert_array_equal(cached_reference(source, ["hello", "a model"], context=context), first)
    with pytest.raises(AssertionError, match="a second time"):
        cached_reference(source, ["hello", "another"], context=context)


def test_a_loss_of_recall_beyond_the_limit_fails() -> None:
    retrieval = Retrieval(
        glosses=2000, queries=500, recall=0.80, recall_fp32=0.82, mrr=0.6, mrr_fp32=0.6, top10_agreement=0.9
    )
    found = Verification(status="passed", texts=200, mean_cosine=1.0, retrieval=retrieval)
    (said,) = shortfalls(found, ModelOptions(gate="full", max_retrieval_loss=0.01))
    assert (
        said
        == "recall@10, 500 words among 2,000 glosses: 0.8000 is 0.0200 below fp32's 0.8200, at most 0.01 is allowed"
    )
    assert shortfalls(found, ModelOptions(gate="full", max_retrieval_loss=0.03)) == []
    assert shortfalls(found, ModelOptions(gate="quick", max_retrieval_loss=0.01)) == []


def test_a_limit_on_what_was_not_measured_is_not_met() -> None:
    found = Verification(status="passed", texts=200, mean_cosine=1.0)
    (said,) = shortfalls(found, ModelOptions(min_batch_cosine=0.999))
    assert "was not measured" in said
