"""The one download, against a server of ours."""

from __future__ import annotations

import gzip
import hashlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
from tests.support.serving import Asked, Behaviour, Reply, Server, file, page, serving, status

from edgepack.errors import (
    DiskFullError,
    DownloadError,
    HashMismatchError,
    OutputError,
    UsageError,
)
from edgepack.fetch import http
from edgepack.fetch.download import download, fetch_file, file_name
from edgepack.fetch.http import Policy
from edgepack.plugins.context import HostContext

CONTENT = bytes(range(256)) * 40
DIGEST = hashlib.sha256(CONTENT).hexdigest()
QUICK = Policy(attempts=3, connect_timeout=5, read_timeout=5)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that would have been waited."""
    waited: list[float] = []
    monkeypatch.setattr(http, "pause", waited.append)
    return waited


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


@dataclass(kw_only=True)
class Bar:
    """What a progress bar was told."""

    opened: list[tuple[str, int | None, str]] = field(default_factory=list)
    done: int = 0

    def advance(self, amount: int = 1) -> None:
        self.done += amount

    @contextmanager
    def open(self, label: str, total: int | None = None, *, unit: str = "") -> Iterator[Bar]:
        self.opened.append((label, total, unit))
        yield self


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_arrives_whole_and_alone_with_progress(server: Server, tmp_path: Path) -> None:
    bar = Bar()
    url = server.on("/a/model.bin", file(CONTENT))
    path = download(url, tmp_path / "deep" / "model.bin", sha256=DIGEST.upper(), progress=bar.open)
    assert path.read_bytes() == CONTENT
    assert left_in(path.parent) == ["model.bin"]
    assert bar.opened == [("download model.bin", len(CONTENT), "B")]
    assert bar.done == len(CONTENT)


def test_a_cut_connection_is_continued_where_it_broke(server: Server, tmp_path: Path) -> None:
    bar = Bar()
    url = server.on("/f", file(CONTENT, etag='"1"', cut=4000), file(CONTENT, etag='"1"'))
    path = download(url, tmp_path / "f", progress=bar.open, policy=QUICK)
    assert path.read_bytes() == CONTENT
    assert [asked.headers.get("range") for asked in server.asked] == [None, "bytes=4000-"]
    assert bar.done == len(CONTENT), "nothing is counted twice"


def test_a_file_that_may_have_changed_is_begun_anew(server: Server, tmp_path: Path) -> None:
    """No digest, no ETag, no date: nothing says that both halves would be of one file."""
    url = server.on("/f", file(CONTENT, cut=4000), file(CONTENT[::-1]))
    assert download(url, tmp_path / "f", policy=QUICK).read_bytes() == CONTENT[::-1]


def test_the_date_of_a_file_is_enough_to_continue(server: Server, tmp_path: Path) -> None:
    def dated(behaviour: Behaviour) -> Behaviour:
        def behave(asked: Asked) -> Reply:
            reply = behaviour(asked)
            return replace(reply, headers={**reply.headers, "Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"})

        return behave

    url = server.on("/f", dated(file(CONTENT, cut=4000)), dated(file(CONTENT)))
    assert download(url, tmp_path / "f", policy=QUICK).read_bytes() == CONTENT
    assert server.asked[1].headers["if-range"] == "Mon, 01 Jan 2024 00:00:00 GMT"
    assert server.asked[1].headers["range"] == "bytes=4000-"


def test_a_server_without_ranges_is_asked_for_all_of_it_again(server: Server, tmp_path: Path) -> None:
    bar = Bar()
    url = server.on("/f", file(CONTENT, ranges=False, cut=4000), file(CONTENT, ranges=False))
    path = download(url, tmp_path / "f", progress=bar.open, policy=QUICK)
    assert path.read_bytes() == CONTENT
    assert bar.done == len(CONTENT)


def test_a_file_that_changes_in_the_middle_is_never_mixed(server: Server, tmp_path: Path) -> None:
    newer = CONTENT[::-1]
    url = server.on("/f", file(CONTENT, etag='"old"', cut=4000), file(newer, etag='"new"'))
    assert download(url, tmp_path / "f", policy=QUICK).read_bytes() == newer


def test_a_server_that_ignores_if_range_is_found_out_by_the_etag(server: Server, tmp_path: Path) -> None:
    newer = CONTENT[::-1]

    def careless(asked: Asked) -> Reply:
        return file(newer, etag='"new"')(replace(asked, headers={**asked.headers, "if-range": '"new"'}))

    url = server.on("/f", file(CONTENT, etag='"old"', cut=4000), careless)
    assert download(url, tmp_path / "f", policy=QUICK).read_bytes() == newer


def test_an_interrupted_program_goes_on_later(server: Server, tmp_path: Path) -> None:
    class Impatient(Bar):
        def advance(self, amount: int = 1) -> None:
            raise KeyboardInterrupt

    url = server.on("/f", file(CONTENT, cut=4000), file(CONTENT))
    with pytest.raises(KeyboardInterrupt):
        download(url, tmp_path / "f", sha256=DIGEST, progress=Impatient().open)
    assert left_in(tmp_path) == ["f.part"]
    there = (tmp_path / "f.part").stat().st_size
    assert there > 0
    download(url, tmp_path / "f", sha256=DIGEST)
    assert server.asked[-1].headers["range"] == f"bytes={there}-"
    assert left_in(tmp_path) == ["f"]


def test_a_partial_file_of_unknown_origin_is_not_built_upon(server: Server, tmp_path: Path) -> None:
    (tmp_path / "f.part").write_bytes(b"something else")
    url = server.on("/f", file(CONTENT))
    assert download(url, tmp_path / "f").read_bytes() == CONTENT
    assert "range" not in server.asked[0].headers


def test_a_partial_file_that_does_not_fit_costs_one_more_try(server: Server, tmp_path: Path) -> None:
    (tmp_path / "f.part").write_bytes(b"something else")
    url = server.on("/f", file(CONTENT))
    assert download(url, tmp_path / "f", sha256=DIGEST).read_bytes() == CONTENT
    assert [asked.headers.get("range") for asked in server.asked] == ["bytes=14-", None]


@pytest.mark.parametrize("surplus", [b"", b"and more"])
def test_a_partial_file_that_is_complete_or_too_long(server: Server, tmp_path: Path, surplus: bytes) -> None:
    (tmp_path / "f.part").write_bytes(CONTENT + surplus)
    url = server.on("/f", file(CONTENT))
    assert download(url, tmp_path / "f", sha256=DIGEST, policy=QUICK).read_bytes() == CONTENT
    assert left_in(tmp_path) == ["f"]


def test_many_short_connections_make_a_long_file(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgepack.fetch.download.MIN_GAIN", 500)
    url = server.on("/f", file(CONTENT, etag='"1"', cut=1000))
    assert download(url, tmp_path / "f", policy=QUICK).read_bytes() == CONTENT
    assert len(server.asked) > QUICK.attempts


def test_a_server_that_never_gets_further_is_given_up(server: Server, tmp_path: Path) -> None:
    url = server.on("/f", file(CONTENT, ranges=False, cut=1000))
    with pytest.raises(DownloadError, match="/f"):
        download(url, tmp_path / "f", policy=QUICK)
    assert len(server.asked) == QUICK.attempts
    assert left_in(tmp_path) == ["f.part"]


def test_a_busy_server_is_asked_again(server: Server, tmp_path: Path, pauses: list[float]) -> None:
    url = server.on("/f", status(503), status(500), file(CONTENT))
    assert download(url, tmp_path / "f", policy=QUICK).read_bytes() == CONTENT
    assert pauses == [0.5, 1.0]


def test_retry_after_in_seconds_is_honoured(server: Server, tmp_path: Path, pauses: list[float]) -> None:
    url = server.on("/f", status(429, retry_after="7"), file(CONTENT))
    download(url, tmp_path / "f", policy=QUICK)
    assert pauses == [7.0]


def test_retry_after_as_a_date_is_honoured(server: Server, tmp_path: Path, pauses: list[float]) -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    url = server.on("/f", status(503, retry_after=later), file(CONTENT))
    download(url, tmp_path / "f", policy=QUICK)
    assert len(pauses) == 1
    assert 30 < pauses[0] <= 60


def test_a_server_that_wants_an_hour_is_left_to_the_user(
    server: Server, tmp_path: Path, pauses: list[float]
) -> None:
    url = server.on("/f", status(429, retry_after="3600"))
    with pytest.raises(DownloadError, match="3600 s"):
        download(url, tmp_path / "f")
    assert pauses == []


def test_giving_up_says_what_the_server_says(server: Server, tmp_path: Path, pauses: list[float]) -> None:
    url = server.on("/f", status(503))
    with pytest.raises(DownloadError, match="503 Service Unavailable") as caught:
        download(url, tmp_path / "f", policy=QUICK)
    assert http.is_passing(caught.value)
    assert len(pauses) == QUICK.attempts - 1


def test_a_wrong_hash_names_both_and_leaves_nothing(server: Server, tmp_path: Path) -> None:
    url = server.on("/f", file(b"another file"))
    with pytest.raises(HashMismatchError) as caught:
        download(url, tmp_path / "f", sha256=DIGEST)
    assert DIGEST in caught.value.message
    assert hashlib.sha256(b"another file").hexdigest() in caught.value.message
    assert left_in(tmp_path) == []


def test_a_wrong_size_is_an_error_when_there_is_no_hash(server: Server, tmp_path: Path) -> None:
    url = server.on("/f", file(CONTENT))
    with pytest.raises(DownloadError, match="10240 bytes, expected 10241"):
        download(url, tmp_path / "f", size=10241)
    assert left_in(tmp_path) == []


@pytest.mark.parametrize(("code", "hint"), [(401, "may read"), (403, "may read"), (404, "name")])
def test_refusals_are_final_and_say_what_to_do(
    server: Server, tmp_path: Path, code: int, hint: str, pauses: list[float]
) -> None:
    url = server.on("/f", status(code))
    with pytest.raises(DownloadError, match=f"the server says {code}") as caught:
        download(url, tmp_path / "f")
    assert hint in (caught.value.hint or "")
    assert not http.is_passing(caught.value)
    assert pauses == []
    assert left_in(tmp_path) == []


def test_the_token_does_not_follow_a_redirect_to_another_host(server: Server, tmp_path: Path) -> None:
    with serving() as elsewhere:
        target = elsewhere.on("/blob", file(CONTENT))
        near = server.on("/near", status(302, location=target))
        url = server.on("/f", status(302, location=near))
        download(url, tmp_path / "f", headers={"Authorization": "Bearer secret"})
        assert [asked.headers.get("authorization") for asked in server.asked] == ["Bearer secret"] * 2
        assert "authorization" not in elsewhere.asked[0].headers
    assert (tmp_path / "f").read_bytes() == CONTENT


@pytest.mark.parametrize("coding", ["identity", "gzip", "zstd"])
def test_the_body_of_a_redirect_is_not_read(server: Server, tmp_path: Path, coding: str) -> None:
    """One without an end took 8 GB within half a minute, as did one that unpacks to a thousand times its size."""
    headers = {"Location": server.on("/blob", file(CONTENT)), "Content-Encoding": coding}
    cut_and_damaged = Reply(status=302, headers=headers, body=CONTENT, cut=100)
    download(server.on("/f", lambda asked: cut_and_damaged), tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == CONTENT
    assert len(server.asked) == 2


@pytest.mark.parametrize("code", [404, 503])
def test_a_refusal_behind_a_redirect_names_who_refused(
    server: Server, tmp_path: Path, code: int, pauses: list[float]
) -> None:
    with serving() as elsewhere:
        url = server.on("/f", status(302, location=elsewhere.on("/blob", status(code))))
        host = elsewhere.base.removeprefix("http://")
        with pytest.raises(DownloadError, match=f"{host}, where it leads, says {code}") as caught:
            download(url, tmp_path / "f")
        assert url in caught.value.message


def test_a_redirect_to_plain_http_elsewhere_is_not_followed(server: Server, tmp_path: Path) -> None:
    url = server.on("/f", status(302, location="http://device.invalid/f"))
    with pytest.raises(DownloadError, match="not an https URL"):
        download(url, tmp_path / "f")


@pytest.mark.parametrize("url", ["http://device.invalid/f", "ftp://device.invalid/f", "file:///etc/passwd"])
def test_only_https_leaves_this_machine(url: str) -> None:
    with pytest.raises(UsageError, match="not an https URL"):
        http.require_safe(url)


@pytest.mark.parametrize("url", ["https://device.invalid/f", "http://localhost/f", "http://[::1]:8/f"])
def test_https_and_this_machine_are_allowed(url: str) -> None:
    http.require_safe(url)


def test_the_systems_proxy_is_used(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.on("http://127.0.0.1:9/f", file(CONTENT))
    monkeypatch.setenv("HTTP_PROXY", server.base)
    assert download("http://127.0.0.1:9/f", tmp_path / "f", policy=QUICK).read_bytes() == CONTENT


def test_a_proxy_that_cannot_be_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "gopher://proxy:70")
    with pytest.raises(DownloadError, match="network settings") as caught:
        download("https://device.invalid/f", tmp_path / "f")
    assert "HTTPS_PROXY" in (caught.value.hint or "")


def test_nobody_there(tmp_path: Path, pauses: list[float]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/f"
        with pytest.raises(DownloadError, match=r"cannot fetch http://127\.0\.0\.1") as caught:
            download(url, tmp_path / "f", policy=QUICK)
    assert all(word in (caught.value.hint or "") for word in ("HTTPS_PROXY", "--offline", "--model FOLDER"))
    assert http.is_passing(caught.value)
    assert len(pauses) == QUICK.attempts - 1
    assert left_in(tmp_path) == []


def test_a_name_that_nobody_knows_is_asked_for_twice_at_most(
    tmp_path: Path, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*arguments: object, **named: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(DownloadError, match=r"cannot resolve device\.invalid \(DNS\)"):
        download("https://device.invalid/f", tmp_path / "f")
    assert len(pauses) == 1


def test_secrets_in_an_address_are_not_told(server: Server, tmp_path: Path) -> None:
    server.on("/f", status(404))
    url = server.base.replace("http://", "http://me:hunter2@") + "/f?token=hunter2"
    with pytest.raises(DownloadError) as caught:
        download(url, tmp_path / "f")
    assert "hunter2" not in caught.value.message
    assert "/f" in caught.value.message


def test_a_full_disk_is_said_so_and_freed(server: Server, tmp_path: Path) -> None:
    def filling(asked: Asked) -> Reply:
        (tmp_path / "f.part").symlink_to("/dev/full")
        return file(CONTENT)(asked)

    url = server.on("/f", filling)
    with pytest.raises(DiskFullError, match="no space left"):
        download(url, tmp_path / "f", sha256=DIGEST)
    assert left_in(tmp_path) == []


def test_a_place_that_cannot_be_written(server: Server, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    url = server.on("/f", file(CONTENT))
    with pytest.raises(OutputError, match="cannot write"):
        download(url, tmp_path / "taken" / "deeper" / "f")


def test_the_store_keeps_what_was_fetched(server: Server, context: HostContext) -> None:
    online = replace(context, offline=False)
    url = server.on("/models/weights.bin", file(CONTENT))
    path = fetch_file(url, sha256=DIGEST, context=online)
    assert path.name == "weights.bin"
    assert fetch_file(url, sha256=DIGEST, context=online) == path
    assert fetch_file(url, sha256=DIGEST, context=context) == path, "offline"
    assert len(server.asked) == 1


def test_a_damaged_file_in_the_store_is_fetched_again(server: Server, context: HostContext) -> None:
    online = replace(context, offline=False)
    url = server.on("/f", file(CONTENT))
    path = fetch_file(url, sha256=DIGEST, context=online)
    path.write_bytes(b"damaged")
    assert fetch_file(url, sha256=DIGEST, context=online).read_bytes() == CONTENT


def test_the_context_downloads_through_the_same_door(server: Server, context: HostContext) -> None:
    url = server.on("/f", file(CONTENT))
    assert replace(context, offline=False).download(url, sha256=DIGEST).read_bytes() == CONTENT


def test_offline_says_what_would_have_been_fetched(server: Server, context: HostContext) -> None:
    url = server.on("/f", file(CONTENT))
    with pytest.raises(DownloadError, match="offline") as caught:
        fetch_file(url, sha256=DIGEST, context=context)
    assert url in caught.value.message
    assert DIGEST in caught.value.message
    assert server.asked == []


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://h/a/b.tar.gz?x=1#y", "b.tar.gz"),
        ("https://h/a/", "a"),
        ("https://h", "download"),
        ("https://h/%2e%2e%2fetc%2fpasswd", "passwd"),
        ("https://h/..", "download"),
        ("https://h/a%20b+c", "a_b+c"),
    ],
)
def test_file_names_are_safe(url: str, name: str) -> None:
    assert file_name(url) == name


def test_a_short_answer_is_tried_again_and_bounded(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    url = server.on("/api", status(502), page("hello"))
    assert http.ask(url, policy=QUICK) == b"hello"
    monkeypatch.setattr(http, "MAX_ANSWER", 4)
    with pytest.raises(DownloadError, match="larger than 4 bytes"):
        http.ask(url, policy=QUICK)


@pytest.mark.parametrize("coding", ["gzip", "br", "x"])
def test_a_compressed_answer_is_not_asked_for_and_not_taken(server: Server, coding: str) -> None:
    """A thousand times as many bytes may be in it."""
    asked: list[str | None] = []

    def reply(request: Asked) -> Reply:
        asked.append(request.headers.get("accept-encoding"))
        return Reply(body=gzip.compress(bytes(1 << 20)), headers={"Content-Encoding": coding})

    with pytest.raises(DownloadError, match="/api is compressed"):
        http.ask(server.on("/api", reply), policy=QUICK)
    assert asked == ["identity"]


def test_probing_tells_what_is_there_without_fetching_it(server: Server) -> None:
    tagged = server.on("/tagged", file(CONTENT, etag='"7"'))
    dated = server.on(
        "/dated",
        lambda asked: Reply(body=b"12345", headers={"Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}),
    )
    headless = server.on(
        "/headless", lambda asked: Reply(status=405) if asked.method == "HEAD" else Reply(body=b"123")
    )
    seen = http.probe([tagged, dated, headless, server.base + "/missing"])
    assert seen[tagged] == http.Probe(size=len(CONTENT), validator='"7"')
    assert seen[dated] == http.Probe(size=5, validator="Mon, 01 Jan 2024 00:00:00 GMT 5")
    assert seen[headless] == http.Probe(size=3, validator="")
    assert len(seen) == 3
    assert server.paths() == ["/headless"]
    signed = server.on(
        "/signed",
        lambda asked: (
            Reply(status=403) if asked.method == "HEAD" else Reply(body=b"12", headers={"ETag": "3"})
        ),
    )
    assert http.probe([signed]) == {}
    assert http.probe([signed], there=True) == {signed: http.Probe(size=2, validator="3")}


def test_files_that_are_looked_for_have_a_time_together(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each with minutes of its own, the names of an index held a command for days."""
    monkeypatch.setattr(http, "in_time", lambda do, seconds, since: do())
    monkeypatch.setattr(http, "LONGEST", -200.0)
    with pytest.raises(DownloadError, match=r"200 files are asked for, and the server is too slow") as caught:
        http.probe(f"{server.base}/{at}" for at in range(200))
    assert http.is_passing(caught.value), "what was seen last serves"
    assert server.asked == []


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Content-Range": "bytes 5-6/7"},
        {"Content-Range": f"bytes {'9' * 5_000}-6/7"},
        {"Content-Range": f"bytes 0-9/{'9' * 5_000}"},
        {"Content-Range": "bytes \u00b2-6/7"},
    ],
)
def test_a_part_that_nobody_asked_for(headers: dict[str, str], server: Server, tmp_path: Path) -> None:
    url = server.on("/file", lambda asked: Reply(status=206, body=CONTENT, headers=headers))
    try:
        made = download(url, tmp_path / "file", sha256=DIGEST, policy=QUICK)
    except DownloadError:
        assert list(tmp_path.iterdir()) == []
    else:
        assert made.read_bytes() == CONTENT


@pytest.mark.parametrize("said", ["\u00b2", "9" * 400, "Mon, 01 Jan 0001 00:00:00 -2300", "a,b c d e"])
def test_a_time_that_is_none_is_not_waited_for(
    said: str, server: Server, tmp_path: Path, pauses: list[float]
) -> None:
    url = server.on("/file", status(503, retry_after=said), file(CONTENT))
    assert download(url, tmp_path / "file", policy=QUICK).read_bytes() == CONTENT
    assert all(seconds <= 120 for seconds in pauses)


@pytest.mark.parametrize("sha256", [None, DIGEST])
def test_a_server_that_does_not_stop_is_stopped(
    sha256: str | None, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = server.on("/file", file(CONTENT * 100))
    with pytest.raises(HashMismatchError, match="more than the 10240 bytes") as caught:
        download(endless, tmp_path / "file", size=len(CONTENT), sha256=sha256, policy=QUICK)
    assert caught.value.hint and list(tmp_path.iterdir()) == []
    monkeypatch.setattr("edgepack.fetch.download.MOST", 20_000)
    with pytest.raises(HashMismatchError, match="more than the 20000 bytes"):
        download(endless, tmp_path / "file", policy=QUICK)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["file.bin", "file.bin.part"])
@pytest.mark.parametrize("put", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("/etc/hostname")])
def test_whatever_lies_in_a_download_s_place_is_replaced(
    place: str, put: Callable[[Path], None], server: Server, context: HostContext
) -> None:
    online = replace(context, offline=False)
    path = fetch_file(server.on("/file.bin", file(CONTENT)), sha256=DIGEST, context=online)
    path.unlink()
    put(path.with_name(place))
    before = Path("/etc/hostname").read_bytes()
    again = fetch_file(f"{server.base}/file.bin", sha256=DIGEST, context=online)
    assert again == path and path.read_bytes() == CONTENT and not path.is_symlink()
    assert [each.name for each in path.parent.iterdir()] == ["file.bin"]
    assert Path("/etc/hostname").read_bytes() == before


HERE = "127.0.0.1 localhost localhost. LOCALHOST a.localhost 127.1 2130706433 0x7f000001 0 0.0.0.0 ::1 [::1] ::1%lo :: ::ffff:127.0.0.1 017700000001"


def test_this_machine_is_known_however_it_is_written() -> None:
    assert [host for host in HERE.split() if not http.leads_here(host)] == []
    elsewhere = ("example.com", "8.8.8.8", "10.0.0.1", "localhost.example", "2001:db8::1", "", "-", "a" * 300)
    assert [host for host in elsewhere if http.leads_here(host)] == []


@pytest.mark.parametrize("sent", [b"HTTP/1.1 103 Early Hints\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: ", b""])
def test_an_answer_that_never_begins_is_given_up(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte of it was in time: it held a command for good."""
    monkeypatch.setattr(http, "LONGEST", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip() -> None:
            there, _ = listening.accept()
            with there, suppress(OSError):
                there.sendall(sent)
                while True:
                    there.sendall(sent if sent.endswith(b"\r\n\r\n") else b"a" * bool(sent))
                    time.sleep(0.02)

        threading.Thread(target=drip, daemon=True).start()
        with pytest.raises(DownloadError, match="no answer has begun after"):
            http.ask(f"http://127.0.0.1:{listening.getsockname()[1]}/")


@pytest.mark.parametrize("ask", [http.ask, download], ids=["answer", "file"])
def test_a_body_of_which_no_byte_comes_is_given_up(ask: Callable[..., object], tmp_path: Path) -> None:
    """One letter of a chunk's extension now and then is in time, and no byte of the body: nobody looked at the clock."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip() -> None:
            there, _ = listening.accept()
            with there, suppress(OSError):
                there.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;")
                for _ in range(200):
                    there.sendall(b"a")
                    time.sleep(0.02)

        threading.Thread(target=drip, daemon=True).start()
        where = {"destination": tmp_path / "f"} if ask is download else {}
        with pytest.raises(DownloadError, match="the server stopped sending"):
            ask(
                f"http://127.0.0.1:{listening.getsockname()[1]}/",
                policy=http.Policy(attempts=1, read_timeout=0.2),
                **where,
            )


@pytest.mark.parametrize("takes", [100, 1 << 20])
def test_what_is_sent_is_given_up_too(takes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who takes a byte now and then holds an upload for good, and so does who takes all of it and sends the head of an answer, byte by byte."""
    monkeypatch.setattr(http, "LONGEST", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def sip() -> None:
            there, _ = listening.accept()
            there.settimeout(0.02)
            with there, suppress(OSError):
                while True:
                    with suppress(TimeoutError):
                        if not there.recv(takes):
                            return
                    if takes > 100:
                        there.sendall(b"HTTP/1.1 103 Early Hints\r\n\r\n")
                    time.sleep(0.02)

        threading.Thread(target=sip, daemon=True).start()
        pieces = (bytes(1 << 16) for _ in range(100))
        with http.client(QUICK) as client, pytest.raises(http.TryAgain, match="no answer has begun after"):
            client.put(f"http://127.0.0.1:{listening.getsockname()[1]}/", content=pieces)


def test_a_long_upload_has_its_time(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "LONGEST", 0.5)

    def slowly() -> Iterator[bytes]:
        for _ in range(8):
            time.sleep(0.1)
            yield b"piece"

    url = server.on("/f", page("thanks"))
    with http.client(QUICK) as client:
        assert client.put(url, content=slowly(), headers={"Content-Length": "40"}).status_code in (200, 501)


def test_pauses_have_a_common_end(
    server: Server, tmp_path: Path, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that sends a little and asks for two minutes, again and again, held a download for good."""
    monkeypatch.setattr("edgepack.fetch.download.MIN_GAIN", 1)
    some, busy = file(CONTENT, etag='"1"', cut=10), status(503, retry_after="120")
    url = server.on("/f", *(answer for _ in range(50) for answer in (some, busy)))
    with pytest.raises(DownloadError, match="after 900 s of waiting still: the server says 503"):
        download(url, tmp_path / "f", policy=QUICK)
    assert sum(pauses) <= http.MOST_PAUSES


def test_a_short_answer_that_never_ends_is_given_up(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    url = server.on("/listing", page("[]"))
    assert http.ask(url) == b"[]"
    monkeypatch.setattr(http, "in_time", lambda do, seconds, since: do())
    monkeypatch.setattr(http, "LONGEST", -1.0)
    with pytest.raises(DownloadError, match="has not ended"):
        http.ask(url)
