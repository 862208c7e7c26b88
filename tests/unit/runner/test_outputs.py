"""``embed --sparse`` and ``--multi-vector``: as JSON and NumPy's arrays; libembed and the server too."""

import ctypes
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.embed_serve import running
from tests.support.given import (
    DOCUMENT,
    QUERY,
    SPARSE,
    TOKENS,
    WIDTH,
    compile_given_library,
    table,
    write_given,
)
from tests.support.once import made_once
from tests.support.sample_program import Run, complaint, run_program
from tests.support.scored import sample_document
from tests.unit.runner.conftest import Programs
from tokenizers import Tokenizer

from edgepack.runner.freeze.sample_bundle import DIMENSION, MAX_LENGTH, WORDS

pytestmark = pytest.mark.tools("c++", "python")

TEXTS = ("a cat", "the kitten sat", "mat mat on the cats", "")


@pytest.fixture(scope="module")
def program(program_with: Programs) -> Path:
    return program_with("outputs", "serve")


@pytest.fixture(scope="module")
def splade(sample: Path, tmp_path_factory: pytest.TempPathFactory, program: Path) -> Path:
    """A bundle whose vectors have a number for each token of a vocabulary."""
    folder = tmp_path_factory.mktemp("splade") / "bundle"
    return write_given(sample, folder, SPARSE, program)


@pytest.fixture(scope="module")
def tokens(sample: Path, tmp_path_factory: pytest.TempPathFactory, program: Path) -> Path:
    """A bundle of three outputs."""
    return write_given(sample, tmp_path_factory.mktemp("tokens") / "bundle", TOKENS, program)


def said(bundle: Path, *arguments: str, texts: tuple[str, ...] = TEXTS) -> list[Any]:
    input = "".join(f"{text}\n" for text in texts).encode()
    done = run_program(bundle, *arguments, "--out", "jsonl", input=input)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def arrays(bundle: Path, file: Path, *arguments: str) -> Any:
    done = run_program(bundle, *arguments, "--out", "npz", "--output", str(file), *TEXTS)
    assert done.returncode == 0, done.stderr
    return np.load(file)


def ids_of(text: str, side: dict[str, Any]) -> tuple[list[int], int]:
    """A text's tokens on a side, and how many of them are attended to."""
    tokenizer = Tokenizer.from_str(sample_document())
    tokenizer.enable_truncation(side.get("length", MAX_LENGTH) - 1)
    ids = list(tokenizer.encode(side.get("prefix", "") + text).ids)
    ids.insert(1, side["marker"])
    written = len(ids)
    return ids + [side["expand"]] * (side["least"] - written) if "expand" in side else ids, written


def expected(text: str, side: dict[str, Any]) -> tuple[dict[int, float], np.ndarray]:
    """Weights and vectors by the table."""
    ids, _ = ids_of(text, side)
    rows = table()[ids]
    weights: dict[int, float] = {}
    for token, weight in zip(ids, rows[:, -1].tolist(), strict=True):
        if weight > 0 and token not in (2, 3):
            weights[token] = max(weight, weights.get(token, 0.0))
    kept = [at for at, token in enumerate(ids) if at >= 1 and token not in side["skip"]]
    return weights, rows[kept, :WIDTH]


def test_weights_above_zero_are_written_by_token(splade: Path) -> None:
    vectors = [one["embedding"] for one in said(splade, "--features")]
    for record, text, vector in zip(said(splade, "--sparse"), TEXTS, vectors, strict=True):
        assert record["text"] == text
        ids = [at for at, weight in enumerate(vector) if weight > 0]
        assert record["sparse"] == {"indices": ids, "values": [vector[at] for at in ids]}


def test_an_array_of_json_and_the_field_that_names_a_record(splade: Path) -> None:
    lines = said(splade, "--sparse")
    assert json.loads(run_program(splade, "--sparse", *TEXTS).stdout) == lines
    records = b"".join(json.dumps({"id": at, "text": text}).encode() + b"\n" for at, text in enumerate(TEXTS))
    done = run_program(splade, "--sparse", "--jsonl", "--id-field", "id", input=records)
    named = [json.loads(line) for line in done.stdout.splitlines()]
    assert named == [{"id": at, "sparse": one["sparse"]} for at, one in enumerate(lines)]


@pytest.mark.parametrize("batch", ["1", "8"])
def test_tokens_have_vectors_and_weights(tokens: Path, batch: str) -> None:
    for side, prefix in ((DOCUMENT, ()), (QUERY, ("--prefix", "query"))):
        asked = ("--sparse", "--multi-vector", "--batch-size", batch, *prefix)
        for record, text in zip(said(tokens, *asked), TEXTS, strict=True):
            weights, vectors = expected(text, side)
            found = record["sparse"]
            assert found["indices"] == sorted(weights)
            assert dict(zip(found["indices"], found["values"], strict=True)) == pytest.approx(
                weights, abs=1e-6
            )
            assert np.array(record["multi_vector"]).reshape(-1, WIDTH) == pytest.approx(vectors, abs=1e-6)


def test_the_mask_leaves_out_what_is_not_attended_to(tokens: Path) -> None:
    """The text's vector is the mean of what is attended to: the query's filling is not."""
    (record,) = said(tokens, "--dense", "--multi-vector", "--prefix", "query", texts=("a cat",))
    ids, attended = ids_of("a cat", QUERY)
    assert len(ids) > attended
    mean = table()[ids[:attended]].mean(axis=0)
    assert record["embedding"] == pytest.approx((mean / np.linalg.norm(mean)).tolist(), abs=1e-6)


def test_arrays_of_all_three(tokens: Path, tmp_path: Path) -> None:
    found = arrays(tokens, tmp_path / "out.npz", "--sparse", "--multi-vector", "--dense")
    lines = said(tokens, "--sparse", "--multi-vector", "--dense")
    assert found["embedding"].tolist() == [pytest.approx(one["embedding"]) for one in lines]
    assert found["shape"].tolist() == [len(TEXTS), len(WORDS)]
    parts = np.split(found["vectors"], found["offsets"][1:-1])
    for part, one in zip(parts, lines, strict=True):
        assert part == pytest.approx(np.array(one["multi_vector"]).reshape(-1, WIDTH))


def test_arrays_on_a_pipe_are_the_same(tokens: Path, tmp_path: Path) -> None:
    done = run_program(tokens, "--multi-vector", "--out", "npz", *TEXTS)
    arrays(tokens, tmp_path / "out.npz", "--multi-vector")
    assert done.stdout == (tmp_path / "out.npz").read_bytes()
    assert np.load(io.BytesIO(done.stdout))["offsets"][0] == 0


def test_a_text_alone_has_its_vector_as_ever(tokens: Path) -> None:
    (record,) = said(tokens, texts=("a cat",))
    assert len(record["embedding"]) == DIMENSION


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["a cat"], ["is a sparse encoder: it has no one vector", "embed --sparse"]),
        (["--similarity", "a", "b"], ["is a sparse encoder", "embed --sparse"]),
        (["search", "a", "/dev/null"], ["is a sparse encoder", "embed --sparse"]),
        (["--multi-vector", "a"], ["--multi-vector: sample is a sparse encoder", "embed --sparse"]),
        (["--sparse", "--dense", "a"], ["--dense: sample is a sparse encoder", "embed --sparse"]),
        (["--sparse", "--self-test"], ["--sparse cannot be used with --self-test"]),
        (["--sparse", "--tokens", "a"], ["--sparse cannot be used with --tokens"]),
        (["--sparse", "--dim", "4", "a"], ["--sparse writes json, jsonl or npz in f32"]),
        (["--sparse", "--out", "npy", "a"], ["--sparse writes json, jsonl or npz in f32"]),
        (["--features", "--out", "npz", "a"], ["--out npz requires --sparse or --multi-vector", "--out npy"]),
        (["--sparse", "--classify", "a"], ["--classify"]),
    ],
)
def test_what_the_model_does_not_give_is_refused(
    splade: Path, arguments: list[str], words: list[str]
) -> None:
    done = run_program(splade, *arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    for line, part in zip(complaint(done), words, strict=False):
        assert part in line


def test_no_text_is_an_error(splade: Path) -> None:
    assert run_program(splade, "--sparse", input=b"").returncode == 2


@pytest.mark.parametrize("option", ["--sparse", "--multi-vector", "--dense"])
def test_an_embedding_model_gives_vectors_alone(run: Run, option: str) -> None:
    done = run(option, "a")
    assert done.returncode == 2
    assert complaint(done)[0] == f"error: {option}: sample makes one vector of a text"
    npz = run("--out", "npz", "a")
    assert complaint(npz)[0] == "error: --out npz requires --sparse or --multi-vector"


@pytest.mark.parametrize(
    "said",
    [
        {"sparse": {"of": "vocabulary", "size": 3}},
        {"sparse": {"of": "vocabulary", "size": -1}},
        {"multi_vector": {"dimension": 4, "query": {"expand": 1, "least": 10**9}}},
        {"multi_vector": {"dimension": 4, "document": {"marker": "1"}}},
        {"multi_vector": {"dimension": 4, "document": {"skip": [1e300]}}},
    ],
    ids=str,
)
def test_a_damaged_manifest_is_named(
    tokens: Path, sample: Path, program: Path, tmp_path: Path, said: dict[str, Any]
) -> None:
    broken = write_given(sample, tmp_path / "bundle", {"dense": False, **said}, program)
    done = run_program(broken, "--sparse" if "sparse" in said else "--multi-vector", "a")
    assert (done.returncode, complaint(done)[0]) == (4, "error: manifest.json is damaged: model.outputs")


class Rows(ctypes.Structure):
    """``embed_rows``."""

    _fields_ = [
        ("texts", ctypes.c_size_t),
        ("offsets", ctypes.POINTER(ctypes.c_size_t)),
        ("width", ctypes.c_size_t),
        ("values", ctypes.POINTER(ctypes.c_float)),
        ("ids", ctypes.POINTER(ctypes.c_uint32)),
    ]


def test_libembed_gives_all_from_one_call(tokens: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = made_once(
        tmp_path_factory, "given-library", lambda folder: compile_given_library(folder / "lib.so")
    )
    library = ctypes.CDLL(str(folder / "lib.so"))
    bundle, error = ctypes.c_void_p(), ctypes.create_string_buffer(400)
    assert library.embed_open(str(tokens).encode(), None, ctypes.byref(bundle), error, len(error)) == 0, (
        error.value
    )
    texts = (ctypes.c_char_p * len(TEXTS))(*(text.encode() for text in TEXTS))
    vectors, sparse, rows = (ctypes.c_float * (len(TEXTS) * DIMENSION))(), Rows(), Rows()
    given = vectors, ctypes.byref(sparse), ctypes.byref(rows)
    assert library.embed_outputs(bundle, texts, None, len(TEXTS), *given, error, len(error)) == 0, error.value
    lines = said(tokens, "--sparse", "--multi-vector", "--dense")
    for at, one in enumerate(lines):
        assert vectors[at * DIMENSION : (at + 1) * DIMENSION] == pytest.approx(one["embedding"])
        start, end = sparse.offsets[at], sparse.offsets[at + 1]
        assert sparse.ids[start:end] == one["sparse"]["indices"]
        assert sparse.values[start:end] == pytest.approx(one["sparse"]["values"])
        numbers = rows.values[rows.offsets[at] * WIDTH : rows.offsets[at + 1] * WIDTH]
        assert numbers == pytest.approx([number for row in one["multi_vector"] for number in row])
    assert (sparse.width, rows.width, bool(rows.ids)) == (1, WIDTH, False)
    for each in (sparse, rows):
        library.embed_free_rows(ctypes.byref(each))
        assert not each.offsets
    library.embed_close(bundle)


def test_the_server_answers_as_text_embeddings_inference_does(splade: Path) -> None:
    lines = said(splade, "--sparse", texts=TEXTS[:3])
    with running(splade) as server:
        answer = server.ask("/embed_sparse", {"inputs": list(TEXTS[:3])})
        assert answer.status == 200
        for found, one in zip(answer.json, lines, strict=True):
            assert [each["index"] for each in found] == one["sparse"]["indices"]
            assert [each["value"] for each in found] == pytest.approx(one["sparse"]["values"])
        refused = server.ask("/v1/embeddings", {"input": "a"})
        assert (
            "sample is a sparse encoder: weights of tokens are at /embed_sparse"
            in refused.json["error"]["message"]
        )
    checked = run_program(splade, "serve", "--check", "--port=0")
    assert checked.returncode == 0, checked.stderr


def test_the_server_gives_a_texts_own_vector_and_names_the_way_to_the_others(tokens: Path) -> None:
    (line,) = said(tokens, texts=TEXTS[:1])
    with running(tokens) as server:
        answer = server.embed(TEXTS[0]).json
        assert answer["data"][0]["embedding"] == pytest.approx(line["embedding"], abs=1e-6)
        refused = server.ask("/embed_sparse", {"inputs": TEXTS[0]})
        assert (refused.status, "embed --sparse" in refused.json["error"]) == (413, True)


def test_the_server_of_an_embedding_model_has_no_weights(sample: Path) -> None:
    with running(sample) as server:
        answer = server.ask("/embed_sparse", {"inputs": "a"})
        assert (answer.status, answer.json["error"]) == (
            413,
            "sample is an embedding model, which gives no weights of tokens",
        )
