"""Mistakes are planted in a server, on four architectures, and named."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.installed import read_folder
from tests.support.planted import (
    HIDDEN,
    KINDS,
    LENGTH,
    Emulated,
    Planted,
    Vectors,
    rounded,
    write_planted_model,
)

from edgepack.console import Story
from edgepack.doctor import gather as gathering
from edgepack.doctor.examine import Expected, Instruments, diagnose, instruments
from edgepack.doctor.gather import gather
from edgepack.doctor.probes import LARGE, MOST
from edgepack.doctor.verdict import Diagnosis
from edgepack.errors import UsageError
from edgepack.files.store import Store
from edgepack.plugins.context import host_context
from edgepack.verifier.gate import verification_texts


@dataclass(frozen=True, kw_only=True)
class Patient:
    """A model, and what is needed to examine servers of it."""

    folder: Path
    torch_model: Any
    tools: Instruments

    def examine(self, does: Planted, **expected: Any) -> tuple[Diagnosis, Emulated]:
        source = self.tools.source
        meant = Expected(
            **{"length": source.max_length, "dimension": source.dimension, "min_cosine": 0.98, **expected}
        )
        subject = Emulated(folder=self.folder, model=self.torch_model, does=does)
        gathered = gather(subject, verification_texts(), source.prompts, meant.length, self.tools.reader)
        return diagnose(gathered, meant, self.tools, subject="a server", seconds=600), subject


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine that the tests run on."""
    monkeypatch.setattr(gathering, "SECONDS", 600.0)


@pytest.fixture(scope="module", params=KINDS)
def patient(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Patient:
    return made_patient(tmp_path_factory.mktemp("patient"), request.param)


def made_patient(folder: Path, kind: str, **layout: Any) -> Patient:
    source, model = write_planted_model(folder / "model", kind, **layout)
    with host_context(story=Story(quiet=True), offline=True, store=Store(root=folder / "store")) as context:
        tools = instruments(source, context=context)
    return Patient(folder=folder / "model", torch_model=model, tools=tools)


def swapped(vectors: Vectors) -> Vectors:
    return vectors[::-1].copy()


def scaled_by_batch(vectors: Vectors) -> Vectors:
    """As if one scale were shared by all texts of a batch."""
    step = np.abs(vectors).max() / 3 * len(vectors) ** 0.5
    made = vectors + step * np.roll(vectors, 1, axis=0)
    return made / np.linalg.norm(made, axis=1, keepdims=True) if len(vectors) > 1 else vectors


def restless(vectors: Vectors) -> Vectors:
    """As of a model that is still being trained, with dropout."""
    return vectors * np.random.default_rng().uniform(0.7, 1.3, vectors.shape).astype(np.float32)


def layer_normalised(vectors: Vectors) -> Vectors:
    """As nomic-embed-text-v1.5 is shortened."""
    made = (vectors - vectors.mean(axis=1, keepdims=True))[:, : vectors.shape[1] // 2]
    return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True))


def other_case(document: dict[str, Any]) -> None:
    if document["normalizer"]["type"] == "BertNormalizer":
        document["normalizer"]["lowercase"] = False
    else:
        document["normalizer"] = {
            "type": "Sequence",
            "normalizers": [{"type": "Lowercase"}, document["normalizer"]],
        }


def other_words(document: dict[str, Any]) -> None:
    """A vocabulary in which some words have changed places."""
    vocabulary = document["model"]["vocab"]
    if isinstance(vocabulary, dict):
        words = sorted(vocabulary, key=vocabulary.__getitem__)
        first = 400 if len(words) < 2000 else 2050
        for one, other in zip(words[first : first + 60 : 2], words[first + 1 : first + 60 : 2], strict=True):
            vocabulary[one], vocabulary[other] = vocabulary[other], vocabulary[one]
    else:
        for at in range(400, 460, 2):
            vocabulary[at], vocabulary[at + 1] = vocabulary[at + 1], vocabulary[at]


HALF = Planted(weights=lambda weight: weight.half().float())
BRAIN = Planted(weights=lambda weight: weight.bfloat16().float())
MISTAKES: dict[str, tuple[str, Planted, dict[str, Any]]] = {
    "cls": ("pooling", Planted(pooling="cls"), {}),
    "last": ("pooling", Planted(pooling="last"), {}),
    "max": ("pooling", Planted(pooling="max"), {}),
    "padding counted": ("padding", Planted(padding="counted"), {}),
    "padding attended": ("padding", Planted(padding="attended"), {}),
    "padded to a length": ("padding", Planted(padding="counted", to=LENGTH), {}),
    "prefix missing": ("prefix", Planted(), {"prefix": "query: "}),
    "prefix doubled": ("prefix", Planted(prefix="query: query: "), {"prefix": "query: "}),
    "prefix unasked": ("prefix", Planted(prefix="passage: "), {}),
    "not normalised": ("normalisation", Planted(normalize=False), {}),
    "scaled": ("normalisation", Planted(after=lambda vectors: vectors * 3), {}),
    "cut early": ("truncation", Planted(length=40), {}),
    "cut late": ("truncation", Planted(length=111), {}),
    "shortened": ("dimension", Planted(dimension=16), {}),
    "shortened, not normalised again": ("dimension", Planted(dimension=16, again=False), {}),
    "batches": ("batch", Planted(after=scaled_by_batch), {}),
    "order": ("order", Planted(after=swapped), {}),
    "no special tokens": ("tokenizer", Planted(specials=False), {}),
    "case": ("tokenizer", Planted(tokenizer=other_case), {}),
    "vocabulary": ("tokenizer", Planted(tokenizer=other_words), {}),
    "dropout": ("random", Planted(after=restless), {}),
    "int8": ("quantized", Planted(weights=rounded(8)), {}),
    "int8, not good enough": ("coarse", Planted(weights=rounded(8)), {"min_cosine": 0.99999}),
    "cls and not normalised": ("pooling", Planted(pooling="cls", normalize=False), {}),
    "max and cut early": ("pooling", Planted(pooling="max", length=32), {}),
    "cls and a prefix": ("pooling", Planted(pooling="cls", prefix="query: "), {}),
    "last of int8 weights": ("pooling", Planted(pooling="last", weights=rounded(8)), {}),
    "another model": ("another-model", Planted(weights=lambda weight: weight.flip(0)), {}),
    "always the same vector": ("unclear", Planted(after=np.ones_like), {}),
    "more numbers": ("another-model", Planted(after=lambda vectors: np.hstack([vectors, vectors])), {}),
    "healthy": ("same", Planted(), {}),
    "float16": ("same", HALF, {}),
    "bfloat16": ("same", BRAIN, {}),
    "healthy, with a prefix that is meant": ("same", Planted(prefix="query: "), {"prefix": "query: "}),
    "healthy, shorter as is meant": ("same", Planted(dimension=16), {"dimension": 16}),
    "healthy, shorter after a layer normalisation": (
        "same",
        Planted(after=layer_normalised),
        {"dimension": 16},
    ),
    "healthy, cut as is meant": ("same", Planted(length=40), {"length": 40}),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_named(patient: Patient, mistake: str) -> None:
    verdict, does, expected = MISTAKES[mistake]
    made, subject = patient.examine(does, **expected)
    assert made.verdict == verdict, made
    assert sum(map(len, subject.requests)) == made.texts_sent <= MOST + sum(LARGE)
    assert max(map(len, subject.requests)) == made.largest_batch


@pytest.mark.parametrize("does", [Planted(dimension=16), Planted(after=layer_normalised)])
def test_a_cut_is_the_models_own(patient: Patient, does: Planted) -> None:
    """Where the model says that it may be cut: nomic-embed-text takes a layer normalisation first, and others none."""
    source = replace(patient.tools.source, matryoshka=(16,))
    listed = replace(patient, tools=replace(patient.tools, source=source))
    normalised = source.config.get("model_type") == "nomic_bert"
    made, _ = listed.examine(does, dimension=16)
    assert made.verdict == ("same" if (does.dimension != 16) == normalised else "dimension"), made


def only_in_large(change: Callable[[Vectors], Vectors]) -> Callable[[Vectors], Vectors]:
    """As of a server that splits or sorts what is more than 32 texts."""
    return lambda vectors: change(vectors) if len(vectors) > 32 else vectors


@pytest.mark.sample(4)
@pytest.mark.parametrize("weights", [Planted().weights, rounded(8)], ids=["whole", "int8"])
@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        (lambda vectors: np.roll(vectors, 1, axis=0), "order"),
        (lambda vectors: np.vstack([vectors[:32], vectors[: len(vectors) - 32]]), "order"),
        (scaled_by_batch, "batch"),
        (lambda vectors: np.vstack([vectors[:32], np.ones_like(vectors[32:])]), "batch"),
        (lambda vectors: vectors, ""),
    ],
)
def test_a_mistake_in_large_requests_alone_is_named(
    patient: Patient, change: Callable[[Vectors], Vectors], verdict: str, weights: Any
) -> None:
    made, subject = patient.examine(Planted(after=only_in_large(change), weights=weights))
    assert [each.verdict for each in made.findings if each.verdict != "quantized"] == [verdict] * bool(
        verdict
    )
    assert made.largest_batch == max(map(len, subject.requests)) == (33 if verdict else 128)
    if verdict:
        assert "a request of 33" in made.findings[0].found


@pytest.fixture(scope="module", params=[16, HIDDEN], ids=["to fewer numbers", "to as many"])
def with_dense(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Patient:
    return made_patient(tmp_path_factory.mktemp("dense"), "bert", pooling="cls", dense=request.param)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("verdict", "does"),
    [
        ("same", Planted(pooling="cls", dense=True)),
        ("head", Planted(pooling="cls")),
        ("pooling", Planted(dense=True)),
        ("normalisation", Planted(pooling="cls", dense=True, normalize=False)),
    ],
)
def test_a_dense_layer_that_is_left_out_is_named(with_dense: Patient, verdict: str, does: Planted) -> None:
    made, _ = with_dense.examine(does)
    assert made.verdict == verdict, made
    assert len(made.findings) == (verdict != "same")


def test_what_is_found_is_said(patient: Patient) -> None:
    made, _ = patient.examine(Planted(pooling="cls", normalize=False, length=40))
    assert [each.verdict for each in made.findings] == ["pooling", "truncation", "normalisation"]
    assert "pooling is cls" in made.line
    assert "--pooling mean" in made.line
    assert "cut to 40 tokens" in made.findings[1].found
    assert made.exit_code == 46
    assert made.explained is not None
    assert made.explained.least > 0.9999
    assert made.cosines is not None
    assert made.cosines.mean < 0.999


@pytest.mark.slow
def test_a_graph_that_pools_inside(tmp_path: Path) -> None:
    """Poolings cannot be told apart then; all else can."""
    patient = made_patient(tmp_path, "bert")
    graph = next((tmp_path / "store").glob("onnx/*/model.onnx"))
    shutil.copy(graph, patient.folder / "model.onnx")
    source = read_folder(
        patient.folder,
        name="own",
        origin="own",
        onnx=patient.folder / "model.onnx",
    )
    with host_context(story=Story(quiet=True), offline=True, store=Store(root=tmp_path / "two")) as context:
        tools = instruments(source, context=context)
    patient = Patient(folder=patient.folder, torch_model=patient.torch_model, tools=tools)
    assert not tools.halves.has_tokens
    assert not tools.halves.has_head
    for does, verdict in (
        (Planted(), "same"),
        (Planted(length=40), "truncation"),
        (Planted(specials=False), "tokenizer"),
        (Planted(padding="counted"), "batch"),
        (Planted(pooling="cls"), "unclear"),
    ):
        made, _ = patient.examine(does)
        assert made.verdict == verdict, made


def test_a_length_that_the_model_does_not_have(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"the model cannot read \d+ tokens"):
        made_patient(tmp_path, "bert").examine(Planted(), length=600)


@pytest.mark.sample(2)
def test_a_slow_server_is_asked_less(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    healthy, all_asked = patient.examine(Planted())
    monkeypatch.setattr(gathering, "SECONDS", 0.0)
    hurried, asked = patient.examine(Planted())
    assert len(asked.requests) < len(all_asked.requests)
    assert "it is slow: after 0 s no more texts were asked for" in hurried.notes
    assert (hurried.verdict, healthy.verdict) == ("same", "same")
    wrong, _ = patient.examine(Planted(pooling="cls"))
    assert wrong.verdict == "pooling"
