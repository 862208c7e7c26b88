"""``embed serve``: OpenAI's embeddings over HTTP, and what it says of itself."""

import base64
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.embed_serve import Running, read_answer, request, running
from tests.support.golden import matches_golden
from tests.support.sample_program import Run, complaint, is_for_windows, run_program, vectors_of

pytestmark = pytest.mark.tools("c++", "python")

TEXTS = ["a cat", "the kitten sat", ""]


@pytest.fixture(scope="module")
def server(sample: Path) -> Iterator[Running]:
    with running(sample, "--max-body", "100000", "--max-tokens", "3000", "--timeout", "2") as made:
        yield made


def test_the_help_is_what_the_golden_file_says(run: Run, update_golden: bool) -> None:
    done = run("serve", "--help")
    matches_golden("help-serve.txt", done.stdout.decode(), update=update_golden)


def test_vectors_are_what_the_program_gives(server: Running, run: Run) -> None:
    expected = np.array(vectors_of(run(*TEXTS).stdout))
    for form in ("float", "base64"):
        answer = server.ask("/v1/embeddings", {"input": TEXTS, "encoding_format": form}).json
        rows = [row["embedding"] for row in answer["data"]]
        got = [np.frombuffer(base64.b64decode(row), "<f4") if form == "base64" else row for row in rows]
        assert np.array(got) == pytest.approx(expected, abs=1e-6)
        assert [row["index"] for row in answer["data"]] == [0, 1, 2]
        assert answer["model"] == "sample"


def test_tokens_are_counted(server: Running) -> None:
    usage = server.embed(["a cat", "mat"]).json["usage"]
    assert usage == {"prompt_tokens": 4 + 3, "total_tokens": 4 + 3}


def test_token_ids_are_taken_with_and_without_the_special_ones(server: Running) -> None:
    expected = server.embed("a cat").json["data"][0]
    for ids in ([4, 5], [2, 4, 5, 3]):
        assert server.embed(ids).json["data"] == [expected]
    many = server.embed([[4, 5], [5]]).json["data"]
    assert many[0] == expected
    assert many[1]["embedding"] == server.embed("cat").json["data"][0]["embedding"]


def test_vectors_can_be_shortened_and_texts_prefixed(server: Running, run: Run) -> None:
    (short,) = server.embed("a cat", dimensions=4).json["data"]
    assert short["embedding"] == pytest.approx(vectors_of(run("--dim=4", "a cat").stdout)[0], abs=1e-6)
    assert len(server.embed("a cat", dimensions=8).json["data"][0]["embedding"]) == 8
    assert server.embed("cat", prefix="query").json["data"] == server.embed("the cat").json["data"]


def test_half_a_character_is_replaced(server: Running) -> None:
    assert server.embed("a \ud83d").json["data"] == server.embed("a \ufffd").json["data"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"input": "a', "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 50_000, "not JSON"),
        (b"[]", "must be a JSON object"),
        ({}, "input must be"),
        ({"input": []}, "input must be"),
        ({"input": ["a", 5]}, "all strings, or all token ids"),
        ({"input": [[]]}, "none empty"),
        ({"input": [True]}, "all token ids"),
        ({"input": [4, 99]}, "from 0 to 11"),
        ({"input": [-1]}, "from 0 to 11"),
        ({"input": [4, 4, 4, 4, 4]}, "7 tokens with the special ones, 6 at most"),
        ({"input": ["a"] * 2049}, "at most 2048"),
        ({"input": ["a cat sat on"] * 600}, "3600 tokens, 3000 at most"),
        ({"input": "a", "encoding_format": "xml"}, "one of float, base64"),
        ({"input": "a", "dimensions": "four"}, "positive integer"),
        ({"input": "a", "prefix": "title"}, "one of query, passage"),
        ({"input": [4], "prefix": "query"}, "not to token ids"),
    ],
)
def test_a_request_that_makes_no_sense_is_told_why(server: Running, body: Any, words: str) -> None:
    answer = server.ask("/v1/embeddings", body)
    assert answer.status == 400
    assert words in answer.json["error"]["message"]
    assert answer.json["error"]["type"] == "invalid_request_error"
    assert server.embed("a cat").status == 200


def test_what_it_says_of_itself(server: Running) -> None:
    assert server.ask("/health").json == {"status": "ok"}
    said = server.ask("/info").json
    assert said["model"]["dimension"] == 8
    assert said["server"]["max_tokens"] == 3000


def test_metrics_are_what_prometheus_reads(sample: Path) -> None:
    with running(sample) as server:
        server.embed(["a", "a cat"])
        server.embed(5)
        server.ask("/elsewhere/" + "x" * 50)
        answer = server.ask("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.body.decode().splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert values['embed_requests_total{path="/v1/embeddings",status="200"}'] == "1"
    assert values['embed_requests_total{path="/v1/embeddings",status="400"}'] == "1"
    # Paths are the client's: they must not fill the page.
    assert values['embed_requests_total{path="other",status="404"}'] == "1"
    assert values["embed_texts_total"] == "2"
    assert values["embed_tokens_total"] == "7"
    assert values['embed_request_seconds_bucket{le="+Inf"}'] == values["embed_request_seconds_count"] == "1"
    assert values["embed_batch_texts_sum"] == "2.000000"
    named = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    for name in values:
        bare = name.partition("{")[0]
        assert bare in named or bare.rsplit("_", 1)[0] in named, name


def test_a_wrong_path_or_method(server: Running) -> None:
    assert server.ask("/v1/embedding").status == 404
    answer = server.ask("/v1/embeddings")
    assert answer.status == 405
    assert answer.headers["allow"] == "POST"


def test_a_head_request_gets_no_body(server: Running) -> None:
    with server.connect() as connection:
        connection.sendall(
            b"HEAD /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        )
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += connection.recv(1)
        assert b"content-length: 17" in head.lower()
        assert read_answer(connection).json == {"status": "ok"}


def test_a_token_is_asked_for_everywhere_but_at_health(sample: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    (tmp_path / "token").chmod(0o600)
    with running(sample, "--token-file", str(tmp_path / "token")) as server:
        assert server.ask("/health").status == 200
        for path in ("/info", "/metrics", "/v1/models"):
            assert server.ask(path).status == 401
        for wrong in ("Bearer s3cre", "Bearer s3cret2", "Basic s3cret", "s3cret", "Bearer"):
            answer = server.ask("/v1/embeddings", {"input": "a"}, authorization=wrong)
            assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
        answer = server.ask("/v1/embeddings", {"input": "a"}, authorization="Bearer s3cret")
        assert (answer.status, len(answer.json["data"])) == (200, 1)


@pytest.mark.sample(8)
@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--host", "0.0.0.0"), 2, "0.0.0.0 is not a loopback address"),
        (("--token-file", "/nowhere/token"), 3, "/nowhere/token"),
        (("--token-file", "/dev/null"), 3, "holds no token"),
        (("--unix", "/nowhere/socket"), 8, "cannot listen on /nowhere/socket"),
        (("--unix", ""), 2, "--unix: the path is empty"),
        (("--port", "70000"), 2, "70000"),
        (("--wait", "-1"), 2, "-1"),
        (("--prefix", "title"), 2, "title"),
        (("text",), 2, "embed serve takes no texts, not 'text'"),
    ],
)
def test_options_that_make_no_sense(run: Run, options: tuple[str, ...], code: int, words: str) -> None:
    done = run("serve", *options)
    assert done.returncode == code
    assert words in complaint(done)[0]


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("mode", "code", "words"),
    [
        (0o620, 3, "is writable by others (mode 620)"),
        (0o602, 3, "is writable by others (mode 602)"),
        (0o644, 0, "is readable by every user of this device (mode 644)"),
        (0o640, 0, "listening on"),
    ],
)
def test_who_else_may_know_or_set_the_token(
    run: Run, tmp_path: Path, mode: int, code: int, words: str
) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    (tmp_path / "token").chmod(mode)
    done = run("serve", "--check", "--port=0", "--token-file", str(tmp_path / "token"))
    assert done.returncode == code
    assert words in done.stderr.decode().splitlines()[0]


@pytest.mark.sample(1)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_another_users_token_file_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    (tmp_path / "token").chmod(0o600)
    os.chown(tmp_path / "token", 65534, -1)
    done = run("serve", "--check", "--port=0", "--token-file", str(tmp_path / "token"))
    assert done.returncode == 3
    assert "belongs to another user" in complaint(done)[0]


def test_a_token_is_the_whole_file_or_none(run: Run, tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"a" * 4096 + b"\nand more that would not count")
    (tmp_path / "token").chmod(0o600)
    done = run("serve", "--check", "--port=0", "--token-file", str(tmp_path / "token"))
    assert done.returncode == 3
    assert "holds no token" in complaint(done)[0]


@pytest.mark.sample(1)
def test_it_can_check_itself(run: Run, sample: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret")
    (tmp_path / "token").chmod(0o600)
    # Windows' program has no unix sockets, and knows nothing of who may read or write the file.
    place = ("--port=0", "--host=::1") if is_for_windows(sample) else ("--unix", str(tmp_path / "s"))
    for options in (("--port=0",), (*place, "--token-file", str(tmp_path / "token"))):
        done = run("serve", "--check", *options)
        assert done.returncode == 0, done.stderr
        assert done.stderr.startswith(b"listening on ") and done.stderr.count(b"\n") == 1
    done = run("serve", "--check", "--port=0", "--max-tokens=2")
    assert done.returncode == 5
    assert "3 tokens, 2 at most" in done.stderr.decode()


def test_a_port_that_is_taken(run: Run, server: Running) -> None:
    done = run("serve", "--port", str(server.port))
    assert done.returncode == 8
    assert f"cannot listen on 127.0.0.1 port {server.port}" in complaint(done)[0]


def test_a_damaged_bundle_does_not_serve(copy: Path) -> None:
    (copy / "model/model.onnx").write_bytes(b"")
    done = run_program(copy, "serve", "--port", "0")
    assert done.returncode == 4
    assert "model/model.onnx is damaged" in complaint(done)[0]


@pytest.mark.sample(1)
def test_a_unix_socket_is_its_owners_and_goes_with_the_server(sample: Path, tmp_path: Path) -> None:
    path = tmp_path / "s"
    # What a killed server left behind does not stand in the way.
    with socket.socket(socket.AF_UNIX) as old:
        old.bind(str(path))
    with running(sample, "--unix", str(path)) as server:
        assert path.stat().st_mode & 0o777 == 0o600
        assert server.embed("a cat").status == 200
        # One that is in use does.
        assert run_program(sample, "serve", "--unix", str(path)).returncode == 8
        assert server.embed("a cat").status == 200
        server.process.terminate()
        assert server.process.wait() == 0
    assert not path.exists()


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["a file", "a link"])
def test_what_is_no_socket_is_left_where_it_is(sample: Path, tmp_path: Path, kind: str) -> None:
    """Of a file, too, the system says that the connection is refused."""
    place, kept = tmp_path / "s", tmp_path / "notes"
    kept.write_text("my own")
    if kind == "a file":
        kept.rename(place)
    else:
        place.symlink_to(kept)
    done = run_program(sample, "serve", "--unix", str(place))
    assert (done.returncode, place.read_text()) == (8, "my own")
    assert f"cannot listen on {place}: Address already in use" in complaint(done)[0]


@pytest.mark.sample(1)
def test_a_server_that_ends_leaves_the_socket_of_the_next_one(sample: Path, tmp_path: Path) -> None:
    path = tmp_path / "s"
    with running(sample, "--unix", str(path)) as old, old.connect() as half:
        half.sendall(request("/v1/embeddings", {"input": "a"})[:-2])
        while values(old)["embed_connections"] != "2":
            pass
        time.sleep(0.1)
        old.process.terminate()
        # It listens no more, and waits for what it has been asked.
        with pytest.raises(OSError):
            while True:
                old.connect().close()
        with running(sample, "--unix", str(path)) as new:
            half.close()
            assert old.process.wait() == 0
            assert new.embed("a cat").status == 200


@pytest.mark.sample(1)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_stop_it_answers_what_was_asked(sample: Path, number: signal.Signals) -> None:
    with ExitStack() as open_until_the_end:
        server = open_until_the_end.enter_context(running(sample, "--wait", "500", "--queue", "65535"))
        idle, *busy = (open_until_the_end.enter_context(server.connect()) for _ in range(9))
        # So many that they are not over before the signal comes, however busy the machine.
        for each in busy:
            each.sendall(request("/v1/embeddings", {"input": ["a cat sat on the mat " * 20] * 2000}))
        while values(server)["embed_batch_texts_count"] == "0":
            pass
        server.process.send_signal(number)
        answers = [read_answer(each) for each in busy]
        assert [(answer.status, len(answer.json["data"])) for answer in answers] == [(200, 2000)] * 8
        assert "close" in [answer.headers.get("connection") for answer in answers]
        assert idle.recv(1) == b""
        assert server.process.wait() == 0
        with pytest.raises(ConnectionError):
            server.connect()


def test_told_twice_it_ends_at_once(sample: Path) -> None:
    with running(sample) as server, server.connect() as half:
        half.sendall(request("/v1/embeddings", {"input": "a"})[:-2])
        while values(server)["embed_connections"] != "2":
            pass
        time.sleep(0.1)
        server.process.terminate()
        while server.process.poll() is None:
            server.process.terminate()
            time.sleep(0.01)
        assert server.process.wait() == -signal.SIGTERM


def test_a_full_queue_says_when_to_come_again(sample: Path) -> None:
    with running(sample, "--queue", "50", "--window", "1") as server, server.connect() as first:
        # Larger than the queue, but alone; on a busy machine it may be over before anybody looks, or asks.
        for answered in range(100):
            first.sendall(request("/v1/embeddings", {"input": ["a cat sat on the mat"] * 2000}))
            while int((seen := values(server))["embed_queue_texts"]) == 0:
                if int(seen["embed_texts_total"]) >= 2000 * (answered + 1):
                    break
            refused = server.embed("a cat")
            if refused.status == 429:
                break
            assert read_answer(first).status == 200
        assert refused.status == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert read_answer(first).status == 200
        assert server.embed("a cat").status == 200


def test_concurrent_requests_meet_in_a_batch_and_get_their_own_vectors(sample: Path, run: Run) -> None:
    texts = ["a cat", "mat", "the kitten sat", "on the mat", "a a a"] * 8
    expected = dict(zip(texts[:5], vectors_of(run(*texts[:5]).stdout), strict=True))
    with running(sample, "--wait", "200") as server:
        barrier = threading.Barrier(len(texts))

        def ask(text: str) -> list[float]:
            with server.connect() as connection:
                barrier.wait()
                connection.sendall(request("/v1/embeddings", {"input": [text]}))
                return list(read_answer(connection).json["data"][0]["embedding"])

        with ThreadPoolExecutor(len(texts)) as pool:
            got = list(pool.map(ask, texts))
        for text, vector in zip(texts, got, strict=True):
            assert vector == pytest.approx(expected[text], abs=1e-6)
        said = values(server)
        assert int(said["embed_batch_texts_count"]) < len(texts)


LARGE = 2000
"""Texts of a request: on a busy machine the server may have done them all before this process comes to look, but not each time."""
TRIES = 5


def test_a_small_request_does_not_wait_for_a_large_one(sample: Path) -> None:
    assert any(_overtakes(sample) for _ in range(TRIES))


def _overtakes(sample: Path) -> bool:
    """Whether a small request is answered while texts of a large one wait."""
    with running(sample, "--window", "1") as server, server.connect() as large:
        large.sendall(request("/v1/embeddings", {"input": ["a cat sat on the mat"] * LARGE}))
        while values(server)["embed_batch_texts_count"] == "0":
            pass
        assert server.embed("a cat").status == 200
        waiting = int(values(server)["embed_queue_texts"])
        assert len(read_answer(large).json["data"]) == LARGE
    return waiting > 0


@pytest.mark.parametrize("how", ["resets", "closes"])
def test_a_client_that_breaks_off_is_worked_for_no_longer(sample: Path, how: str) -> None:
    assert any(_is_dropped(sample, how) for _ in range(TRIES))


def _is_dropped(sample: Path, how: str) -> bool:
    """Whether texts are left undone of a client that breaks off."""
    with running(sample, "--window", "1") as server:
        with server.connect() as connection:
            if how == "resets":  # closing with a linger of nothing
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            many = request("/v1/embeddings", {"input": ["a cat sat on the mat " * 20] * LARGE})
            connection.sendall(many)
            while values(server)["embed_batch_texts_count"] == "0":
                pass
        while int(values(server)["embed_queue_texts"]):
            pass
        done = float(values(server)["embed_batch_texts_sum"])
        assert server.embed("a cat").status == 200
    return done < LARGE / 2


def test_the_word_serve_can_still_be_embedded(run: Run) -> None:
    assert json.loads(run("--", "serve").stdout)[0]["text"] == "serve"


def values(server: Running) -> dict[str, str]:
    """What the metrics say, by name."""
    lines = server.ask("/metrics").body.decode().splitlines()
    return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
