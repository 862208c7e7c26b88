"""Requests of strangers to ``embed serve``, without a socket: answered, and never with 500.

``python -m tests.fuzz.requests SECONDS`` goes through both ways of changing them, for as many seconds each.
"""

import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import h11

from edgepack.runner.freeze.sample_bundle import write_sample
from edgepack.runner.frozen.base.bundle import Bundle
from edgepack.runner.frozen.model.embedder import Embedder
from edgepack.runner.frozen.serve.options import parse
from edgepack.runner.frozen.serve.service import Service
from tests.fuzz.readers import Change, mutated
from tests.fuzz.rounds import for_seconds

LONGEST = 60.0
"""Seconds that a connection may take whose client has said all: none takes one, but machines are busy."""
QUESTIONS: tuple[Mapping[str, Any], ...] = (
    {"input": "a cat", "model": "sample"},
    {"input": ["a cat", "the mat \U0001f642", ""], "encoding_format": "base64", "dimensions": 4},
    {"input": [[4, 5], [6]], "encoding_format": "float", "user": "me"},
    {"input": [4, 5, 6], "prefix": "query", "dimensions": 8},
)
HEAD = b"%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
POST = HEAD % b"POST /v1/embeddings"


def with_body(body: bytes) -> bytes:
    return POST + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


BODIES = [json.dumps(question).encode() for question in QUESTIONS]
GOOD = with_body(BODIES[0])
SEEDS = (
    *map(with_body, BODIES),
    POST + b"Transfer-Encoding: chunked\r\n\r\n10;a=b\r\n" + BODIES[0][:16] + b"\r\n0\r\nTrailer: x\r\n\r\n",
    *(HEAD % line + b"\r\n" for line in (b"GET /info", b"HEAD /health", b"GET /metrics?x=%ff", b"OPTIONS *")),
    GOOD + HEAD % b"GET /v1/models" + b"Connection: close\r\n\r\n",
    POST + b"Expect: 100-continue\r\nContent-Length: 17\r\n\r\n" + b'{"input": "cats"}',
)


def any_bytes(seed: bytes, chance: random.Random) -> bytes:
    return mutated(seed, chance)


def bad_body(seed: bytes, chance: random.Random) -> bytes:
    """A sound head with a body that is not."""
    return with_body(mutated(chance.choice(BODIES), chance))


CHANGES: tuple[Change, ...] = (any_bytes, bad_body)


class Client:
    """The writing end of a connection: it keeps what is sent. Of a stream's writer, and of its transport, what is used."""

    def __init__(self) -> None:
        self.sent = bytearray()
        self.transport = self
        self._closed = False

    def write(self, data: bytes) -> None:
        self.sent += data

    async def drain(self) -> None:
        pass

    def can_write_eof(self) -> bool:
        return False

    def is_closing(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True

    abort = close

    async def wait_closed(self) -> None:
        pass


async def answers(service: Service, sent: bytes, pieces: int = 1) -> list[int]:
    """The status of each answer to what a client sends, in so many pieces, before it hangs up. Raises what goes wrong."""
    reader, client = asyncio.StreamReader(), Client()
    size = len(sent) // pieces + 1
    serving = asyncio.ensure_future(service.connected(reader, cast("asyncio.StreamWriter", client)))
    for at in range(0, len(sent), size):
        reader.feed_data(sent[at : at + size])
        await asyncio.sleep(0)
    reader.feed_eof()
    await asyncio.wait_for(serving, LONGEST)
    return statuses(bytes(client.sent), sent)


def statuses(said: bytes, asked: bytes) -> list[int]:
    """Of answers as an independent client would read them, as far as it can know which has a body."""
    found = []
    while said:
        http = h11.Connection(h11.CLIENT)
        http.send(h11.Request(method="GET", target="/", headers=[("Host", "localhost")]))
        http.send(h11.EndOfMessage())
        http.receive_data(said)
        event = http.next_event()
        while isinstance(event, h11.InformationalResponse):
            event = http.next_event()
        assert isinstance(event, h11.Response), f"{event!r} answers {asked!r}"
        found.append(event.status_code)
        if b"HEAD" in asked:
            break
        while not isinstance(event := http.next_event(), h11.EndOfMessage):
            assert isinstance(event, h11.Data), f"{event!r} answers {asked!r}"
        said = http.trailing_data[0]
    return found


async def try_requests(service: Service, change: Change, *, rounds: Iterable[object], number: int) -> int:
    """How many were tried. Raises ``AssertionError`` with one that was answered by 500, or brought the server down."""
    chance, runs = random.Random(number), 0
    working = asyncio.ensure_future(service.batcher.run())
    for _ in rounds:
        sent = change(chance.choice(SEEDS), chance) if runs else GOOD
        try:
            found = await answers(service, sent, pieces=chance.choice((1, 1, 2, 7)))
        except Exception as error:
            raise AssertionError(f"{error!r}; input {runs} of seed {number}: {sent!r}") from error
        assert 500 not in found, f"input {runs} of seed {number}: {sent!r}"
        if runs % 100 == 0:
            assert await answers(service, GOOD) == [200], f"after input {runs} of seed {number}"
        runs += 1
    await service.finish(0)
    working.cancel()
    return runs


def fuzz(folder: Path, change: Change, *, rounds: Iterable[object], number: int) -> int:
    """The same, with the server of a small bundle that is written into an empty folder."""
    write_sample(folder)
    bundle = Bundle(str(folder))
    embedder = Embedder(bundle, threads=1)
    try:
        service = Service(bundle, embedder, parse(["--max-body", "5000"], "embed serve"))
        return asyncio.run(try_requests(service, change, rounds=rounds, number=number))
    finally:
        embedder.finish()


def main() -> None:
    number = int(time.time())
    for change in CHANGES:
        with tempfile.TemporaryDirectory() as folder:
            runs = fuzz(Path(folder), change, rounds=for_seconds(float(sys.argv[1])), number=number)
            said = f"requests, {change.__name__}: {runs:,} inputs, seed {number}: nothing found"
            print(said, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
