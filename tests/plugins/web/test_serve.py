"""`edgepack serve-web`: what a browser is told about each file."""

import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.command import edgepack

from edgepack.errors import BundleError, UsageError
from edgepack_web.serve import open_server

pytestmark = pytest.mark.tools("python")


@pytest.fixture(params=[False])
def served(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[http.client.HTTPConnection]:
    (tmp_path / "secret").write_text("outside")
    bundle = tmp_path / "bundle"
    (bundle / "assets").mkdir(parents=True)
    files = {
        "index.html": b"<p>hello",
        "bundle.json": json.dumps({"runtimes": [{"threads": request.param}]}).encode(),
        "embed.mjs": b"export {}",
        "assets/ort.0123.wasm": b"plain",
        "assets/ort.0123.wasm.br": b"brotli",
        "assets/ort.0123.wasm.gz": b"gzip",
    }
    for name, content in files.items():
        (bundle / name).write_bytes(content)
    with open_server(bundle, host="127.0.0.1", port=0) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=10)
        yield connection
        connection.close()
        server.shutdown()
        thread.join()


def ask(
    connection: http.client.HTTPConnection, path: str, method: str = "GET", **headers: str
) -> tuple[http.client.HTTPResponse, bytes]:
    connection.request(method, path, headers=headers)
    response = connection.getresponse()
    return response, response.read()


@pytest.mark.parametrize("served", [False, True], indirect=True, ids=["one thread", "threads"])
def test_a_page_is_isolated_where_it_has_threads(
    served: http.client.HTTPConnection, request: pytest.FixtureRequest
) -> None:
    """Its worker, which lies among the assets, can be that of an isolated page of somebody else."""
    page, asset = ask(served, "/")[0].headers, ask(served, "/assets/ort.0123.wasm")[0].headers
    threads = request.node.callspec.params["served"]
    assert page["Cross-Origin-Opener-Policy"] == ("same-origin" if threads else None)
    assert page["Cross-Origin-Embedder-Policy"] == ("require-corp" if threads else None)
    assert asset["Cross-Origin-Embedder-Policy"] == "require-corp"
    assert page["Cross-Origin-Resource-Policy"] == asset["Cross-Origin-Resource-Policy"] == "cross-origin"


def test_a_page_is_asked_for_again(served: http.client.HTTPConnection) -> None:
    response, body = ask(served, "/")
    assert (response.status, body) == (200, b"<p>hello")
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"
    assert response.headers["Cache-Control"] == "no-cache"
    again, _ = ask(served, "/", **{"If-None-Match": response.headers["ETag"]})
    assert again.status == 304


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("accepted", "body", "encoding"),
    [("gzip, deflate, br", b"brotli", "br"), ("gzip;q=0.5", b"gzip", "gzip"), ("identity", b"plain", None)],
)
def test_assets_are_kept_for_ever_in_the_smallest_form(
    served: http.client.HTTPConnection, accepted: str, body: bytes, encoding: str | None
) -> None:
    response, found = ask(served, "/assets/ort.0123.wasm", **{"Accept-Encoding": accepted})
    assert found == body
    assert response.headers["Content-Encoding"] == encoding
    assert response.headers["Content-Type"] == "application/wasm"
    assert "immutable" in response.headers["Cache-Control"]
    assert response.headers["Vary"] == "Accept-Encoding"


def test_head_sends_no_body(served: http.client.HTTPConnection) -> None:
    response, body = ask(served, "/embed.mjs", "HEAD")
    assert (response.status, body, response.headers["Content-Length"]) == (200, b"", "9")


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "path", ["/../secret", "/%2e%2e/secret", "/assets", "/nothing", "/a%00b", "//etc/passwd"]
)
def test_nothing_else_is_there(served: http.client.HTTPConnection, path: str) -> None:
    response, body = ask(served, path)
    assert (response.status, body) == (404, b"")


@pytest.mark.parametrize("encoding", ["br", "gzip"])
def test_a_compressed_copy_that_leads_elsewhere_is_not_sent(
    served: http.client.HTTPConnection, tmp_path: Path, encoding: str
) -> None:
    """``index.html.br`` was once a link to /etc/passwd."""
    for suffix in (".br", ".gz"):
        (tmp_path / "bundle" / f"index.html{suffix}").symlink_to(tmp_path / "secret")
    response, body = ask(served, "/", **{"Accept-Encoding": encoding})
    assert (response.status, body, response.headers["Content-Encoding"]) == (200, b"<p>hello", None)


@pytest.mark.sample(2)
@pytest.mark.parametrize("path", ["/" + "a" * 5000, "/round", "/" + "a/" * 4000])
def test_a_name_that_cannot_be_is_not_there(
    served: http.client.HTTPConnection, tmp_path: Path, path: str
) -> None:
    (tmp_path / "bundle" / "round").symlink_to("round")
    response, body = ask(served, path)
    assert (response.status, body) == (404, b"")


@pytest.mark.parametrize("text", ["", "{}", "[1]", "[" * 100_000, '{"runtimes": [1]}'])
def test_a_file_that_is_not_that_of_a_web_bundle(tmp_path: Path, text: str) -> None:
    (tmp_path / "bundle.json").write_text(text)
    with pytest.raises(BundleError, match="not a web bundle"):
        open_server(tmp_path, host="127.0.0.1", port=0)


def test_a_folder_that_is_no_web_bundle(tmp_path: Path) -> None:
    done = edgepack("serve-web", str(tmp_path))
    assert done.returncode == BundleError.exit_code
    assert "not a web bundle" in done.stderr
    assert "hint: edgepack bundle --target web-wasm" in done.stderr


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    (tmp_path / "bundle.json").write_text('{"runtimes": []}')
    with (
        open_server(tmp_path, host="127.0.0.1", port=0) as server,
        pytest.raises(UsageError, match="cannot listen"),
    ):
        open_server(tmp_path, host="127.0.0.1", port=server.server_address[1])
