"""The gate: what passes, what fails and with which words, and what is never called passed."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from edgepack import models
from edgepack.errors import CannotRunHere, UsageError, VerificationError
from edgepack.models.reference import embed_with_onnxruntime
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.records.figures import described
from edgepack.records.model import ModelSource, Pooling
from edgepack.records.outputs import Outputs
from edgepack.records.report import Verification
from edgepack.records.runtime import LevelProof
from edgepack.records.target import ModelOptions
from edgepack.verifier.gate import Embed, verification_texts, verify, write_vectors
from edgepack.verifier.tasks.wordnet import NoWordNet, Task
from edgepack.verifier.texts.long import long_texts

pytestmark = pytest.mark.tools("gcc")

GATE = ModelOptions(min_cosine=0.985, min_agreement=0.9)
Rows = list[list[float]]


@pytest.fixture(autouse=True)
def reference(source: ModelSource, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """The tiny model's own vectors stand for the full-precision model's."""
    assert source.onnx is not None
    graph = source.onnx
    vectors = embed_with_onnxruntime(graph, source, verification_texts())

    def reference_vectors(given: ModelSource, texts: Sequence[str], *, context: HostContext) -> np.ndarray:
        # The bundle's golden texts are asked for, too: the id of its embedder depends on their vectors.
        return (
            vectors if tuple(texts) == verification_texts() else embed_with_onnxruntime(graph, source, texts)
        )

    monkeypatch.setattr("edgepack.models.reference.reference_vectors", reference_vectors)
    return vectors


def truth(texts: Sequence[str]) -> Rows:
    """What ``reference`` puts in the place of the full-precision model gives."""
    asked: Any = models.reference.reference_vectors
    rows: Rows = asked(None, texts, context=None).tolist()
    return rows


def giving(rows: Rows, seen: list[Sequence[str]] | None = None) -> Embed:
    """An ``embed`` that gives these vectors for the verification texts, and the right ones for texts that are longer than the model takes."""
    given = dict(zip(verification_texts(), rows, strict=False))

    def embed(bundle: Bundle, texts: Sequence[str]) -> Rows:
        if seen is not None:
            seen.append(texts)
        if texts[0] not in given:
            return truth(texts)
        return [given[text] for text in texts if text in given]

    return embed


def test_a_bundle_that_gives_the_same_vectors_passes(
    bundle: Bundle, source: ModelSource, reference: np.ndarray, context: HostContext
) -> None:
    seen: list[Sequence[str]] = []
    found = verify(bundle, source, giving(reference.tolist(), seen), options=GATE, context=context)
    assert found.status == "passed"
    assert found.texts == 200
    assert found.mean_cosine == pytest.approx(1.0)
    assert found.min_cosine == pytest.approx(1.0)
    assert found.neighbour_agreement == 1.0
    assert found.top10_agreement == 1.0
    assert found.batch_cosine == pytest.approx(1.0)
    assert [len(texts) for texts in seen] == [200, 32, 1, 1, 1, 3]
    assert found.long_cosine == pytest.approx(1.0)
    assert seen[0] == verification_texts()


def test_what_was_quantized_already_is_no_full_precision(
    bundle: Bundle, source: ModelSource, reference: np.ndarray, context: HostContext
) -> None:
    given = replace(source, precision="int8")
    found = verify(bundle, given, giving(reference.tolist(), []), options=GATE, context=context)
    assert found.against == "int8"
    assert described(found).startswith(
        "vectors compared with the given int8 file, NOT FULL PRECISION, 200 texts; mean cosine 1.0000"
    )
    assert described(replace(found, against="fp16")).startswith("vectors compared with fp16, ")


def test_a_mean_cosine_below_the_gate_fails_with_the_figures(
    bundle: Bundle, source: ModelSource, reference: np.ndarray, context: HostContext
) -> None:
    noise = np.random.default_rng(1).normal(scale=0.2, size=reference.shape)
    noisy = reference + noise
    noisy /= np.linalg.norm(noisy, axis=1, keepdims=True)
    with pytest.raises(VerificationError, match=r"mean cosine 0\.\d+ is below 0\.985") as refused:
        verify(bundle, source, giving(noisy.tolist()), options=GATE, context=context)
    assert "lowest cosine 0." in refused.value.message
    assert "fp32, 200 texts" in refused.value.message
    assert "recipe" in str(refused.value.hint)
    assert "--set model.min_cosine=" in str(refused.value.hint) and "min_cosine" in str(refused.value.hint)
    sparse = replace(source, outputs=Outputs())
    with pytest.raises(VerificationError) as refused:
        verify(bundle, sparse, giving(noisy.tolist()), options=GATE, context=context)
    assert "--recipe int8-near" in str(refused.value.hint)
    lenient = ModelOptions(min_cosine=0.1, min_agreement=0.0)
    found = verify(bundle, source, giving(noisy.tolist()), options=lenient, context=context)
    assert found.status == "passed"
    assert 0.1 < found.min_cosine < found.p1_cosine < found.mean_cosine < 0.985


def test_lost_neighbours_fail_though_the_cosine_is_high(
    bundle: Bundle, source: ModelSource, reference: np.ndarray, context: HostContext
) -> None:
    noise = np.random.default_rng(1).normal(scale=0.02, size=reference.shape)
    near = reference + noise
    near /= np.linalg.norm(near, axis=1, keepdims=True)
    strict = ModelOptions(min_cosine=0.985, min_agreement=1.0)
    with pytest.raises(VerificationError, match=r"nearest neighbour unchanged 0\.\d+ is below 1"):
        verify(bundle, source, giving(near.tolist()), options=strict, context=context)


def test_texts_in_the_wrong_order_fail(
    bundle: Bundle, source: ModelSource, reference: np.ndarray, context: HostContext
) -> None:
    with pytest.raises(VerificationError, match="mean cosine"):
        verify(bundle, source, giving(reference[::-1].tolist()), options=GATE, context=context)


def test_a_host_that_cannot_run_the_bundle_has_verified_nothing(
    bundle: Bundle, source: ModelSource, context: HostContext
) -> None:
    def embed(bundle: Bundle, texts: Sequence[str]) -> Rows:
        raise CannotRunHere("an aarch64 bundle does not run on x86_64")

    found = verify(bundle, source, embed, options=GATE, context=context)
    assert found.status == "not verified"
    assert found.reason == "an aarch64 bundle does not run on x86_64"
    assert found.texts == 0


def test_vectors_made_in_another_way_are_measured_and_verify_nothing(
    bundle: Bundle, source: ModelSource, reference: np.ndarray, context: HostContext
) -> None:
    def on_the_processor(rows: Rows) -> Embed:
        def embed(bundle: Bundle, texts: Sequence[str]) -> Rows:
            raise CannotRunHere("not on a GPU", instead=giving(rows)(bundle, texts))

        return embed

    found = verify(bundle, source, on_the_processor(reference.tolist()), options=GATE, context=context)
    assert (found.status, found.reason) == ("not verified", "not on a GPU")
    assert found.mean_cosine == pytest.approx(1.0)
    with pytest.raises(VerificationError):
        verify(bundle, source, on_the_processor(reference[::-1].tolist()), options=GATE, context=context)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_numbers_that_are_none_fail(
    bundle: Bundle, source: ModelSource, reference: np.ndarray, context: HostContext, bad: float
) -> None:
    rows = reference.tolist()
    rows[5][3] = bad
    with pytest.raises(VerificationError, match="is not finite"):
        verify(bundle, source, giving(rows), options=GATE, context=context)


def test_vectors_that_are_not_of_length_one_fail_where_the_model_normalises(
    bundle: Bundle, source: ModelSource, reference: np.ndarray, context: HostContext
) -> None:
    rows = (reference * np.float32(2)).tolist()
    with pytest.raises(VerificationError, match=r"has length 2\.0000"):
        verify(bundle, source, giving(rows), options=GATE, context=context)
    plain = replace(source, pooling=Pooling(mode="mean", normalize=False))
    longer = (reference * np.linspace(0.85, 1.15, len(reference))[:, None]).tolist()
    found = verify(bundle, plain, giving(longer), options=GATE, context=context)
    assert found.status == "passed" and found.length_error == pytest.approx(0.15, abs=1e-3)
    with pytest.raises(VerificationError, match=r"difference of a vector's length 1 is above 0\.2"):
        verify(bundle, plain, giving(rows), options=GATE, context=context)
    with pytest.raises(VerificationError, match=r"has length 0\.0000"):
        verify(bundle, plain, giving((reference * 0).tolist()), options=GATE, context=context)


def test_too_few_vectors_or_too_short_ones_fail(
    bundle: Bundle, source: ModelSource, reference: np.ndarray, context: HostContext
) -> None:
    rows = reference.tolist()
    with pytest.raises(VerificationError, match="gave 199 vectors for 200 texts"):
        verify(bundle, source, giving(rows[:-1]), options=GATE, context=context)
    rows[7] = rows[7][:-1]
    with pytest.raises(VerificationError, match="a vector of 7 numbers instead of 8"):
        verify(bundle, source, giving(rows), options=GATE, context=context)


def test_the_texts_are_two_hundred_and_varied() -> None:
    texts = verification_texts()
    assert len(texts) == len(set(texts)) == 200
    assert all(text and "\n" not in text and "\r" not in text for text in texts)
    lengths = [len(text.split()) for text in texts]
    assert min(lengths) == 1 and max(lengths) > 250
    assert 5 <= statistics.median(lengths) <= 20
    assert sum(text.endswith("?") for text in texts) >= 30
    for writing in ("П", "の", "器", "ب", "ह", "안", "ü", "ñ", "🍕"):
        assert any(writing in text for text in texts), writing


def test_a_batch_that_changes_a_vector_fails_where_the_target_forbids_it(
    bundle: Bundle, source: ModelSource, reference: np.ndarray, context: HostContext
) -> None:
    exact = giving(reference.tolist())

    def embed(bundle: Bundle, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        rows = np.asarray(exact(bundle, texts))
        if len(texts) == 1:
            rows = rows + np.linspace(-0.1, 0.1, rows.shape[1])
            rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return rows.tolist()  # type: ignore[no-any-return]

    found = verify(bundle, source, embed, options=GATE, context=context)
    assert found.status == "passed" and found.batch_cosine is not None and found.batch_cosine < 0.999
    strict = replace(GATE, min_batch_cosine=0.9999)
    with pytest.raises(VerificationError, match=r"batch-independent cosine 0\.9\d+ is below 0\.9999"):
        verify(bundle, source, embed, options=strict, context=context)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ({"min_p1_cosine": 0.99}, "1st percentile of the cosines"),
        ({"min_worst_cosine": 0.99}, "lowest cosine"),
        ({"min_top10": 0.999}, "ten nearest neighbours in common"),
    ],
)
def test_every_limit_can_fail(
    bundle: Bundle,
    source: ModelSource,
    reference: np.ndarray,
    context: HostContext,
    limit: dict[str, Any],
    said: str,
) -> None:
    noise = np.random.default_rng(1).normal(scale=0.1, size=reference.shape)
    noisy = reference + noise
    noisy /= np.linalg.norm(noisy, axis=1, keepdims=True)
    assert verify(bundle, source, giving(noisy.tolist()), options=ModelOptions(), context=context)
    with pytest.raises(VerificationError, match=said):
        verify(bundle, source, giving(noisy.tolist()), options=ModelOptions(**limit), context=context)


def test_a_text_that_is_cut_elsewhere_than_the_model_cuts_it_fails(
    bundle: Bundle, source: ModelSource, reference: np.ndarray, context: HostContext
) -> None:
    exact = giving(reference.tolist())

    def embed(bundle: Bundle, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        # A character is a token, and two stand around a text.
        return (
            exact(bundle, texts) if texts[0] in verification_texts() else truth([text[:6] for text in texts])
        )

    with pytest.raises(
        VerificationError, match=r"lowest cosine of texts longer than the model takes -?0\.\d+ is below 0\.9"
    ):
        verify(bundle, source, embed, options=GATE, context=context)


def test_a_text_after_another_prompt_than_the_models_fails(
    bundle: Bundle, source: ModelSource, reference: np.ndarray, context: HostContext
) -> None:
    asked = []

    def prompted(prompt: str | None) -> Any:
        def embed(bundle: Bundle, texts: Sequence[str], purpose: str) -> Rows | None:
            asked.append(purpose)
            return None if prompt is None else truth([prompt + text for text in texts])

        return SimpleNamespace(prompted=embed, tokens=None)

    given, exact = replace(source, prompts={"query": "query: "}), giving(reference.tolist())
    low = replace(GATE, min_long_cosine=0)  # which limits prompts, too
    with pytest.raises(VerificationError, match=r'for passage are nearer to those after "query: "'):
        verify(bundle, given, exact, options=low, program=prompted("query: "), context=context)
    assert asked == ["query", "passage"]
    given = replace(source, prompts={"query": "query: ", "passage": "query: "})
    right = verify(bundle, given, exact, options=GATE, program=prompted("query: "), context=context)
    assert right.prompt_cosine == pytest.approx(1.0)
    with pytest.raises(VerificationError, match=r"after the model's prompt"):
        verify(bundle, given, exact, options=GATE, program=prompted("zzzzzzzzzz"), context=context)
    with pytest.raises(VerificationError, match=r'for query are nearer to those after "" than after'):
        verify(bundle, given, exact, options=low, program=prompted(""), context=context)
    unknown = verify(bundle, given, exact, options=GATE, program=prompted(None), context=context)
    assert unknown.prompt_cosine is None


def test_vectors_that_the_program_cuts_otherwise_than_the_model_fail(
    bundle: Bundle, source: ModelSource, reference: np.ndarray, context: HostContext
) -> None:
    """All figures of shorter vectors were of whole ones that the verifier had cut itself."""
    given = replace(source, config={**source.config, "model_type": "nomic_bert"}, matryoshka=(2, 4, 8))
    asked: list[int] = []

    def program(cut: Callable[[np.ndarray, int], np.ndarray] | None) -> Any:
        def shortened(bundle: Bundle, texts: Sequence[str], dimension: int) -> Rows | None:
            asked.append(dimension)
            if cut is None:
                return None
            made = cut(np.asarray(truth(texts)), dimension)
            rows: Rows = (made / np.linalg.norm(made, axis=1, keepdims=True)).tolist()
            return rows

        return SimpleNamespace(shortened=shortened, tokens=None)

    def centered(whole: np.ndarray, dimension: int) -> np.ndarray:
        middle: np.ndarray = whole.mean(axis=1, keepdims=True)
        cut: np.ndarray = (whole - middle)[:, :dimension]
        return cut

    def judged(cut: Callable[[np.ndarray, int], np.ndarray] | None) -> Verification:
        exact, low = giving(reference.tolist()), replace(GATE, min_agreement=0)
        return verify(bundle, given, exact, options=low, program=program(cut), context=context)

    assert judged(centered).shorter_cosine == pytest.approx(1.0) and asked == [4, 2]
    assert judged(None).shorter_cosine is None
    for cut in (
        lambda whole, dimension: whole[:, :dimension],
        lambda whole, dimension: whole[:, -dimension:],
    ):
        with pytest.raises(
            VerificationError, match=r"lowest cosine of vectors that its program cut .* is below 0\.999"
        ):
            judged(cut)
    with pytest.raises(VerificationError, match=r"`embed --dim 4`\) are not of length 1"):
        judged(lambda whole, dimension: whole)


def test_a_program_that_is_right_on_the_published_texts_alone_fails(
    bundle: Bundle,
    source: ModelSource,
    reference: np.ndarray,
    context: HostContext,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("edgepack.verifier.gate.reference_vectors", models.reference.reference_vectors)
    known = {*verification_texts(), *long_texts(source, verification_texts())}
    exact = giving(reference.tolist())

    def embed(bundle: Bundle, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return exact(bundle, texts) if texts[0] in known else truth([text[::-1][:9] for text in texts])

    found = verify(bundle, source, exact, options=GATE, seed=7, context=context)
    assert found.drawn is not None and (found.drawn.texts, found.drawn.seed) == (64, 7)
    assert found.drawn.min_cosine == pytest.approx(1.0)
    assert verify(bundle, source, embed, options=GATE, context=context).status == "passed"
    with pytest.raises(VerificationError, match="mean cosine of 64 texts drawn by seed 7 0"):
        verify(bundle, source, embed, options=GATE, seed=7, context=context)


def test_a_stranger_is_asked_long_texts_and_prompts_that_it_cannot_know(
    bundle: Bundle,
    source: ModelSource,
    reference: np.ndarray,
    context: HostContext,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that knew by heart the three long texts, and the one after prompts, cut all others elsewhere and put no prompt."""
    monkeypatch.setattr("edgepack.verifier.gate.reference_vectors", models.reference.reference_vectors)
    published = verification_texts()
    seen: list[Sequence[str]] = []
    prompted: list[str] = []

    def after(bundle: Bundle, texts: Sequence[str], purpose: str) -> Rows:
        prompted.extend(texts)
        return truth([("query: " if purpose == "query" else "") + text for text in texts])

    given = replace(source, prompts={"query": "query: "})
    program: Any = SimpleNamespace(prompted=after, tokens=None)
    exact = giving(reference.tolist(), seen)
    verify(bundle, given, exact, options=GATE, program=program, seed=7, context=context)
    assert long_texts(source, published) not in seen
    drawn = next(texts for texts in seen if len(texts) == 64)
    assert long_texts(source, drawn) in seen
    assert prompted[0] in drawn and prompted[0] not in published
    prompted.clear()
    verify(bundle, given, exact, options=GATE, program=program, context=context)
    assert long_texts(source, published) in seen and prompted[0] == published[0]


def test_of_a_model_that_takes_very_long_texts_the_longest_that_was_asked_is_said(
    bundle: Bundle, source: ModelSource, reference: np.ndarray, context: HostContext
) -> None:
    found = verify(
        bundle, replace(source, max_length=8192), giving(reference.tolist()), options=GATE, context=context
    )
    assert found.long_tokens == 1023
    assert "lowest cosine of a text of 1,023 tokens 1.0000" in described(found)
    assert "longer than the model takes" not in described(found)


def test_a_gate_that_is_off_fails_nothing_and_passes_nothing(
    bundle: Bundle, source: ModelSource, reference: np.ndarray, context: HostContext
) -> None:
    noise = np.random.default_rng(1).normal(scale=0.2, size=reference.shape)
    noisy = reference + noise
    noisy /= np.linalg.norm(noisy, axis=1, keepdims=True)
    with context.story.step("verify") as step:
        found = verify(
            bundle, source, giving(noisy.tolist()), options=replace(GATE, gate="off"), context=context
        )
    assert found.status == "not verified"
    assert "THE GATE IS OFF: mean cosine 0." in found.reason
    assert 0 < found.mean_cosine < 0.985, "what was measured is said all the same"
    assert any("THE GATE IS OFF" in note for note in step.notes)
    with pytest.raises(VerificationError, match="not finite"):
        verify(
            bundle,
            source,
            giving([[float("nan")] * 8] * 200),
            options=replace(GATE, gate="off"),
            context=context,
        )


def test_what_was_proved_on_other_processors_counts(
    bundle: Bundle, source: ModelSource, reference: np.ndarray, context: HostContext
) -> None:
    embed = giving(reference.tolist())
    proofs = [
        LevelProof(level="avx2", proved=True, by="this CPU", min_cosine=0.995),
        LevelProof(level="avx512", proved=True, by="this CPU", min_cosine=1.0),
        LevelProof(level="amx", proved=False, reason="nothing here has it"),
    ]
    found = verify(bundle, source, embed, options=GATE, proofs=proofs, context=context)
    assert found.processor_cosine == 0.995
    # What ran at one level alone says nothing of others.
    assert (
        verify(bundle, source, embed, options=GATE, proofs=proofs[1:], context=context).processor_cosine
        is None
    )
    strict = replace(GATE, min_processor_cosine=0.999)
    with pytest.raises(VerificationError, match=r"cosine on other CPUs 0\.9950 is below 0\.999"):
        verify(bundle, source, embed, options=strict, proofs=proofs, context=context)
    verify(bundle, source, embed, options=strict, context=context)  # later, with nothing to compare


def test_vectors_of_another_processor_are_compared(
    bundle: Bundle, source: ModelSource, reference: np.ndarray, context: HostContext, tmp_path: Path
) -> None:
    embed = giving(reference.tolist())
    write_vectors(bundle, embed, tmp_path / "there.npy")
    found = verify(bundle, source, embed, options=GATE, others=tmp_path / "there.npy", context=context)
    assert found.processor_cosine == pytest.approx(1.0)
    np.save(tmp_path / "other.npy", reference[::-1])
    found = verify(bundle, source, embed, options=GATE, others=tmp_path / "other.npy", context=context)
    assert found.processor_cosine is not None and found.processor_cosine < 0.9
    assert "on other CPUs 0." in described(found) or "on other CPUs -0." in described(found)
    np.save(tmp_path / "short.npy", reference[:3])
    with pytest.raises(UsageError, match="holds no vectors of this bundle"):
        verify(bundle, source, embed, options=GATE, others=tmp_path / "short.npy", context=context)
    (tmp_path / "none.npy").write_text("no array")
    with pytest.raises(UsageError, match="it is no array of numbers"):
        verify(bundle, source, embed, options=GATE, others=tmp_path / "none.npy", context=context)


def test_retrieval_that_cannot_be_measured_is_said_and_a_limit_on_it_fails(
    bundle: Bundle,
    source: ModelSource,
    reference: np.ndarray,
    context: HostContext,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(**asked: object) -> Task:
        raise NoWordNet("WordNet is not at hand: no mirror")

    monkeypatch.setattr("edgepack.verifier.vector_quality.retrieval_task", missing)
    embed = giving(reference.tolist())
    found = verify(
        bundle, source, embed, options=replace(GATE, gate="full", max_sts_loss=1.0), context=context
    )
    assert found.retrieval is None
    assert "recall@10 NOT MEASURED: WordNet is not at hand" in described(found)
    strict = replace(GATE, gate="full", max_sts_loss=1.0, max_retrieval_loss=0.01)
    with pytest.raises(VerificationError, match="was not measured") as refused:
        verify(bundle, source, embed, options=strict, context=context)
    assert f"edgepack fetch {source.origin} --target {bundle.manifest['target']['name']}" in (
        refused.value.hint or ""
    )
    assert "--set model.gate=full" in (refused.value.hint or "")
