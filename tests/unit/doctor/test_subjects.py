"""What doctor asks, reads and refuses: servers, programs and files that behave or misbehave."""

import base64
import gzip
import json
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.serving import Asked, Reply, Server, page, serving, status

from edgepack.cli.doctor import doctor
from edgepack.doctor import endpoint
from edgepack.doctor.endpoint import connected
from edgepack.doctor.program import parse_command
from edgepack.doctor.subject import Deadline, OutOfTime, Refused, read_texts, read_vectors
from edgepack.errors import SubjectError, UsageError
from edgepack.fetch import http
from edgepack.fetch.http import Policy


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Waiting is written down in place of being done."""
    waited: list[float] = []
    monkeypatch.setattr(http, "pause", waited.append)
    return waited


def vectors_for(asked: Asked) -> list[list[float]]:
    return [[float(len(text)), 1.0, 2.0] for text in json.loads(asked.body)["input"]]


def answers(entries: Callable[[list[list[float]]], Any]) -> Callable[[Asked], Reply]:
    """A server whose list ``data`` is made of the right vectors by this function."""

    def behave(asked: Asked) -> Reply:
        return Reply(body=json.dumps({"data": entries(vectors_for(asked))}).encode())

    return behave


def entries(vectors: Any) -> list[dict[str, Any]]:
    return [{"embedding": vector, "index": at} for at, vector in enumerate(vectors)]


TEXTS = ("a", "bb", "ccc")
RIGHT = [[1.0, 1.0, 2.0], [2.0, 1.0, 2.0], [3.0, 1.0, 2.0]]


def ask(server: Server, *, path: str = "/v1", name: str | None = "it", **headers: str) -> list[list[float]]:
    with connected(server.base + path, model=name, headers=headers, dimensions=None) as made:
        return made.embed(TEXTS).tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "entries",
    [
        entries,
        lambda vectors: entries(vectors)[::-1],
        lambda vectors: [{"embedding": vector} for vector in vectors],
        lambda vectors: [
            {"embedding": base64.b64encode(np.array(vector, "<f4").tobytes()).decode(), "index": at}
            for at, vector in enumerate(vectors)
        ],
    ],
    ids=["in order", "by index", "without index", "base64"],
)
def test_a_server_is_read(server: Server, entries: Callable[[list[list[float]]], Any]) -> None:
    server.on("/v1/embeddings", answers(entries))
    assert ask(server) == RIGHT
    assert json.loads(server.asked[0].body) == {"input": list(TEXTS), "model": "it"}


def test_a_server_is_told_the_name_that_it_lists(server: Server) -> None:
    server.on("/v1/models", page(json.dumps({"data": [{"id": "own/name"}]}), "application/json"))
    server.on("/v1/embeddings", answers(entries))
    ask(server, name=None, Authorization="Bearer secret")
    assert json.loads(server.asked[-1].body)["model"] == "own/name"
    assert {asked.headers["authorization"] for asked in server.asked} == {"Bearer secret"}


def test_a_busy_server_is_waited_for(server: Server, pauses: list[float]) -> None:
    server.on("/v1/embeddings", status(429, retry_after="3"), status(503), answers(entries))
    assert ask(server) == RIGHT
    assert pauses == [3.0, 1.0]


BAD: dict[str, tuple[Callable[[Asked], Reply], str, str]] = {
    "html": (page("<html>hello"), "answers text/html, not JSON: '<html>hello'", "usually ends in /v1"),
    "missing": (status(404), "does not exist there (404)", "--served-name"),
    "locked": (status(401), "requires a valid token (401)", "--token-env NAME"),
    "broken": (status(502), "fails (502): without a word", "server's log"),
    "limited": (status(429, retry_after="60"), "limits requests (429) and demands a wait of 60 s", "later"),
    "elsewhere": (status(302, location="http://192.0.2.1/v1"), "leads elsewhere (302): http://192.0.2.1/v1", "followed"),
    "half": (answers(lambda vectors: entries(vectors)[:2]), "gave 2 vectors for 3 texts", "one vector per text"),
    "cut off": (lambda asked: Reply(body=b'{"data": [' * 9, cut=40), "does not answer", "check that the server is running"),
    "no list": (page('{"object": "x"}'), "answers JSON without a list `data`", "embeddings API"),
    "numbered": (
        answers(lambda vectors: [{**each, "index": 7} for each in entries(vectors)]),
        "numbers its vectors [7, 7, 7] … for 3 texts",
        "`index`",
    ),
    "uneven": (
        answers(lambda vectors: entries([vectors[0], vectors[1][:2], vectors[2]])),
        "gave vectors of 2 and of 3 numbers",
        "all of the same dimension",
    ),
    "words": (answers(lambda vectors: entries([["a", "b", "c"]] * 3)), "not numbers", "float32"),
    "nothing": (answers(lambda vectors: entries([None] * 3)), "no list of numbers", "one vector per text"),
    "tokens": (answers(lambda vectors: entries([[each] * 2 for each in vectors])), "a matrix for a text", "pool"),
    "infinite": (
        lambda asked: Reply(body=b'{"data": [' + b",".join([b'{"embedding": [1, NaN]}'] * 3) + b"]}"),
        "NaN or infinite numbers for 3 of 3 texts",
        "bfloat16",
    ),
    "zeros": (answers(lambda vectors: entries([[0.0, 0.0]] * 3)), "a vector of zeros", "log"),
    "deep": (page("[" * 200_000), "not JSON", "embeddings API"),
    "digits": (answers(lambda vectors: entries([[10**400]] * 3)), "not numbers", "float32"),
    "compressed": (
        lambda asked: Reply(body=gzip.compress(b"{}"), headers={"Content-Encoding": "gzip"}),
        "answers compressed ('gzip')",
        "a proxy in between",
    ),
    "endless": (page(" " * (17 << 20)), "does not end", "embeddings API"),
    "not base64": (answers(lambda vectors: entries(["$"] * 3)), "not base64 of float32", "encoding_format"),
}  # fmt: skip


@pytest.mark.sample(15)
@pytest.mark.parametrize("what", BAD)
def test_a_bad_answer_is_two_lines(server: Server, what: str) -> None:
    behaviour, error, hint = BAD[what]
    server.on("/v1/embeddings", behaviour)
    with pytest.raises(SubjectError) as failed:
        ask(server)
    assert error in failed.value.message
    assert "\n" not in failed.value.message
    assert failed.value.hint is not None
    assert hint in failed.value.hint
    assert len(server.asked) <= 5


def test_what_is_refused_is_told_apart(server: Server) -> None:
    server.on("/v1/embeddings", lambda asked: Reply(status=413, body=b'{"error": {"message": "too long"}}'))
    with pytest.raises(Refused, match=r"refuses the texts \(413\): too long") as failed:
        ask(server)
    assert "--served-name" in str(failed.value.hint)


def test_a_server_that_is_asleep(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "POLICY", Policy(read_timeout=0.2))
    awake = threading.Event()

    def sleep(asked: Asked) -> Reply:
        awake.wait(10)
        return Reply()

    server.on("/v1/embeddings", sleep)
    with pytest.raises(SubjectError, match="does not answer: timed out"):
        ask(server)
    awake.set()


def test_time_for_all_questions(server: Server, pauses: list[float]) -> None:
    """Whatever it is that takes so long: an answer that trickles, a wait that is demanded, a name that is asked for."""
    asleep, answered = threading.Event(), list[bool]()

    def sleep(asked: Asked) -> Reply:
        answered.append(asleep.wait(10))
        return Reply()

    server.on("/v1/models", sleep)
    server.on("/v1/embeddings", status(429, retry_after="9"))
    for name in ("it", None):
        deadline = Deadline(seconds=0.3)
        made = connected(f"{server.base}/v1", model=name, headers={}, dimensions=None, deadline=deadline)
        with made as subject, pytest.raises(OutOfTime, match=r"after 0\.3 s doctor stopped asking"):
            subject.embed(TEXTS)
    assert answered == [], "it was waited for"
    asleep.set()
    assert pauses == []


@pytest.mark.tools("python")
def test_time_for_all_runs_of_a_program(tmp_path: Path) -> None:
    made = program(tmp_path, "import time; time.sleep(60)")
    with pytest.raises(OutOfTime):
        parse_command(made, lines=False, deadline=Deadline(seconds=0.3)).embed(TEXTS)


def test_nobody_at_home() -> None:
    nobody = connected("http://127.0.0.1:9/v1", model="a", headers={}, dimensions=None)
    with nobody as made, pytest.raises(SubjectError, match="does not answer") as failed:
        made.embed(TEXTS)
    assert "check that the server is running" in str(failed.value.hint)


@pytest.mark.parametrize("address", ["localhost:8080", "ftp://host/v1", "http://", "http://[::1/v1"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(UsageError, match="--url"), connected(address, model="a", headers={}, dimensions=None):
        pass


def program(tmp_path: Path, body: str) -> str:
    file = tmp_path / "program.py"
    file.write_text(f"import json, sys\ntexts = [json.loads(line)['text'] for line in sys.stdin]\n{body}\n")
    return f"{sys.executable} {file}"


@pytest.mark.tools("python")
@pytest.mark.parametrize(
    "body",
    [
        "for text in texts: print(json.dumps({'text': text, 'embedding': [len(text), 1, 2]}))",
        "for text in texts: print([len(text), 1, 2])",
        "print([[len(text), 1, 2] for text in texts])",
        "print(json.dumps({'data': [{'embedding': [len(text), 1, 2]} for text in texts]}, indent=2))",
    ],
)
def test_a_program_is_read(tmp_path: Path, body: str) -> None:
    assert parse_command(program(tmp_path, body), lines=False).embed(TEXTS).tolist() == RIGHT


@pytest.mark.tools("python")
def test_a_program_may_take_lines(tmp_path: Path) -> None:
    (tmp_path / "lines.py").write_text("import sys\nfor line in sys.stdin: print([len(line.strip()), 1, 2])")
    made = parse_command(f"{sys.executable} {tmp_path / 'lines.py'}", lines=True)
    assert made.embed(["a\nb", "c"]).tolist() == [[3, 1, 2], [1, 1, 2]]


@pytest.mark.tools("python")
@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("print('hello')", "wrote something that is not JSON: 'hello'"),
        ("sys.exit('no memory')", "failed with exit code 1: no memory"),
        ("print([1, 2])", "gave 1 vectors for 3 texts"),
    ],
)
def test_a_bad_program_is_two_lines(tmp_path: Path, body: str, error: str) -> None:
    with pytest.raises(SubjectError) as failed:
        parse_command(program(tmp_path, body), lines=False).embed(TEXTS)
    assert error in failed.value.message
    assert failed.value.hint


@pytest.mark.tools("python")
def test_a_program_that_does_not_stop_writing_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all that it started; it had filled the disk."""
    monkeypatch.setattr("edgepack.doctor.program.LARGEST_ANSWER", 1 << 20)
    body = "import subprocess\nsubprocess.run([sys.executable, '-c', 'while True: print(1)'])"
    with pytest.raises(SubjectError, match="wrote more than 1 MiB"):
        parse_command(program(tmp_path, body), lines=False).embed(TEXTS)


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="No closing quotation"):
        parse_command("a 'b", lines=False)
    with pytest.raises(UsageError):
        parse_command("", lines=False)


def test_files_are_read(tmp_path: Path) -> None:
    vectors, texts = tmp_path / "vectors.npy", tmp_path / "texts.txt"
    np.save(vectors, np.array(RIGHT))
    texts.write_text("a\nbb\nccc\n")
    read = read_vectors(vectors, texts)
    assert read[0] == TEXTS
    assert read[1].tolist() == RIGHT
    both = tmp_path / "both.jsonl"
    lines = [json.dumps({"text": text, "embedding": row}) for text, row in zip(TEXTS, RIGHT, strict=True)]
    both.write_text("\n".join(lines) + "\n")
    assert read_vectors(both, None)[0] == TEXTS
    assert read_vectors(both, None)[1].tolist() == RIGHT
    (tmp_path / "texts.json").write_text(json.dumps(list(TEXTS)))
    (tmp_path / "texts.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in TEXTS))
    assert read_texts(tmp_path / "texts.json") == read_texts(tmp_path / "texts.jsonl") == list(TEXTS)


def saved(path: Path, array: Any) -> Path:
    np.save(path, array, allow_pickle=True)
    return path


@pytest.mark.parametrize(
    ("array", "error"),
    [
        (np.array([{"a": 1}] * 3, dtype=object), "cannot be read: Object arrays cannot be loaded"),
        (np.ones((2, 3)), "holds 2 vectors, and there are 3 texts"),
        (np.ones(3), "holds an array of shape [3]"),
        (np.full((3, 2), np.nan), "NaN or infinite numbers for 3 of 3 texts"),
        (np.array([["a"]] * 3), "gave something that is not numbers"),
        (np.ones((3, 2), dtype=complex), "gave something that is not numbers"),
    ],
    ids=["pickles", "fewer", "flat", "nan", "words", "complex"],
)
def test_a_bad_file_is_two_lines(tmp_path: Path, array: Any, error: str) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("a\nbb\nccc\n")
    with pytest.raises(SubjectError) as failed:
        read_vectors(saved(tmp_path / "vectors.npy", array), texts)
    assert error in failed.value.message
    assert "\n" not in failed.value.message
    assert failed.value.hint


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", b"[" * 200_000),
        ("a.jsonl", b'{"text": "x", "embedding": [' + b"9" * 400 + b"]}"),
        ("a.npy", b"\x93NUMPY\x01\x00\x76\x00" + b"(" * 117 + b"\n"),
    ],
    ids=["deep", "digits", "no header"],
)
def test_a_file_that_is_made_to_be_no_file_is_two_lines(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    (tmp_path / "texts.txt").write_text("x\n")
    with pytest.raises(SubjectError):
        read_vectors(tmp_path / name, tmp_path / "texts.txt" if name.endswith("npy") else None)


def test_vectors_without_texts(tmp_path: Path) -> None:
    with pytest.raises(SubjectError, match="are missing") as failed:
        read_vectors(saved(tmp_path / "vectors.npy", np.ones((2, 2))), None)
    assert "--texts FILE" in str(failed.value.hint)
    (tmp_path / "bad.jsonl").write_text('{"embedding": [1]}\n')
    with pytest.raises(SubjectError, match="without `text`"):
        read_vectors(tmp_path / "bad.jsonl", None)
    (tmp_path / "none.npy").write_bytes(b"hello")
    with pytest.raises(SubjectError, match="cannot be read"):
        read_vectors(tmp_path / "none.npy", None)


def test_one_thing_is_examined_at_a_time() -> None:
    with pytest.raises(UsageError, match="give exactly one of"):
        doctor.main(["model"], standalone_mode=False)
    with pytest.raises(UsageError, match="give exactly one of"):
        doctor.main(["model", "--url", "http://localhost/v1", "--command", "cat"], standalone_mode=False)
