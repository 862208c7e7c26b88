"""A web bundle on the loopback, as a good host would serve it: types, caching, compressed copies, isolation where there are threads."""

import http.server
import json
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path
from urllib.parse import unquote, urlsplit

from edgepack.api import BundleError, UsageError
from edgepack_web.hosts import ASK_AGAIN, ASSETS, FOR_EVER, has_threads, page_headers

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".mts": "text/plain; charset=utf-8",
    ".json": "application/json",
    ".wasm": "application/wasm",
    ".bin": "application/octet-stream",
    ".txt": "text/plain; charset=utf-8",
}
ENCODINGS = {"br": ".br", "gzip": ".gz"}
"""What servers send, the smaller first."""


class Handler(http.server.BaseHTTPRequestHandler):
    """GET and HEAD of the files below a folder; nothing else, and nothing outside of it. ``page`` is sent with all but assets."""

    protocol_version = "HTTP/1.1"
    timeout = 60

    def __init__(self, root: Path, page: Mapping[str, str], *arguments: object) -> None:
        self.root = root
        self.page = page
        super().__init__(*arguments)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def handle(self) -> None:
        """A browser that goes away in the middle is nothing to report."""
        with suppress(ConnectionError):
            super().handle()

    def log_message(self, format: str, *arguments: object) -> None:
        """No line a request."""

    def _answer(self, *, body: bool) -> None:
        file = self._file()
        if file is None:
            self._headers(HTTPStatus.NOT_FOUND, {"Content-Length": "0"})
            return
        sent, encoding = self._chosen(file)
        tag = f'"{sent.stat().st_mtime_ns:x}-{sent.stat().st_size:x}"'
        asset = file.relative_to(self.root).parts[0] == "assets"
        headers = {
            **(ASSETS if asset else self.page),
            "Content-Type": TYPES.get(file.suffix, "application/octet-stream"),
            "Cache-Control": FOR_EVER if asset else ASK_AGAIN,
            "ETag": tag,
            "Vary": "Accept-Encoding",
            **({"Content-Encoding": encoding} if encoding else {}),
        }
        if self.headers.get("If-None-Match") == tag:
            self._headers(HTTPStatus.NOT_MODIFIED, headers)
            return
        self._headers(HTTPStatus.OK, headers | {"Content-Length": str(sent.stat().st_size)})
        if body:
            with sent.open("rb") as stream:
                shutil.copyfileobj(stream, self.wfile)

    def _headers(self, status: HTTPStatus, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in ({"X-Content-Type-Options": "nosniff"} | headers).items():
            self.send_header(name, value)
        self.end_headers()

    def _file(self) -> Path | None:
        path = unquote(urlsplit(self.path).path).lstrip("/")
        if "\0" in path:
            return None
        return self._inside(self.root / (path or "index.html"))

    def _inside(self, path: Path) -> Path | None:
        """The file at a path, where links do not lead it out of the folder."""
        try:
            found = path.resolve()
            return found if found.is_relative_to(self.root) and found.is_file() else None
        except (OSError, RuntimeError):
            return None  # a name that is too long, or links that go in circles

    def _chosen(self, file: Path) -> tuple[Path, str]:
        """The smallest form of a file that the browser takes, and its encoding."""
        offered = [part.partition(";") for part in self.headers.get("Accept-Encoding", "").split(",")]
        accepted = {name.strip() for name, _, weight in offered if not re.fullmatch(r"\s*q=0(\.0*)?", weight)}
        for encoding, suffix in ENCODINGS.items():
            copy = self._inside(file.with_name(file.name + suffix))
            if encoding in accepted and copy is not None:
                return copy, encoding
        return file, ""


def open_server(bundle: Path, *, host: str, port: int) -> http.server.ThreadingHTTPServer:
    """A server of the bundle's folder that listens; port 0 is any free one.

    Raises ``BundleError`` for a folder that is no web bundle, ``UsageError`` for a port that is taken.
    """
    try:
        threads = has_threads(json.loads((bundle / "bundle.json").read_bytes())["runtimes"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise BundleError(
            f"{bundle} is not a web bundle: bundle.json is not there, or not that of one",
            hint="edgepack bundle --target web-wasm makes one",
        ) from error
    handler: Callable[..., Handler] = partial(Handler, bundle.resolve(), page_headers(threads=threads))
    try:
        return http.server.ThreadingHTTPServer((host, port), handler)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {host}:{port}: {error.strerror}", hint="--port 0 takes any free port"
        ) from error
