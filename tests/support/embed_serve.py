"""The server of the sample bundle, as a process of its own, and bare connections to it."""

import json
import re
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.sample_program import command_of


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, kw_only=True)
class Running:
    """A server that runs."""

    process: subprocess.Popen[bytes]
    port: int = 0
    path: str = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def connect(self) -> socket.socket:
        """A connection whose waits end."""
        made = socket.socket(socket.AF_UNIX if self.path else socket.AF_INET)
        made.settimeout(30)
        try:
            made.connect(self.path or ("127.0.0.1", self.port))
        except OSError:
            made.close()
            raise
        return made

    def ask(self, path: str, body: Any = None, **headers: str) -> Answer:
        """One request on a connection of its own."""
        with self.connect() as connection:
            connection.sendall(request(path, body, **headers))
            return read_answer(connection)

    def embed(self, input: Any, **more: Any) -> Answer:
        return self.ask("/v1/embeddings", {"input": input, **more})


def request(path: str, body: Any = None, **headers: str) -> bytes:
    """The bytes of a request; ``retry_after="3"`` becomes the header Retry-After."""
    content = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {"Host": "localhost", "Content-Type": "application/json", "Content-Length": str(len(content))}
    named |= {name.replace("_", "-").title(): value for name, value in headers.items()}
    lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\n{lines}\r\n".encode() + content


def read_answer(connection: socket.socket) -> Answer:
    """The next answer on a connection; ``ConnectionError`` where it ends before."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += receive(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        body += receive(connection)
    return Answer(status=int(first.split(" ")[1]), headers=headers, body=body)


def receive(connection: socket.socket) -> bytes:
    if not (data := connection.recv(1 << 16)):
        raise ConnectionError("the server closed the connection")
    return data


@contextmanager
def running(
    bundle: Path,
    *options: str,
    environment: Mapping[str, str] | None = None,
    before: Sequence[str | Path] = (),
) -> Iterator[Running]:
    """A server on a free port, or on the unix socket that the options name; ``before``: what its command line begins with."""
    where = () if "--unix" in options else ("--port", "0")
    command = [*before, *command_of(bundle), "serve", *where, *options]
    # What runs the tests in the background may have had them ignore an interrupt.
    heeding = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, stderr=subprocess.PIPE, preexec_fn=heeding, env=environment) as process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline().decode()
            found = re.fullmatch(r"listening on (?:http://\S+:(\d+)|unix:(\S+))\n", said)
            assert found, said
            yield Running(process=process, port=int(found[1] or 0), path=found[2] or "")
        finally:
            process.kill()
