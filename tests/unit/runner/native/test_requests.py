"""Requests as the server reads them beside h11, another reader of HTTP/1.1: what they took for two different things, a proxy in front could be deceived with."""

import random
import subprocess
from pathlib import Path

import h11
import pytest
from tests.fuzz.requests import GOOD, POST, SEEDS
from tests.support.native import compile_apart

from edgepack.runner.native.sources import source_files

pytestmark = pytest.mark.tools("c++")

COUNT, SEED = 20_000, 1
PIECES = (
    *(
        b"\r\n",
        b"\n",
        b"\r",
        b" ",
        b"\t",
        b":",
        b",",
        b";",
        b"\0",
        b"0",
        b"00",
        b"+",
        b"-",
        b"_",
        b"\x0b",
        b"\x80",
    ),
    *(b"Content-Length: 5\r\n", b"Content-Length: 0\r\n", b"Content-Length : 5\r\n", b"content-length:5\r\n"),
    *(
        b"Transfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: identity\r\n",
        b"Transfer-Encoding: x, chunked\r\n",
    ),
    *(
        b" folded\r\n",
        b"Host: b\r\n",
        b"0\r\n\r\n",
        b"5\r\nhello\r\n",
        b'5;x="\r\n"\r\n',
        b"0x5\r\n",
        b"Connection: close\r\n",
    ),
    *(b"Expect: 100-continue\r\n", b"HTTP/1.0", b"HTTP/1.1", b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n"),
)
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
STRICTER = {
    "no request line received",  # empty lines before a request, which RFC 9112 asks servers to pass over
    "Only Transfer-Encoding: chunked is supported",  # in the trailers of a chunked body, which say nothing
}
"""What h11 refuses and the server takes."""
Seen = list[tuple[str, str, str]]


def test_what_is_read_is_what_another_reads(tmp_path: Path) -> None:
    connections = list(mutated(random.Random(SEED)))
    taken = 0
    for connection, (ours, broken) in zip(connections, read_all(connections, tmp_path), strict=True):
        theirs, refused = read_by_h11(connection)
        assert ours == theirs[: len(ours)] or refused in STRICTER, (connection, refused)
        assert broken or refused or len(theirs) <= len(ours), connection
        taken += len(ours)
    # Enough of them were requests.
    assert taken > COUNT / 2


def mutated(chosen: random.Random) -> list[bytes]:
    seeds = (*SEEDS, CHUNKED, CHUNKED + GOOD, GOOD + GOOD)
    made = []
    for _ in range(COUNT):
        content = bytearray(chosen.choice(seeds))
        for _ in range(chosen.randint(0, 3)):
            at = chosen.choice((chosen.randrange(len(content)), chosen.choice(line_starts(content))))
            if chosen.random() < 0.3:
                del content[at : at + chosen.randint(1, 3)]
            else:
                content[at:at] = chosen.choice(PIECES)
            content = content or bytearray(GOOD)
        made.append(bytes(content))
    return made


def line_starts(content: bytes | bytearray) -> list[int]:
    return [0, *(at + 1 for at, byte in enumerate(content[:-1]) if byte == ord("\n"))]


def read_all(connections: list[bytes], folder: Path) -> list[tuple[Seen, bool]]:
    own = Path(__file__).with_name("requests.cc")
    sources = {**source_files("base/"), **source_files("serve/re"), own.name: own.read_text()}
    program = compile_apart(sources, folder / "requests", "-O1")
    lines = "".join(f"{connection.hex()}\n" for connection in connections)
    done = subprocess.run([program], input=lines, capture_output=True, encoding="latin-1", check=True)
    found = []
    for line in done.stdout.split("\n")[:-1]:
        *requests, end = line.split("\t")
        words = [each.split(" ") for each in requests]
        found.append(
            (
                [(method, path, body) for method, path, body, no in words if not no],
                bool(end) or any(each[3] for each in words),
            )
        )
    return found


def read_by_h11(connection: bytes) -> tuple[Seen, str]:
    """Requests, and why it refused what follows."""
    reader = h11.Connection(h11.SERVER)
    seen: Seen = []
    try:
        reader.receive_data(connection)
        while True:
            request = reader.next_event()
            if not isinstance(request, h11.Request):
                return seen, ""
            body = b""
            while isinstance(event := reader.next_event(), h11.Data):
                body += event.data
            if not isinstance(event, h11.EndOfMessage):
                return seen, ""
            method = request.method.decode()
            known = method if method in ("GET", "HEAD", "POST", "OPTIONS") else "OTHER"
            seen.append((known, request.target.decode("latin-1").partition("?")[0], body.hex()))
            reader.send(h11.Response(status_code=204, headers=[]))
            reader.send(h11.EndOfMessage())
            if reader.our_state is not h11.DONE:
                return seen, ""
            reader.start_next_cycle()
    except h11.RemoteProtocolError as error:
        return seen, str(error)
