"""Registries that lie about how much they send, where they lead, and what they are called."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.registry import Registry
from tests.support.serving import Reply, file, serving

from edgepack.errors import BundleError, DownloadError, EdgepackError, HashMismatchError, UploadError
from edgepack.fetch import download, http
from edgepack.plugins.context import HostContext
from edgepack_oci.content.reference import Reference, parse_reference
from edgepack_oci.places import access
from edgepack_oci.pull import Wanted, pull
from edgepack_oci.push import Pushed, push

Refusal = Callable[[type[EdgepackError]], EdgepackError]

pytestmark = pytest.mark.usefixtures("pauses", "pushed")


@pytest.fixture
def refusal(context: HostContext, named: Reference, tmp_path: Path) -> Refusal:
    """The error of a pull, which leaves no folder."""

    def do(kind: type[EdgepackError]) -> EdgepackError:
        fresh = replace(context, offline=False, store=type(context.store)(root=tmp_path / "pulling"))
        with pytest.raises(kind) as caught:
            pull(
                named,
                tmp_path / "out",
                platform="",
                wanted=Wanted(),
                force=False,
                plain_http=False,
                context=fresh,
            )
        assert caught.value.hint and "\x1b" not in caught.value.message + caught.value.hint
        assert not list(tmp_path.glob("*out*"))
        return caught.value

    return do


def test_nobody_is_listened_to_for_more_than_was_announced(
    registry: Registry, refusal: Refusal, tmp_path: Path
) -> None:
    more = b"A" * (8 << 20)
    # Once with a length, once with none.
    registry.fail("GET", "/blobs/", Reply(body=more))
    assert "is more than the" in refusal(HashMismatchError).message
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(more), more)
    registry.fail("GET", "/blobs/", Reply(body=chunked, headers={"Transfer-Encoding": "chunked"}))
    assert "is more than the" in refusal(HashMismatchError).message
    assert sum(path.stat().st_size for path in (tmp_path / "pulling").rglob("*") if path.is_file()) < len(
        more
    )


def test_what_is_announced_must_have_room(
    registry: Registry, refusal: Refusal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "free_bytes", lambda path: 10)
    assert "disk" in str(refusal(EdgepackError)).lower()


def test_a_slow_drip_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Any time is too long, and any speed too low.
    monkeypatch.setattr(download, "SLOW_AFTER", 1e-9)
    monkeypatch.setattr(download, "SLOWEST", float("inf"))
    content = b"A" * (4 << 20)
    with serving() as server:
        url = server.on("/large", file(content, ranges=False))
        with pytest.raises(DownloadError, match="bytes a second"):
            download.download(url, tmp_path / "large", sha256="0" * 64, size=len(content))
    assert not (tmp_path / "large").exists()


def test_a_manifest_that_never_ends_is_given_up(refusal: Refusal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "LONGEST", -1.0)
    assert "takes longer than" in refusal(DownloadError).message


def test_the_rest_of_a_file_that_was_not_begun_is_refused(registry: Registry, refusal: Refusal) -> None:
    reply = Reply(status=206, body=b"xxxxx", headers={"Content-Range": "bytes 5-9/10"})
    registry.fail("GET", "/blobs/", reply, times=20)
    assert "at another place" in refusal(DownloadError).message


@pytest.mark.parametrize("after", ["²", "9" * 400, "Fri, 31 Dec 99999 23:59:59 GMT"])
def test_odd_times_to_come_back(registry: Registry, refusal: Refusal, after: str) -> None:
    registry.fail("GET", "/manifests/", Reply(status=503, headers={"Retry-After": after}), times=20)
    assert "503" in refusal(DownloadError).message


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "realm",
    [
        "http://127.0.0.1:1/token",
        "https://localhost:1/",
        "http://[::1]:1/",
        "https://127.1:1/",
        "https://0:1/",
        "https://localhost.:1/",
        "https://[::ffff:127.0.0.1]:1/",
        "http://[",
        "",
        "/token",
        "\x07",
    ],
)
def test_a_registry_elsewhere_does_not_reach_services_of_this_machine(
    registry: Registry, refusal: Refusal, monkeypatch: pytest.MonkeyPatch, realm: str
) -> None:
    monkeypatch.setattr(access, "_host_of", lambda registry: "registry.example")
    challenge = f'Bearer realm="{realm}",service="s"'
    registry.fail("GET", "/manifests/", Reply(status=401, headers={"WWW-Authenticate": challenge}))
    assert "for a token" in refusal(DownloadError).message
    assert not registry.requests("GET", "/token")


def test_an_upload_does_not_go_on_at_a_service_of_this_machine(
    registry: Registry, bundle: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "_host_of", lambda registry: "registry.example")
    place = f"http://localhost:{registry.host.partition(':')[2]}/secret"
    registry.fail("POST", "/uploads/", Reply(status=202, headers={"Location": place}))
    named = parse_reference(f"{registry.host}/team/new:1.0")
    with pytest.raises(UploadError, match=r"sends to http://localhost:.*/secret with an upload"):
        push([bundle], named, plain_http=False, context=context)
    assert not [asked for asked in registry.asked if "/secret" in asked.path]


def test_layers_that_no_bundle_has_are_not_fetched(
    registry: Registry, refusal: Refusal, pushed: Pushed
) -> None:
    said = registry.document("team/embed", "1.0-modelpack")
    said["layers"][0]["size"] = 1 << 40
    registry.put_document("team/embed", "1.0", said, said["mediaType"])
    assert "says that it has 1,099," in refusal(BundleError).message
    assert not registry.requests("GET", "/blobs/")


def test_a_redirect_from_elsewhere_to_this_machine_is_not_followed(
    registry: Registry, refusal: Refusal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "is_loopback", lambda host: host == "localhost")
    monkeypatch.setattr(http, "is_safe", lambda url: True)
    place = f"http://localhost:{registry.host.partition(':')[2]}/secret"
    registry.fail("GET", "/manifests/", Reply(status=302, headers={"Location": place}))
    assert "leads to localhost, which is this machine" in refusal(DownloadError).message
    assert not registry.requests("GET", "/secret")


def test_a_registrys_own_words_are_no_lines_of_ours(registry: Registry, refusal: Refusal) -> None:
    body = json.dumps({"errors": [{"message": "x\n\x1b[2Jverified ✓"}]}).encode()
    registry.fail("GET", "/manifests/", Reply(status=404, body=body))
    message = refusal(DownloadError).message
    assert "\n" not in message and "✓" not in message


def test_a_registry_with_too_many_platforms_names_a_few(
    registry: Registry, refusal: Refusal, pushed: Pushed
) -> None:
    index = registry.document("team/embed", "1.0")
    entry = index["manifests"][0]
    many = [
        {**entry, "annotations": {}, "platform": {"os": "x\x1b[2J", "architecture": f"a{at}"}}
        for at in range(999)
    ]
    registry.put_document("team/embed", "1.0", {**index, "manifests": many}, index["mediaType"])
    assert len(refusal(DownloadError).hint or "") < 1000


def test_a_compressed_manifest_is_no_manifest(registry: Registry, refusal: Refusal) -> None:
    import gzip

    registry.fail(
        "GET", "/manifests/", Reply(body=gzip.compress(b" " * 10**6), headers={"Content-Encoding": "gzip"})
    )
    refusal(BundleError)
