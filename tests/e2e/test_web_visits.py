"""The page of a web bundle in a real browser: what a visitor does with it, and what visits download beside the bill."""

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.support.browsers import CHROMIUM, in_chromium
from tests.support.command import edgepack
from tests.support.node_tests import run_node_tests

from edgepack.records.bundle import Bundle
from edgepack_web import serve
from edgepack_web.hosts import page_headers
from edgepack_web.npm.node import find_node

pytestmark = [pytest.mark.slow, pytest.mark.e2e, pytest.mark.timeout(1800)]
VISIT = Path(__file__).parents[1] / "js/visit.mjs"


@dataclass
class Host:
    """A folder that is served, and how many bytes of each path were."""

    folder: Path
    validators: bool = True
    url: str = ""
    sent: dict[str, int] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    """Paths of earlier visits."""


class Counting(serve.Handler):
    """What ``edgepack serve-web`` serves with; ``validators`` False: a host that never answers 304."""

    def __init__(self, host: Host, *arguments: object) -> None:
        self.host = host
        super().__init__(host.folder, page_headers(threads=False), *arguments)

    def _answer(self, *, body: bool) -> None:
        self.length = 0
        if not self.host.validators:
            del self.headers["If-None-Match"]
        super()._answer(body=body)
        # Chromium looks for a newer service worker when a later visit lasts long enough: on a busy machine.
        if not (self.headers.get("Service-Worker") and self.path in self.host.known):
            self.host.sent[self.path] = self.host.sent.get(self.path, 0) + self.length

    def send_header(self, keyword: str, value: str) -> None:
        if keyword == "Content-Length":
            self.length = int(value)
        super().send_header(keyword, value)


@contextmanager
def serving(host: Host) -> Iterator[Host]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Counting, host))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    host.url = f"http://127.0.0.1:{server.server_address[1]}/"
    try:
        yield host
    finally:
        server.shutdown()
        server.server_close()


def visit(host: Host, profile: Path) -> dict[str, int]:
    """Bytes by path of one visit in a browser of its own."""
    host.known.update(host.sent)
    host.sent.clear()
    subprocess.run([find_node(), VISIT, str(CHROMIUM), profile, host.url], check=True)
    return dict(host.sent)


@in_chromium
def test_the_page_as_a_visitor_uses_it(web_bundle: Bundle) -> None:
    assert "# fail 0" in run_node_tests("page", BUNDLE=str(web_bundle.directory), CHROMIUM=str(CHROMIUM))


@in_chromium
@pytest.mark.parametrize("encoding", ["brotli", pytest.param("gzip", marks=pytest.mark.slow)])
def test_visits_are_as_the_report_says(
    encoding: str, web_bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = edgepack("report", str(web_bundle.directory), "--json")
    cold, warm = json.loads(done.stdout)["visits"]
    if encoding == "gzip":
        monkeypatch.setattr(serve, "ENCODINGS", {"gzip": ".gz"})
    with serving(Host(web_bundle.directory)) as host:
        first = visit(host, tmp_path / "profile")
        assert sum(first.values()) == cold[encoding], first
        assert len(first) == cold["files"]
        # Nothing has changed, and the host says so without a body.
        again = visit(host, tmp_path / "profile")
        assert (len(again), sum(again.values())) == (warm["files"], 0), again


@in_chromium
@pytest.mark.slow
def test_a_later_visit_costs_what_is_asked_for_again(web_bundle: Bundle, tmp_path: Path) -> None:
    done = edgepack("report", str(web_bundle.directory), "--json")
    warm = json.loads(done.stdout)["visits"][1]
    with serving(Host(web_bundle.directory, validators=False)) as host:
        visit(host, tmp_path / "profile")
        again = visit(host, tmp_path / "profile")
    assert sum(again.values()) == warm["brotli"], again
