"""The gate of rerankers and classifiers: planted faults are found."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tests.support.checkpoints import write_head
from tests.support.shortfalls import shortfalls_of

from edgepack.errors import ProofError, VerificationError
from edgepack.models.find.source import ingest
from edgepack.models.read.tokenizer import load_tokenizer
from edgepack.models.reference import cached_reference
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.records.model import ModelSource
from edgepack.verifier.outputs.order import DOCUMENTS, kendall_tau, ranking_pairs
from edgepack.verifier.outputs.scores import (
    _drawn_pairs,
    longer_than_the_model,
    measure_scores,
    reference_scores,
)
from edgepack.verifier.texts.drawn import drawn_texts

TEXTS = [f"{'hello ' * (at % 7)}world {'small ' * (at % 5)}model{'s' * (at % 2)}" for at in range(40)]
BUNDLE = Bundle(
    directory=Path("bundle"), manifest={"model": {"max_length": 16}, "runner": {"kind": "script"}}
)


@dataclass(frozen=True, kw_only=True)
class Program:
    """A bundle's program with a fault."""

    source: ModelSource
    context: HostContext
    noise: float = 0.0
    scale: float = 1.0
    shift: float = 0.0
    known: frozenset[Any] | None = None
    """Texts and pairs that it knows by heart; it makes others up."""
    types: bool = True
    broken: bool = False
    cuts: int | None = None
    """Of a text with more words it reads the last ones first."""

    def scores(self, bundle: Bundle, texts: Sequence[Any]) -> list[list[float]]:
        if self.cuts is not None:
            texts = [self.cut(text) for text in texts]
        exact = reference_scores(self.source, texts, context=self.context)
        made = exact + np.random.default_rng(1).normal(size=exact.shape) * self.noise
        made = made * self.scale + self.shift
        if self.known is not None and not self.known >= set(texts):
            made = np.sort(made, axis=0)[::-1]
        rows: list[list[float]] = (np.full_like(made, np.nan) if self.broken else made).tolist()
        return rows

    def cut(self, text: Any) -> Any:
        if isinstance(text, tuple):
            return tuple(map(self.cut, text))
        words = text.split()
        return text if len(words) <= (self.cuts or 0) else " ".join(reversed(words))

    def pair_tokens(self, bundle: Bundle, pairs: Sequence[Any]) -> list[tuple[list[int], list[int]]]:
        encodings = load_tokenizer(self.source).encode_batch(list(pairs))
        return [(one.ids, one.type_ids if self.types else [0] * len(one.ids) + [1]) for one in encodings]


@pytest.fixture
def context(kept_context: HostContext) -> HostContext:
    return kept_context


@pytest.fixture
def program(tmp_path: Path, context: HostContext) -> Program:
    folder = write_head(tmp_path / "model", "BertForSequenceClassification", num_labels=1)
    return Program(source=ingest(str(folder), context=context), context=context)


def spread_program(folder: Path, labels: int, context: HostContext) -> Program:
    """One whose scores are apart, as a trained model's are."""
    written = write_head(folder / "model", "BertForSequenceClassification", num_labels=labels)
    source = ingest(str(written), context=context)
    asked: Sequence[Any] = TEXTS if labels > 1 else ranking_pairs(TEXTS)
    centre = cached_reference(source, asked, context=context).mean(axis=0)
    tensors = load_file(written / "model.safetensors")
    tensors["classifier.weight"] = tensors["classifier.weight"] * np.float32(1e5)
    tensors["classifier.bias"] = -tensors["classifier.weight"] @ centre
    save_file(tensors, written / "model.safetensors", metadata={"format": "pt"})
    return Program(source=ingest(str(written), context=context), context=context)


def measured(program: Program) -> Any:
    return measure_scores(program, BUNDLE, program.source, TEXTS, context=program.context)


def test_a_sound_reranker_keeps_every_order(program: Program) -> None:
    found = measured(program)
    assert (found.tau, found.kept, found.largest) == (1.0, 1.0, 0.0)
    assert (found.texts, found.same_pairs) == (40 * DOCUMENTS, 4200)
    assert shortfalls_of(found) == []


def test_noise_on_the_scores_is_found(program: Program) -> None:
    found = measured(replace(program, noise=0.01))
    assert found.tau < 0.98
    assert shortfalls_of(found)[0].startswith("Kendall's tau")


@pytest.mark.sample(3)
@pytest.mark.parametrize("labels", [1, 4])
@pytest.mark.parametrize("fault", [{"scale": 0.5}, {"scale": 1.25}, {"shift": 0.2}, {"shift": -0.2}])
def test_scores_of_another_scale_are_found_though_their_order_is_right(
    tmp_path: Path, context: HostContext, labels: int, fault: dict[str, Any]
) -> None:
    wrong = replace(spread_program(tmp_path, labels, context), **fault)
    found = measured(wrong)
    assert (found.tau, found.kept) == (pytest.approx(1.0), 1.0)
    (short,) = shortfalls_of(found)
    assert short.startswith("difference of scores ")


@pytest.mark.sample(1)
@pytest.mark.parametrize("labels", [4, 1])
def test_texts_known_by_heart_do_not_help_with_drawn_ones(
    tmp_path: Path, context: HostContext, labels: int
) -> None:
    program = spread_program(tmp_path, labels, context)
    drawn = drawn_texts(load_tokenizer(program.source), TEXTS, seed=7)
    known: Sequence[Any] = [*TEXTS, *_drawn_pairs(TEXTS)] if labels > 1 else ranking_pairs(TEXTS)
    knows = replace(program, known=frozenset([*known, *longer_than_the_model(program.source, TEXTS)]))
    assert shortfalls_of(measured(knows)) == []

    def again(program: Program) -> list[str]:
        found = measure_scores(
            program, BUNDLE, program.source, TEXTS, drawn=drawn, seed=7, context=program.context
        )
        return shortfalls_of(found)

    assert again(program) == []
    whole, short = again(knows)
    assert whole.startswith("difference of scores ")  # of long texts, which are made of those drawn
    assert short.startswith("difference of scores of drawn texts ")


@pytest.mark.sample(1)
@pytest.mark.parametrize("labels", [4, 1])
def test_long_texts_that_are_cut_elsewhere_are_found(
    tmp_path: Path, context: HostContext, labels: int
) -> None:
    """Those of the gate are shorter, and all that is measured on them is right."""
    program = spread_program(tmp_path, labels, context)
    found = measured(replace(program, cuts=max(len(text.split()) for text in TEXTS)))
    assert (found.tau, found.kept) == (pytest.approx(1), 1.0)
    (short,) = shortfalls_of(found)
    assert short.startswith("difference of scores ")


def test_other_tokens_of_a_pair_are_found(program: Program) -> None:
    with pytest.raises(VerificationError, match="other tokens than tokenizers does of the pair"):
        measured(replace(program, types=False))


def test_a_classifier_is_asked_pairs_too(tmp_path: Path, context: HostContext) -> None:
    """Entailment: all that was compared were single texts."""
    program = spread_program(tmp_path, 4, context)
    assert measured(program).same_pairs > 1000
    with pytest.raises(VerificationError, match="other tokens than tokenizers does of the pair"):
        measured(replace(program, types=False))

    class Single(Program):
        def scores(self, bundle: Bundle, texts: Sequence[Any]) -> list[list[float]]:
            if isinstance(texts[0], tuple):
                raise ProofError("takes one text")
            return super().scores(bundle, texts)

    single = Single(source=program.source, context=context)
    alone = measured(single)
    assert alone.same_pairs == 0 and shortfalls_of(alone) == []
    own = replace(BUNDLE, manifest={**BUNDLE.manifest, "runner": {"kind": "native"}})
    with pytest.raises(ProofError, match="takes one text"):  # it has crashed
        measure_scores(single, own, program.source, TEXTS, context=context)


def test_numbers_that_are_none_are_found(program: Program) -> None:
    with pytest.raises(VerificationError, match="not finite"):
        measured(replace(program, broken=True))


def test_classes_keep_their_texts(tmp_path: Path, context: HostContext) -> None:
    folder = write_head(tmp_path / "model", "BertForSequenceClassification", num_labels=4)
    program = Program(source=ingest(str(folder), context=context), context=context)
    assert measured(program).kept == 1.0
    found = measured(replace(program, noise=1.0))
    assert found.kept < 0.9
    assert len(shortfalls_of(found)) == 3


def test_tau_is_that_of_the_books() -> None:
    """Kendall's own example (1938): tau 0.51; and ties, by tau-b's definition."""
    one = np.array([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], np.float64)
    other = np.array([1, 4, 2, 7, 6, 3, 10, 5, 8, 9], np.float64)
    concordant = sum(1 for at in range(10) for to in range(at) if (other[at] > other[to]))
    assert kendall_tau(one, other) == pytest.approx((2 * concordant - 45) / 45)
    assert kendall_tau(one, one) == 1.0 == -kendall_tau(one, -one)
    tied = kendall_tau(np.array([1.0, 1.0, 2.0, 3.0]), np.array([1.0, 2.0, 2.0, 3.0]))
    assert tied == pytest.approx(4 / np.sqrt(5 * 5))


def test_each_query_has_the_texts_around_it() -> None:
    pairs = ranking_pairs([str(number) for number in range(200)])
    assert len(pairs) == 100 * DOCUMENTS == len(set(pairs))
    assert all(query != text and abs(int(query) - int(text)) <= DOCUMENTS for query, text in pairs)
