"""Clients that do it wrong, slowly, or all at once."""

import selectors
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.support.embed_serve import Running, read_answer, request, running

from .test_serve import values

pytestmark = pytest.mark.tools("c++", "python")

GOOD = request("/v1/embeddings", {"input": "a cat"})


@pytest.fixture(scope="module")
def server(sample: Path) -> Iterator[Running]:
    with running(sample, "--max-body", "100000", "--timeout", "1") as made:
        yield made


def post(*lines: bytes, rest: bytes = b"") -> bytes:
    """The beginning of a request for vectors, with further headers."""
    head = b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return head + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + rest


def between(first: bytes, last: bytes) -> bytes:
    """A sound request with a header before and behind its own."""
    start, _, rest = GOOD.partition(b"\r\n")
    return b"\r\n".join((start, first, rest.replace(b"\r\n\r\n", b"\r\n" + last + b"\r\n\r\n")))


CHUNKED, NO_CHUNK = b"Transfer-Encoding: chunked", b"0\r\n\r\n"
REFUSED = {
    400: (
        b"GARBAGE\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(50) + b"\r\n\r\n",  # TLS
        b"GET /health HTTP/1.1\r\n\r\n",  # no Host
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nbad header\r\n\r\n",
        post(b"Content-Length: -1"),
        post(b"Content-Length: 1e3"),
        post(b"Content-Length: 5", b"Content-Length: 6"),
        post(CHUNKED, rest=b"zz\r\n"),
        post(CHUNKED, rest=b"-1\r\n"),
        post(CHUNKED, rest=b"0x1\r\na\r\n" + NO_CHUNK),
        post(CHUNKED, rest=b"1 \r\na\r\n" + NO_CHUNK),
        post(CHUNKED, rest=b"10000000000000000\r\n"),
        post(CHUNKED, rest=b"1\r\nab\r\n" + NO_CHUNK),
        post(CHUNKED, rest=b"1\na\r\n" + NO_CHUNK),
        post(CHUNKED, b"Content-Length: 0", rest=NO_CHUNK),
        post(b"Content-Length: 0", CHUNKED, rest=NO_CHUNK),
        post(b"Content-Length: 0", b"Content-Length: 0"),
        post(b"Content-Length: 0, 0"),
        post(b"Content-Length:"),
        post(b"Content-Length: +1"),
        post(b"Content-Length: 18446744073709551616"),
        post(b"Content-Length : 0"),
        post(b"X: x", b" folded: x"),
        post(b"X: x\nContent-Length: 0"),
        post(b"X: x\rContent-Length: 0"),
        post(b"X: a\0b"),
        GOOD.replace(b"\r\n", b"\n"),
        GOOD.replace(b"HTTP/1.1", b"HTTP/1.2"),
        GOOD.replace(b"HTTP/1.1", b"HTTP/2.0"),
        GOOD.replace(b" HTTP/1.1", b""),
        GOOD.replace(b" HTTP/1.1", b"  HTTP/1.1"),
        post(CHUNKED, rest=NO_CHUNK).replace(b"HTTP/1.1", b"HTTP/1.0"),
        post(
            CHUNKED, b"Content-Length: 5", rest=NO_CHUNK + b"GET /hidden HTTP/1.1\r\nHost: localhost\r\n\r\n"
        ),
        between(b"Content-Type: text/plain", b"X: x"),
        between(b"X: x", b"CONTENT-TYPE: application/json"),
        between(b"Content-Type: application/json;", b"content-type: text/plain"),
        between(b"Authorization: Bearer a", b"Authorization: Bearer b"),
        between(b"Origin: http://a.example", b"Origin: http://b.example"),
        between(b"Host: localhost", b"Y: y"),
    ),
    413: (post(b"Content-Length: 100001"),),
    431: (
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 20_000,
        post(CHUNKED, rest=b"0\r\nX: " + b"a" * 20_000),
    ),
    501: (
        post(b"Transfer-Encoding: gzip"),
        post(b"Transfer-Encoding: gzip, chunked", rest=NO_CHUNK),
        post(b"Transfer-Encoding: GZIP\r\ntransfer-encoding: chunked", rest=NO_CHUNK),
        post(b"Transfer-Encoding: identity, chunked", rest=NO_CHUNK),
    ),
}


@pytest.mark.parametrize(
    ("sent", "status"), [(sent, status) for status, all in REFUSED.items() for sent in all]
)
def test_what_is_not_http_or_too_large_is_refused(server: Running, sent: bytes, status: int) -> None:
    with server.connect() as connection:
        connection.sendall(sent)
        answer = read_answer(connection)
        assert answer.status == status
        assert answer.json["error"]["message"]
        assert answer.headers["connection"] == "close"
        assert connection.recv(1) == b""
    assert server.embed("a cat").status == 200


def test_a_body_that_grows_too_large_is_refused_while_it_comes(server: Running) -> None:
    with server.connect() as connection:
        connection.sendall(post(CHUNKED))
        for _ in range(20):
            connection.sendall(b"2000\r\n" + b" " * 0x2000 + b"\r\n")
        # What was still on its way did not cost the answer.
        assert read_answer(connection).status == 413


def test_a_large_body_is_refused_before_it_is_sent(server: Running) -> None:
    with server.connect() as connection:
        connection.sendall(post(b"Content-Length: 200000", b"Expect: 100-continue"))
        assert read_answer(connection).status == 413


def test_a_client_may_wait_for_leave_to_send(server: Running) -> None:
    body = b'{"input": "a cat"}'
    with server.connect() as connection:
        connection.sendall(post(b"Content-Length: %d" % len(body), b"Expect: 100-continue"))
        assert read_answer(connection).status == 100
        connection.sendall(body)
        assert read_answer(connection).status == 200


def test_chunks_and_single_bytes_and_several_at_once(server: Running) -> None:
    expected = server.embed("a cat").json
    parts = b'8\r\n{"input"\r\n1;x=y\r\n:\r\n8\r\n "a cat"\r\n1\r\n}\r\n0\r\nTrailer: x\r\n\r\n'
    with server.connect() as connection:
        connection.sendall(post(CHUNKED, rest=parts))
        assert read_answer(connection).json == expected
        for byte in GOOD:
            connection.sendall(bytes([byte]))
        assert read_answer(connection).json == expected
        # Three in one go are answered one after the other.
        connection.sendall(GOOD * 3)
        data = b""
        while data.count(b'"usage"') < 3:
            data += connection.recv(1 << 16)


@pytest.mark.parametrize(
    "headers",
    [b"Connection: close", b"connection: keep-alive , Close", b"Connection: x\r\nConnection: close"],
)
def test_a_client_may_ask_for_the_end(server: Running, headers: bytes) -> None:
    with server.connect() as connection:
        connection.sendall(b"\r\n" + GOOD.replace(b"\r\n", b"\r\n" + headers + b"\r\n", 1))
        assert read_answer(connection).headers["connection"] == "close"
        assert connection.recv(1) == b""


def test_http_1_0_gets_an_answer_and_an_end(server: Running) -> None:
    with server.connect() as connection:
        connection.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        assert read_answer(connection).json == {"status": "ok"}
        assert connection.recv(1) == b""


def test_a_half_closed_client_gets_its_answer(server: Running) -> None:
    with server.connect() as connection:
        connection.sendall(GOOD)
        connection.shutdown(socket.SHUT_WR)
        # Whether it still listens may have been asked with a 100, which clients pass over.
        said = b""
        while part := connection.recv(1 << 16):
            said += part
        assert said.removeprefix(b"HTTP/1.1 100 \r\n\r\n").startswith(b"HTTP/1.1 200 ")


def test_a_request_that_breaks_off_is_not_waited_for(server: Running) -> None:
    with server.connect() as connection:
        connection.sendall(GOOD[:-5])
        connection.shutdown(socket.SHUT_WR)
        assert read_answer(connection).status == 400
        assert connection.recv(1) == b""


@pytest.mark.sample(1)
@pytest.mark.parametrize("cut", [10, 60, len(GOOD) - 1])
def test_a_request_that_stops_coming_is_given_up(server: Running, cut: int) -> None:
    with server.connect() as connection:
        connection.sendall(GOOD[:cut])
        answer = read_answer(connection)
        assert answer.status == 408
        assert connection.recv(1) == b""


@pytest.mark.sample(1)
def test_a_request_that_trickles_is_given_up_in_the_same_time(server: Running) -> None:
    with server.connect() as connection:
        sent = 0
        try:
            for sent, byte in enumerate(GOOD * 10):  # noqa: B007
                connection.sendall(bytes([byte]))
                time.sleep(0.05)
        except ConnectionError:
            pass
        assert sent < len(GOOD)


@pytest.mark.sample(1)
def test_a_request_that_comes_without_a_pause_is_given_up(server: Running) -> None:
    extended = b"1;" + b"a" * 16_000 + b"\r\n \r\n"
    began = time.monotonic()
    with server.connect() as connection, pytest.raises(ConnectionError):
        connection.sendall(post(CHUNKED))
        while time.monotonic() < began + 10:
            connection.sendall(extended * 4)


@pytest.mark.sample(1)
def test_a_client_that_does_not_read_is_given_up(sample: Path) -> None:
    with running(sample, "--timeout", "1") as server, server.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        large = request("/v1/embeddings", {"input": ["a cat"] * 2000})
        with pytest.raises(ConnectionError):
            for _ in range(10_000):
                connection.sendall(large)
        while values(server)["embed_connections"] != "1":
            time.sleep(0.05)


@pytest.mark.sample(1)
def test_answers_that_nobody_reads_do_not_fill_the_memory(sample: Path, tmp_path: Path) -> None:
    """On a unix socket: the system takes megabytes of what it sends over TCP."""
    many = ["a cat"] * 2000
    limits = ("--max-body", "100000", "--max-bodies", "100000")
    with running(sample, "--unix", str(tmp_path / "s"), *limits) as server:
        with ExitStack() as stack:
            connections = [stack.enter_context(server.connect()) for _ in range(4)]
            for connection in connections:
                connection.sendall(request("/v1/embeddings", {"input": many}))
            heads = [connection.recv(12) for connection in connections]
            # 429: where the queue is full at that moment.
            assert {b"HTTP/1.1 200"} < set(heads) <= {b"HTTP/1.1 200", b"HTTP/1.1 429", b"HTTP/1.1 503"}
            # Who asks for little is served meanwhile.
            assert server.embed("a cat").status == 200
            refused = server.embed(many)
            assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        while server.embed(many).status != 200:
            time.sleep(0.05)


@pytest.mark.sample(1)
def test_bodies_of_clients_that_have_gone_are_counted_until_they_are_read(sample: Path) -> None:
    """2,210 of 4 MB, beside a few that take the reading thread a second each, once were 5.7 GB."""
    long = request("/v1/embeddings", {"input": "a" * 7_900_000})
    limits = ("--max-body", "8000000", "--max-bodies", "36000000")
    with ExitStack() as open_until_the_end:
        server = open_until_the_end.enter_context(running(sample, *limits))
        busy = [open_until_the_end.enter_context(server.connect()) for _ in range(4)]
        for each in busy:
            each.sendall(long)
        with server.connect() as gone:
            gone.sendall(request("/v1/embeddings", {"input": "a" * 4_000_000}))
            gone.shutdown(socket.SHUT_WR)
            assert gone.recv(9) == b"HTTP/1.1 ", "it has the whole, and asks whether anybody is there"
            gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        while int(values(server)["embed_connections"]) > 1 + len(busy):
            pass
        refused = server.embed("a" * 500_000)
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert {read_answer(each).status for each in busy} == {200}
        while server.embed("a" * 500_000).status != 200:
            time.sleep(0.05)


@pytest.mark.sample(1)
def test_a_thousand_connections(sample: Path) -> None:
    with running(sample) as server, ExitStack() as stack:
        allow_files(3000)
        connections = [stack.enter_context(server.connect()) for _ in range(1000)]
        # Idle ones are in nobody's way.
        assert server.embed("a cat").status == 200
        expected = server.embed("a cat").json
        for connection in connections:
            connection.sendall(GOOD)
        for connection in connections:
            assert read_answer(connection).json == expected
        # And once more on the same ones, each in two parts.
        for connection in connections:
            connection.sendall(GOOD[:40])
        for connection in connections:
            connection.sendall(GOOD[40:])
        assert all(read_answer(connection).status == 200 for connection in connections)


def test_too_many_connections_are_told_so(sample: Path) -> None:
    with running(sample, "--max-connections", "3") as server, ExitStack() as stack:
        held = [stack.enter_context(server.connect()) for _ in range(3)]
        for connection in held:
            connection.sendall(GOOD)
            assert read_answer(connection).status == 200
        refused = server.ask("/health")
        assert refused.status == 503
        assert refused.headers["retry-after"] == "1"
        held[0].close()
        while server.ask("/health").status != 200:
            time.sleep(0.01)


def allow_files(number: int) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < number:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(number, hard), hard))


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example", "x"]
)
@pytest.mark.parametrize("path", ["/v1/embeddings", "/health", "/info"])
def test_a_name_that_a_stranger_let_lead_here_is_refused(server: Running, host: str, path: str) -> None:
    """DNS rebinding: the page of evil.example asks evil.example, whose address has become this machine's."""
    body = {"input": "a cat"} if path == "/v1/embeddings" else None
    answer = server.ask(path, body, host=host)
    assert answer.status == 421
    assert "--allow-host" in answer.json["error"]["message"]


@pytest.mark.parametrize(
    "host", ["localhost", "LocalHost:1", "localhost.", "a.localhost", "127.0.0.1:8080", "10.0.0.7", "[::1]", "[::1]:80", "box.lan"]
)  # fmt: skip
def test_names_of_its_own_addresses_and_those_that_were_allowed_are_taken(named: Running, host: str) -> None:
    assert named.ask("/v1/embeddings", {"input": "a cat"}, host=host).status == 200


@pytest.fixture(scope="module")
def named(sample: Path) -> Iterator[Running]:
    with running(sample, "--allow-host", "Box.lan", "--allow-host", "other.lan") as made:
        yield made


def test_who_knows_the_token_may_call_it_anything(sample: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret")
    (tmp_path / "token").chmod(0o600)
    with running(sample, "--token-file", str(tmp_path / "token")) as server:
        assert server.ask("/info", host="any.example", authorization="Bearer s3cret").status == 200
        assert server.ask("/info", host="any.example").status == 401


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain;application/json", ""]
)  # fmt: skip
def test_what_a_page_may_send_unasked_is_refused(server: Running, kind: str) -> None:
    """Browsers ask first (CORS) before a page of another site sends JSON, which is then not allowed."""
    answer = server.ask("/v1/embeddings", {"input": "a cat"}, content_type=kind)
    assert answer.status == 415
    assert (
        server.ask("/v1/embeddings", {"input": "a"}, content_type="Application/JSON; charset=utf-8").status
        == 200
    )


def resident(process: int) -> int:
    """Bytes."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * 4096


def answered(connections: list[socket.socket], *, at_least: int) -> list[socket.socket]:
    """Those whose server has said something or hung up, once they are as many."""
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            selector.register(connection, selectors.EVENT_READ)
        while len(ready := selector.select()) < at_least:
            time.sleep(0.01)
    return [connection for connection in connections if any(key.fileobj is connection for key, _ in ready)]


@pytest.mark.sample(1)
def test_unfinished_bodies_do_not_fill_the_memory(sample: Path) -> None:
    """400 connections with 4 MB each once took 1.77 GB, and never gave it back."""
    head = GOOD.partition(b"\r\n\r\n")[0].replace(b"Content-Length: 18", b"Content-Length: 1000000")
    assert b"1000000" in head
    with running(sample, "--max-body", "1000000", "--max-bodies", "8000000") as server:
        assert server.embed("a cat").status == 200
        before = resident(server.process.pid)
        refused = 0
        with ExitStack() as stack:
            connections = [stack.enter_context(server.connect()) for _ in range(60)]
            for connection in connections:
                try:
                    connection.sendall(head + b"\r\n\r\n" + bytes(990_000))
                except ConnectionError:
                    refused += 1
            peak = resident(server.process.pid)
            # Bodies are counted as they arrive: the eight that there is room for may be any, and their clients hear nothing.
            for connection in answered(connections, at_least=len(connections) - 8):
                try:
                    answer = read_answer(connection)
                except ConnectionError:
                    continue
                assert (answer.status, answer.headers["retry-after"]) == (503, "1")
                refused += 1
            assert refused
            # Who asks for little is served meanwhile.
            assert server.embed("a cat").status == 200
        assert peak - before < 40_000_000
        large = b" " * 900_000 + b'{"input": "a cat"}'
        # The server meets the ends of the connections one after another, and reads what came before them: for a while it is full.
        served = 0
        while served < 20:
            status = server.ask("/v1/embeddings", large).status
            assert status in {200, 503}
            served += status == 200
