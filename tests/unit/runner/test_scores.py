"""``embed --rerank``, ``--classify`` and ``--pairs``: a head's scores."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.embed_serve import Running, running
from tests.support.given import table
from tests.support.sample_program import Run, complaint, run_program
from tests.support.scored import LABELS, expected_scores, sample_document, write_scored
from tests.unit.runner.conftest import Programs
from tokenizers import Tokenizer

from edgepack.records.model import Activation
from edgepack.runner.freeze.sample_bundle import MAX_LENGTH

pytestmark = pytest.mark.tools("c++", "python")

TEXTS = ("a cat", "the kitten sat", "mat", "a cat sat on the mat", "mat mat", "")

QUERY = "the cats"


@pytest.fixture(scope="module")
def program(program_with: Programs) -> Path:
    return program_with("scores", "serve")


@pytest.fixture(scope="module")
def ranker(sample: Path, program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scored(sample, tmp_path_factory.mktemp("rank") / "bundle", "rank", program)


@pytest.fixture(scope="module")
def classifier(sample: Path, program: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scored(sample, tmp_path_factory.mktemp("classes") / "bundle", "classes", program)


def said(bundle: Path, *arguments: str, input: str = "") -> list[Any]:
    """The JSON lines that a run prints."""
    done = run_program(bundle, *arguments, "--out", "jsonl", input=input.encode())
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def lines(*texts: str) -> str:
    return "".join(f"{text}\n" for text in texts)


def pair_vectors(pairs: list[tuple[str, str]]) -> np.ndarray:
    """The sample's model averages its table over the tokens of a pair: by the library's tokens."""
    tokenizer = Tokenizer.from_str(sample_document())
    tokenizer.enable_truncation(MAX_LENGTH)
    means = np.array([table()[tokenizer.encode(*pair).ids].mean(axis=0) for pair in pairs])
    return np.asarray(means / np.linalg.norm(means, axis=1, keepdims=True))


@pytest.mark.sample(1)
def test_texts_are_ranked_by_the_score_of_query_and_text_together(ranker: Path) -> None:
    found = said(ranker, "--rerank", QUERY, input=lines(*TEXTS))
    expected = expected_scores("rank", pair_vectors([(QUERY, text) for text in TEXTS]))[:, 0]
    order = [one["index"] for one in found]
    assert sorted(order) == list(range(len(TEXTS)))
    assert order == sorted(order, key=lambda index: (-found[order.index(index)]["score"], index))
    assert [one["score"] for one in found] == pytest.approx(expected[order], abs=1e-6)
    assert [one["text"] for one in found] == [TEXTS[index] for index in order]
    assert len(set(np.round(expected, 6))) > 3


def test_a_table_and_an_array_hold_the_same(ranker: Path) -> None:
    found = said(ranker, "--rerank", QUERY, *TEXTS)
    assert json.loads(run_program(ranker, "--rerank", QUERY, *TEXTS).stdout) == found
    table = run_program(ranker, "--rerank", QUERY, "--out", "table", *TEXTS).stdout.decode()
    assert table == "".join(f"{one['score']:.4f}\t{one['index']}\t{one['text']}\n" for one in found)


def test_the_field_that_names_a_record_takes_the_place_of_its_text(ranker: Path) -> None:
    records = lines(*(json.dumps({"id": {"n": at}, "text": text}) for at, text in enumerate(TEXTS)))
    found = said(ranker, "--rerank", QUERY, "--jsonl", "--id-field", "id", input=records)
    assert [one["id"]["n"] for one in found] == [one["index"] for one in found]
    assert "text" not in found[0]


def test_pairs_are_scored_in_their_order(ranker: Path) -> None:
    pairs = [("a", "cat"), ("the mat", "the kitten sat on the mat"), ("", "a"), ("cat", "")]
    records = lines(*(json.dumps({"query": query, "text": text}) for query, text in pairs))
    found = said(ranker, "--pairs", "--jsonl", input=records)
    expected = expected_scores("rank", pair_vectors(pairs))[:, 0]
    assert [one["score"] for one in found] == pytest.approx(expected, abs=1e-6)
    assert [one["index"] for one in found] == [0, 1, 2, 3]


@pytest.mark.sample(1)
def test_a_text_gets_its_label_and_the_scores_of_all(classifier: Path) -> None:
    found = said(classifier, "--classify", input=lines(*TEXTS))
    vectors = np.array([one["embedding"] for one in said(classifier, "--features", input=lines(*TEXTS))])
    expected = expected_scores("classes", vectors)
    labels = LABELS["classes"]
    assert [list(one["scores"].values()) for one in found] == [
        pytest.approx(row, abs=1e-6) for row in expected
    ]
    assert [one["label"] for one in found] == [labels[at] for at in expected.argmax(axis=1)]
    assert [one["score"] for one in found] == pytest.approx(expected.max(axis=1), abs=1e-6)
    assert [one["text"] for one in found] == list(TEXTS)
    assert [sum(one["scores"].values()) for one in found] == pytest.approx([1.0] * len(TEXTS), abs=1e-6)


@pytest.mark.sample(3)
@pytest.mark.parametrize("activation", ["identity", "sigmoid", "one-vs-rest"])
def test_scores_are_activated_as_the_manifest_says(
    classifier: Path, activation: Activation, tmp_path: Path
) -> None:
    copy = shutil.copytree(classifier, tmp_path / "bundle", symlinks=True)
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["model"]["activation"] = activation
    (copy / "manifest.json").write_text(json.dumps(manifest))
    vectors = np.array([one["embedding"] for one in said(copy, "--features", input=lines(*TEXTS))])
    expected = expected_scores("classes", vectors, activation)
    found = [list(one["scores"].values()) for one in said(copy, "--classify", input=lines(*TEXTS))]
    assert np.array(found) == pytest.approx(expected, abs=1e-6)


def test_a_classifier_takes_pairs(classifier: Path) -> None:
    (found,) = said(classifier, "--pairs", "--jsonl", input=lines('{"query": "a cat", "text": "mat"}'))
    expected = expected_scores("classes", pair_vectors([("a cat", "mat")]))[0]
    assert list(found["scores"].values()) == pytest.approx(expected, abs=1e-6)


def test_a_long_query_leaves_room_for_the_text(ranker: Path) -> None:
    """As the library cuts them: the longer one first."""
    tokenizer = Tokenizer.from_str(sample_document())
    tokenizer.enable_truncation(MAX_LENGTH)
    pairs = [(" ".join(["cat"] * one), " ".join(["mat"] * other)) for one in range(9) for other in range(9)]
    records = lines(*(json.dumps({"query": query, "text": text}) for query, text in pairs))
    done = run_program(ranker, "--pairs", "--jsonl", "--tokens", input=records.encode())
    encodings = [tokenizer.encode(*pair) for pair in pairs]
    expected = [[encoding.ids, encoding.type_ids] for encoding in encodings]
    assert [json.loads(line) for line in done.stdout.splitlines()] == expected


@pytest.mark.parametrize(
    ("task", "arguments", "words"),
    [
        ("rank", ["a cat"], ["is a reranker: its vectors are not for comparing texts", "embed --rerank"]),
        ("rank", ["--classify", "a"], ["sample is a reranker", "embed --rerank"]),
        ("rank", ["--rerank", "a", "--self-test"], ["--rerank cannot be used with --self-test"]),
        ("rank", ["--similarity", "a", "b"], ["is a reranker", "embed --rerank"]),
        ("rank", ["search", "a", "/dev/null"], ["is a reranker", "embed --rerank"]),
        ("rank", ["--rerank", "a", "--out", "npy", "b"], ["--rerank writes no vectors"]),
        ("rank", ["--rerank", "a", "--dim", "4", "b"], ["--rerank writes no vectors"]),
        ("rank", ["--pairs", "b"], ["--pairs requires --jsonl", '"query"']),
        ("rank", ["--pairs", "--jsonl", "--rerank", "b"], ["--pairs cannot be used with --rerank"]),
        (
            "rank",
            ["--rerank", "a", "--max-length", "4", "b"],
            ["--max-length 4 leaves no room for two texts"],
        ),
        ("classes", ["a cat"], ["is a classifier: its vectors are not", "embed --classify"]),
        ("classes", ["--rerank", "a", "b"], ["sample is a classifier", "embed --classify"]),
    ],
)
def test_what_the_model_is_not_made_for_is_refused(
    ranker: Path, classifier: Path, task: str, arguments: list[str], words: list[str]
) -> None:
    done = run_program(ranker if task == "rank" else classifier, *arguments)
    assert done.returncode == 2
    assert not done.stdout
    for line, expected in zip(complaint(done), words, strict=False):
        assert expected in line


def test_a_pair_without_a_query_is_a_bad_line(ranker: Path) -> None:
    done = run_program(ranker, "--pairs", "--jsonl", input=b'{"text": "a"}\n')
    assert (done.returncode, complaint(done)[0]) == (3, "error: line 1 has no field 'query'")


def test_a_damaged_head_is_named(ranker: Path, tmp_path: Path) -> None:
    copy = tmp_path / "bundle"
    shutil.copytree(ranker, copy, symlinks=True)
    (copy / "model/head.bin").write_bytes(b"\0" * 8)
    done = run_program(copy, "--rerank", "a", "b")
    assert done.returncode == 4
    assert "head.bin is damaged: 8 bytes instead of 36" in complaint(done)[0]


@pytest.mark.parametrize("option", [["--rerank", "a"], ["--classify"], ["--pairs", "--jsonl"]])
def test_an_embedding_model_gives_no_scores(run: Run, option: list[str]) -> None:
    done: subprocess.CompletedProcess[bytes] = run(*option)
    assert done.returncode == 2
    assert complaint(done)[0] == f"error: {option[0]}: sample is an embedding model"


@pytest.fixture(scope="module")
def rank_server(ranker: Path) -> Iterator[tuple[Running, Path]]:
    with running(ranker) as server:
        yield server, ranker


def test_the_server_ranks_as_the_program_does(rank_server: tuple[Running, Path]) -> None:
    server, bundle = rank_server
    found = said(bundle, "--rerank", QUERY, *TEXTS)
    answer = server.ask("/v1/rerank", {"model": "any", "query": QUERY, "documents": [*TEXTS]})
    assert answer.status == 200
    results = answer.json["results"]
    assert [one["index"] for one in results] == [one["index"] for one in found]
    assert [one["relevance_score"] for one in results] == pytest.approx([one["score"] for one in found])
    assert (answer.json["model"], "document" in results[0]) == ("sample", False)
    tokenizer = Tokenizer.from_str(sample_document())
    tokenizer.enable_truncation(MAX_LENGTH)
    tokens = sum(len(tokenizer.encode(QUERY, text).ids) for text in TEXTS)
    assert answer.json["usage"]["total_tokens"] == tokens
    documents = [{"text": text, "id": at} for at, text in enumerate(TEXTS)]
    body = {"query": QUERY, "documents": documents, "top_n": 2, "return_documents": True}
    few = server.ask("/v1/rerank", body).json["results"]
    assert [one["document"] for one in few] == [documents[one["index"]] for one in found[:2]]


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/v1/rerank", {"documents": ["a"]}, "query must be a string"),
        ("/v1/rerank", {"query": "a", "documents": []}, "documents must be a list"),
        ("/v1/rerank", {"query": "a", "documents": [3]}, "documents must be strings"),
        ("/v1/rerank", {"query": "a", "documents": ["a"], "top_n": 0}, "top_n must be a positive integer"),
        ("/v1/rerank", {"query": "a" * 16_400, "documents": ["a"] * 2047}, "too long for so many documents"),
        ("/v1/embeddings", {"input": "a"}, "sample is a reranker: scores are at /v1/rerank"),
    ],
)
def test_what_the_server_refuses(
    rank_server: tuple[Running, Path], path: str, body: dict[str, Any], words: str
) -> None:
    answer = rank_server[0].ask(path, body)
    assert (answer.status, words in answer.json["error"]["message"]) == (400, True)


def test_the_server_checks_itself_by_a_ranking(ranker: Path) -> None:
    done = run_program(ranker, "serve", "--check", "--port=0")
    assert done.returncode == 0, done.stderr


def test_the_server_of_a_classifier_says_why_it_fails_its_check(classifier: Path) -> None:
    done = run_program(classifier, "serve", "--check", "--port=0")
    assert done.returncode == 5
    assert b"a classifier, which the server does not offer: embed --classify" in done.stderr


def test_an_embedding_server_does_not_rank(sample: Path) -> None:
    with running(sample) as server:
        answer = server.ask("/v1/rerank", {"query": "a", "documents": ["b"]})
        assert answer.status == 400
        assert "is an embedding model: vectors are at /v1/embeddings" in answer.json["error"]["message"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (np.full(1000, np.nan, "<f4").tobytes(), "it has numbers that are not finite"),
        (b"1234567", "it is not of the size that labels and dimension ask for"),
    ],
)
def test_a_head_of_a_stranger_is_damaged(classifier: Path, tmp_path: Path, content: bytes, why: str) -> None:
    bundle = tmp_path / "bundle"
    shutil.copytree(classifier, bundle, symlinks=True)
    head = bundle / "model/head.bin"
    size = head.stat().st_size
    head.write_bytes(content[:size])
    manifest = json.loads((bundle / "manifest.json").read_text())
    next(each for each in manifest["files"] if each["path"] == "model/head.bin")["size"] = head.stat().st_size
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    done = run_program(bundle, "--classify", "a cat")
    assert (done.returncode, done.stdout) == (4, b"")
    assert complaint(done)[0].endswith(f"is damaged: {why}")
