"""``embed serve`` for other servers' clients: Ollama's and Text Embeddings Inference's; pages of other origins; the token."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.embed_serve import Answer, Running, read_answer, running
from tests.support.sample_program import command_of, run_program

pytestmark = pytest.mark.tools("c++", "python", may=("uname",))  # a client says where it runs

PAGE = "https://app.example"

OTHER = "https://other.example"


@pytest.fixture(scope="module")
def server(sample: Path) -> Iterator[Running]:
    with running(sample, "--max-tokens", "3000", "--cors", PAGE, "--cors", "http://localhost:3000") as made:
        yield made


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("/api/embed", {"input": ""}, {"model": "sample", "embeddings": []}),
        ("/api/embed", {}, {"model": "sample", "embeddings": []}),
        ("/api/embeddings", {"prompt": ""}, {"embedding": []}),
    ],
)
def test_of_nothing_ollama_makes_nothing(server: Running, path: str, body: Any, expected: Any) -> None:
    answer = server.ask(path, body)
    assert answer.status == 200
    assert {name: answer.json[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/api/embed", b"{", 400, "the body is not JSON"),
        ("/api/embed", {"input": 5}, 400, "input must be a string"),
        ("/api/embed", {"input": ["a", 5]}, 400, "invalid input type"),
        ("/api/embed", {"input": "a cat sat on the mat", "truncate": False}, 400, "fewer than 6 tokens"),
        ("/api/embed", {"input": "a", "truncate": 1}, 400, "truncate must be true or false"),
        ("/api/embeddings", {"prompt": ["a"]}, 400, "prompt must be a string"),
        ("/api/generate", {"prompt": "a"}, 404, "no such path"),
    ],
)
def test_errors_have_ollamas_form(server: Running, path: str, body: Any, status: int, words: str) -> None:
    answer = server.ask(path, body)
    assert (answer.status, list(answer.json)) == (status, ["error"])
    assert words in answer.json["error"]


@pytest.mark.parametrize(
    ("body", "status", "kind", "words"),
    [
        (b"{", 422, "Tokenizer", "the body is not JSON"),
        ({"inputs": []}, 400, "Empty", "`inputs` cannot be empty"),
        ({"inputs": ["a", ""]}, 413, "Validation", "`inputs` cannot be empty"),
        ({}, 413, "Validation", "inputs must be a string"),
        ({"inputs": "a cat sat on the mat", "truncate": False}, 413, "Validation", "fewer than 6 tokens"),
        (
            {"inputs": "a", "truncation_direction": "Left"},
            413,
            "Validation",
            "`truncation_direction` is Right",
        ),
        ({"inputs": ["a"] * 2049}, 413, "Validation", "at most 2048"),
        ({"inputs": [4, 99]}, 413, "Validation", "from 0 to 11"),
        ({"inputs": ["a cat sat on"] * 600}, 413, "Validation", "3000 at most"),
    ],
)
def test_errors_have_the_form_of_text_embeddings_inference(
    server: Running, body: Any, status: int, kind: str, words: str
) -> None:
    answer = server.ask("/embed", body)
    assert (answer.status, answer.json["error_type"]) == (status, kind)
    assert words in answer.json["error"]


def test_the_limits_hold_on_every_path(server: Running) -> None:
    for path in ("/api/embed", "/api/embeddings", "/embed"):
        assert server.ask(path, b"{}", content_type="text/plain").status == 415
        assert server.ask(path, b"{}", host="evil.example").status == 421
        with server.connect() as connection:
            connection.sendall(
                f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                "Content-Length: 4000001\r\n\r\n".encode()
            )
            assert read_answer(connection).status == 413


def preflight(server: Running, path: str, origin: str, *more: str) -> Answer:
    lines = ("Host: localhost", f"Origin: {origin}", "Access-Control-Request-Method: POST", *more)
    asked = "\r\n".join((f"OPTIONS {path} HTTP/1.1", *lines, "", ""))
    with server.connect() as connection:
        connection.sendall(asked.encode())
        return read_answer(connection)


def test_a_page_of_an_allowed_origin_may_ask_and_read(server: Running) -> None:
    answer = preflight(server, "/v1/embeddings", PAGE)
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert answer.headers["access-control-allow-methods"] == "POST"
    assert answer.headers["access-control-allow-headers"] == "authorization, content-type"
    # OpenAI's client for browsers sends headers of its own.
    asked = "authorization,content-type,x-stainless-lang"
    more = preflight(server, "/v1/embeddings", PAGE, f"Access-Control-Request-Headers: {asked}")
    assert more.headers["access-control-allow-headers"] == asked
    assert answer.headers["vary"] == "Origin"
    assert "content-length" not in answer.headers
    for path, body in (("/v1/embeddings", {"input": "a"}), ("/v1/embeddings", {}), ("/none", None)):
        assert server.ask(path, body, origin=PAGE).headers["access-control-allow-origin"] == PAGE


@pytest.mark.sample(1)
def test_a_page_of_another_origin_may_not(server: Running, sample: Path) -> None:
    for origin in (OTHER, "null", PAGE + ".other.example", PAGE.upper()):
        answer = preflight(server, "/v1/embeddings", origin)
        assert answer.status == 403
        assert "access-control-allow-origin" not in answer.headers
        assert "access-control-allow-origin" not in server.ask("/health", origin=origin).headers
    assert preflight(server, "/none", PAGE).status == 404
    assert "access-control-allow-origin" not in server.ask("/health").headers
    environment = {**os.environ, "EMBED_TOKEN": "s3cret"}
    with running(sample, environment=environment) as closed:
        answer = preflight(closed, "/v1/embeddings", PAGE)
        assert (answer.status, answer.headers["allow"]) == (405, "POST")
    with running(sample, "--cors", "*", environment=environment) as any_page:
        # A browser asks before it has said the token, which it says with the request.
        assert preflight(any_page, "/embed", OTHER).headers["access-control-allow-origin"] == "*"
        refused = any_page.ask("/embed", {"inputs": "a"}, origin=OTHER)
        assert (refused.status, refused.headers["access-control-allow-origin"]) == (401, "*")
        assert any_page.ask("/embed", {"inputs": "a"}, authorization="Bearer s3cret").status == 200


@pytest.mark.parametrize(
    "word", ["app.example", "https://app.example/", "https://App.example", "https://*.example", ""]
)
def test_what_is_no_origin(sample: Path, word: str) -> None:
    done = run_program(sample, "serve", "--cors", word)
    assert done.returncode == 2
    assert "is not an origin" in done.stderr.decode()


@pytest.mark.sample(11)
@pytest.mark.parametrize(
    ("variables", "code", "words"),
    [
        ({"EMBED_TOKEN": "s3cret"}, 0, "listening on"),
        ({"EMBED_TOKEN_FILE": "{token}"}, 0, "listening on"),
        ({"EMBED_TOKEN": ""}, 3, "EMBED_TOKEN holds no token"),
        ({"EMBED_TOKEN": "two words"}, 3, "EMBED_TOKEN holds no token"),
        ({"EMBED_TOKEN_FILE": ""}, 3, "cannot read"),
        ({"EMBED_TOKEN_FILE": "/nowhere/token"}, 3, "cannot read /nowhere/token"),
        (
            {"EMBED_TOKEN": "a", "EMBED_TOKEN_FILE": "{token}"},
            2,
            "EMBED_TOKEN and EMBED_TOKEN_FILE are both set",
        ),
        ({}, 2, "0.0.0.0 is not a loopback address"),
    ],
)
def test_the_token_from_the_environment(
    sample: Path, tmp_path: Path, variables: dict[str, str], code: int, words: str
) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    token.chmod(0o600)
    done = subprocess.run(
        [*command_of(sample), "serve", "--host", "0.0.0.0", "--port=0", "--check"],
        env={**os.environ, **{name: value.format(token=token) for name, value in variables.items()}},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert "s3cret" not in done.stdout + done.stderr
