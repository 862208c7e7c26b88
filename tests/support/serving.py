"""An HTTP server on the loopback that behaves, or misbehaves, as a test wants it to."""

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes = b""


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What is sent back; with ``cut``, the connection ends after that many bytes of the body."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int | None = None


Behaviour = Callable[[Asked], Reply]


@dataclass(kw_only=True)
class Server:
    """Answers each path by the behaviours given for it, one after the other; the last one stays."""

    base: str
    asked: list[Asked] = field(default_factory=list)
    behaviours: dict[str, list[Behaviour]] = field(default_factory=dict)

    def on(self, path: str, *behaviours: Behaviour) -> str:
        """Say how a path answers, and get its address."""
        self.behaviours[path] = list(behaviours)
        return self.base + path

    def reply_to(self, asked: Asked) -> Reply:
        self.asked.append(asked)
        waiting = self.behaviours.get(asked.path.partition("?")[0])
        if not waiting:
            return Reply(status=404)
        return (waiting.pop(0) if len(waiting) > 1 else waiting[0])(asked)

    def paths(self, method: str = "GET") -> list[str]:
        """What has been asked for, in order."""
        return [asked.path for asked in self.asked if asked.method == method]


def file(
    content: bytes, *, ranges: bool = True, etag: str | None = None, cut: int | None = None
) -> Behaviour:
    """A file; its server knows ranges or not, and breaks off after ``cut`` bytes of each answer."""

    def behave(asked: Asked) -> Reply:
        headers = {"ETag": etag} if etag else {}
        wanted = re.fullmatch(r"bytes=(\d+)-", asked.headers.get("range", ""))
        stale = etag is not None and asked.headers.get("if-range", etag) != etag
        if not ranges or wanted is None or stale:
            return Reply(body=content, headers=headers, cut=cut)
        start = int(wanted.group(1))
        if start >= len(content):
            return Reply(status=416, headers={"Content-Range": f"bytes */{len(content)}"})
        headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        return Reply(status=206, body=content[start:], headers=headers, cut=cut)

    return behave


def status(code: int, **headers: str) -> Behaviour:
    """An answer without content; ``retry_after="3"`` becomes the header Retry-After."""
    named = {name.replace("_", "-").title(): value for name, value in headers.items()}
    return lambda asked: Reply(status=code, headers=named)


def page(content: str | bytes, kind: str = "text/html") -> Behaviour:
    """A document."""
    body = content.encode() if isinstance(content, str) else content
    return lambda asked: Reply(body=body, headers={"Content-Type": kind})


@contextmanager
def serving() -> Iterator[Server]:
    """A server that runs inside the block."""
    with listening(lambda asked: server.reply_to(asked)) as host:
        server = Server(base=f"http://{host}")
        yield server


@contextmanager
def listening(
    answer: Behaviour, *, ends_after: Callable[[Asked], int | None] = lambda _: None
) -> Iterator[str]:
    """Host and port of a server that runs inside the block.

    ``ends_after`` says of a request whose body has not come yet after how many of its bytes the connection ends; it is
    answered all the same, and nobody hears it.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(method=self.command, path=self.path, headers=headers)
            ends = ends_after(asked)
            body = self.rfile.read(int(headers.get("content-length", 0)) if ends is None else ends)
            reply = answer(replace(asked, body=body))
            if ends is not None:
                self.close_connection = True
                return
            self.send_response(reply.status)
            for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body if reply.cut is None else reply.body[: reply.cut])
            if reply.cut is not None:
                self.close_connection = True

        do_HEAD = do_POST = do_PATCH = do_PUT = do_GET  # noqa: N815 - the names that http.server looks for

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """A client that goes away early is none of our business."""

    running = Quiet(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{running.server_address[1]}"
    finally:
        running.shutdown()
        running.server_close()
        thread.join()
