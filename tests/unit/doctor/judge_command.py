"""The command: what it prints, its exit codes, and what it leaves alone."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from tests.support.planted import Emulated, Planted, write_planted_model
from tests.support.serving import Asked, Reply, Server, serving, status
from tests.support.tiny import write_json

from edgepack.cli.doctor import doctor
from edgepack.doctor.verdict import GRAVEST, VERDICTS
from edgepack.errors import EdgepackError
from edgepack.verifier.gate import verification_texts


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("command") / "model"
    return folder, write_planted_model(folder, "bert")[1]


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEPACK_CACHE", str(tmp_path / "store"))


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


def serve(server: Server, subject: Emulated, *, longest: int = 10_000) -> None:
    """OpenAI's API in front of a model; longer texts are refused."""

    def behave(asked: Asked) -> Reply:
        texts = json.loads(asked.body)["input"]
        if max(map(len, texts)) > longest:
            return Reply(status=413, body=b'{"error": {"message": "input too long"}}')
        rows = subject.embed(texts).tolist()
        data = [{"index": at, "embedding": row} for at, row in enumerate(rows)]
        return Reply(body=json.dumps({"data": data}).encode())

    server.on("/v1/embeddings", behave)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(doctor, [str(each) for each in arguments])


def test_a_healthy_server(server: Server, model: tuple[Path, Any]) -> None:
    serve(server, Emulated(folder=model[0], model=model[1], does=Planted()))
    done = run(model[0], "--url", f"{server.base}/v1", "--offline")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1] == "same: these are the model's vectors"
    assert {asked.path for asked in server.asked} == {"/v1/models", "/v1/embeddings"}
    sent = [text for asked in server.asked if asked.body for text in json.loads(asked.body)["input"]]
    assert 90 < len(sent) <= 425
    batches = [len(json.loads(asked.body)["input"]) for asked in server.asked if asked.body]
    assert batches.count(33) == batches.count(64) == batches.count(128) == 1
    assert "largest batch that was tried" in done.stdout
    assert "128 texts" in done.stdout


@pytest.mark.slow
def test_a_server_that_takes_no_large_requests(server: Server, model: tuple[Path, Any]) -> None:
    subject = Emulated(folder=model[0], model=model[1], does=Planted())

    def behave(asked: Asked) -> Reply:
        texts = json.loads(asked.body)["input"]
        if len(texts) > 33:
            return Reply(status=422, body=b'{"error": {"message": "batch size 64 > 33"}}')
        return Reply(
            body=json.dumps({"data": [{"embedding": row} for row in subject.embed(texts).tolist()]}).encode()
        )

    server.on("/v1/embeddings", behave)
    said = json.loads(run(model[0], "--url", f"{server.base}/v1", "--json").stdout)
    assert (said["verdict"], said["largest_batch"]) == ("same", 33)
    assert any("64 texts at once" in note and "batch size 64 > 33" in note for note in said["notes"])
    assert max(len(json.loads(asked.body)["input"]) for asked in server.asked if asked.body) == 64


def stalling(server: Server, subject: Emulated, answers: int) -> threading.Event:
    """A server that answers so often, and then sends one byte of a head and no more, till it is let go."""
    go = threading.Event()

    def behave(asked: Asked) -> Reply:
        if len(server.paths("POST")) > answers:
            go.wait(60)
        rows = subject.embed(json.loads(asked.body)["input"]).tolist()
        return Reply(body=json.dumps({"data": [{"embedding": row} for row in rows]}).encode())

    server.on("/v1/embeddings", behave)
    return go


@pytest.mark.slow
@pytest.mark.parametrize("answers", [3, 14])
def test_all_questions_together_have_a_deadline(
    server: Server, model: tuple[Path, Any], answers: int
) -> None:
    go = stalling(server, Emulated(folder=model[0], model=model[1], does=Planted(pooling="cls")), answers)
    done = run(model[0], "--url", f"{server.base}/v1", "--timeout", "4", "--json")
    go.set()
    if answers < 8:
        assert isinstance(done.exception, EdgepackError)
        assert done.exception.exit_code == 19
        assert "after 4 s doctor stopped asking: 3 texts had been answered, at least 8 are needed" in str(
            done.exception
        )
        assert "--timeout SECONDS" in str(done.exception.hint)
    else:
        said = json.loads(done.stdout)
        assert said["verdict"] == "pooling"
        assert any("after 4 s doctor stopped asking: the verdict is on the" in note for note in said["notes"])


@pytest.mark.slow
def test_a_mistake_as_json(server: Server, model: tuple[Path, Any]) -> None:
    serve(server, Emulated(folder=model[0], model=model[1], does=Planted(pooling="cls")), longest=600)
    done = run(model[0], "--url", f"{server.base}/v1", "--served-name", "x", "--json")
    assert done.exit_code == VERDICTS["pooling"][0] == 46
    said = json.loads(done.stdout)
    assert (said["schema"], said["verdict"], said["exit_code"]) == (1, "pooling", 46)
    assert said["findings"][0]["found"] == "pooling is cls"
    assert said["explained"]["least"] > 0.9999 > said["cosines"]["least"]
    assert any("refuses the texts (413): input too long" in note for note in said["notes"])
    assert said["seconds"] < 30


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("does", "verdict"),
    [
        (Planted(), "same"),
        (Planted(pooling="max"), "pooling"),
        (Planted(length=40), "truncation"),
        (Planted(after=lambda vectors: np.roll(vectors, 1, axis=0)), "order"),
        (Planted(prefix="query: ", normalize=False), "prefix"),
        (Planted(specials=False), "tokenizer"),
        (Planted(dimension=16, again=False), "dimension"),
    ],
)
def test_vectors_in_a_file(tmp_path: Path, model: tuple[Path, Any], does: Planted, verdict: str) -> None:
    texts = [*verification_texts(), *(f"{text} {text} {text}" for text in verification_texts()[:60])]
    subject = Emulated(folder=model[0], model=model[1], does=does)
    rows = np.concatenate([subject.embed([text]) for text in texts])
    np.save(tmp_path / "vectors.npy", does.after(rows))
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n")
    done = run(model[0], "--vectors", tmp_path / "vectors.npy", "--texts", tmp_path / "texts.txt", "--json")
    assert json.loads(done.stdout)["verdict"] == verdict, done.stdout
    assert done.exit_code == VERDICTS[verdict][0]


@pytest.mark.slow
def test_a_default_prompt_is_expected(tmp_path: Path, server: Server) -> None:
    """As sentence-transformers puts it there unasked; `--prefix ""` says that none is meant."""
    torch_model = write_planted_model(tmp_path / "model", "bert")[1]
    settings = tmp_path / "model" / "config_sentence_transformers.json"
    write_json(settings, {"prompts": {"query": "query: "}, "default_prompt_name": "query"})
    serve(server, Emulated(folder=tmp_path / "model", model=torch_model, does=Planted()))
    address = ("--url", f"{server.base}/v1", "--json")
    said = json.loads(run(tmp_path / "model", *address).stdout)
    assert (said["verdict"], said["findings"][0]["advice"]) == ("prefix", "Put 'query: ' before every text.")
    assert json.loads(run(tmp_path / "model", *address, "--prefix", "").stdout)["verdict"] == "same"


def test_a_handful_of_vectors_tells_nothing(tmp_path: Path, model: tuple[Path, Any]) -> None:
    np.save(tmp_path / "vectors.npy", np.ones((9, 32)))
    (tmp_path / "texts.txt").write_text("a\n" * 9)
    done = run(model[0], "--vectors", tmp_path / "vectors.npy", "--texts", tmp_path / "texts.txt")
    assert "vectors of 1 different texts" in str(done.exception)


def test_a_server_that_wants_to_be_left_alone(server: Server, model: tuple[Path, Any]) -> None:
    server.on("/v1/embeddings", status(429, retry_after="600"))
    done = run(model[0], "--url", f"{server.base}/v1")
    assert isinstance(done.exception, EdgepackError)
    assert done.exception.exit_code == 19
    assert len(server.paths("POST")) == 1


def test_tokens_and_headers(server: Server, model: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", "secret")
    server.on("/v1/embeddings", status(404))
    address = ("--url", f"{server.base}/v1")
    run(model[0], *address, "--token-env", "API_KEY", "--header", "X-Team: blue")
    assert server.asked[-1].headers["authorization"] == "Bearer secret"
    assert server.asked[-1].headers["x-team"] == "blue"
    assert "NO_KEY is not set" in str(run(model[0], *address, "--token-env", "NO_KEY").exception)
    assert "expected NAME: VALUE" in str(run(model[0], *address, "--header", "X").exception)


def test_every_verdict_has_a_place_and_a_code_of_its_own() -> None:
    codes = [code for code, _ in VERDICTS.values()]
    errors = {kind.exit_code for kind in EdgepackError.__subclasses__()}
    assert len(set(codes)) == len(codes)
    assert not errors & set(codes)
    assert {*GRAVEST, "same"} == VERDICTS.keys()
