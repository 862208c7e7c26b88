"""Pushing and pulling: only what is missing is sent, what breaks goes on, what lies is found out, and credentials stay with whom they are for."""

import base64
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.device_records import result
from tests.support.registry import Registry, basic, running_registry
from tests.support.serving import Reply, serving
from tests.support.signed import key_in

from edgepack.bundles.archive import unpack_layers
from edgepack.bundles.manifest import MANIFEST, digest, open_bundle
from edgepack.bundles.place import held_place
from edgepack.device.record import require_device, write_record
from edgepack.errors import (
    BundleError,
    DeviceError,
    DownloadError,
    EdgepackError,
    HashMismatchError,
    OutputError,
    SignatureError,
    UploadError,
    UsageError,
)
from edgepack.plugins.context import HostContext
from edgepack.signing.signatures import sign_path, signature_of
from edgepack.verifier.facts import OWN_LIMITS
from edgepack_oci.content.documents import BUNDLE, IMAGE_CONFIG, INDEX, MODELPACK
from edgepack_oci.content.documents import MANIFEST as OCI_MANIFEST
from edgepack_oci.content.reference import Reference, parse_reference
from edgepack_oci.content.release import Release
from edgepack_oci.places import upload
from edgepack_oci.pull import Pulled, Wanted, pull
from edgepack_oci.push import Pushed, push

Pull = Callable[..., Pulled]


@pytest.fixture
def pulled(context: HostContext, tmp_path: Path) -> Pull:
    """Pull to a folder ``out``, from an empty cache."""

    def do(reference: Reference, **said: object) -> Pulled:
        wanted = Wanted(**{each: said.pop(each) for each in ("key", "name", "min_version") if each in said})  # type: ignore[arg-type]
        options = {"platform": "", "wanted": wanted, "force": False, "plain_http": False, **said}
        fresh = replace(context, offline=False, store=type(context.store)(root=tmp_path / "pulling"))
        return pull(reference, tmp_path / "out", context=fresh, **options)  # type: ignore[arg-type]

    return do


def refused(do: Callable[[], object], kind: type[EdgepackError], said: str, hint: str) -> None:
    """Two lines, and each of them says something."""
    with pytest.raises(kind) as caught:
        do()
    assert said in caught.value.message, caught.value.message
    assert hint in (caught.value.hint or ""), caught.value.hint


def nothing_at(tmp_path: Path) -> bool:
    return not (tmp_path / "out").exists() and not list(tmp_path.glob(".out*"))


def test_no_other_bundle_is_put_in_its_place_while_one_is_sent(
    bundle: Path, tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next version was sent under the tag of this one. Each is held once, in one order."""

    def busy() -> None:
        raise InterruptedError

    def meanwhile(*given: Any, **named: Any) -> Release:
        with held_place(bundle, waiting=busy):
            raise AssertionError("its place is free")

    monkeypatch.setattr("edgepack_oci.push.make_release", meanwhile)
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(InterruptedError):
        push(
            [bundle, tmp_path / "link" / bundle.name],
            parse_reference(f"oci:{tmp_path}/layout:1.0"),
            plain_http=False,
            context=context,
        )


def test_a_bundle_comes_back_as_it_was(
    pushed: Pushed, named: Reference, pulled: Pull, bundle: Path, registry: Registry
) -> None:
    assert registry.requests("PUT", "manifests")[-1].endswith("/1.0"), "the tag that is named comes last"
    got = pulled(named)
    assert digest(open_bundle(got.bundle.directory)) == digest(open_bundle(bundle))
    assert got.reference == pushed.reference
    assert (pushed.layers, pushed.tags) == (
        {"sent": 5},
        {"1.0": pushed.reference.digest, "1.0-modelpack": pushed.packed[0].modelpack.digest},
    )


def test_what_the_registry_has_is_not_sent_again(
    pushed: Pushed, named: Reference, registry: Registry, bundle: Path, context: HostContext
) -> None:
    before = len(registry.requests("PATCH"))
    again = push([bundle], named.tagged("2.0"), plain_http=False, context=context)
    assert (again.layers, again.sent) == ({"there": 5}, 0)
    assert len(registry.requests("PATCH")) == before
    assert again.reference.digest == pushed.reference.digest


def test_another_repository_takes_layers_from_the_first(
    pushed: Pushed, named: Reference, registry: Registry, bundle: Path, other: Path, context: HostContext
) -> None:
    elsewhere = parse_reference(f"{registry.host}/team/other:1.0")
    assert push([bundle], elsewhere, plain_http=False, context=context).layers == {"mounted": 5}
    assert push([other], elsewhere, plain_http=False, context=context).layers == {"sent": 3, "there": 2}
    # What was remembered may be wrong by now.
    del registry.blobs["team/embed"], registry.blobs["team/other"]
    third = parse_reference(f"{registry.host}/team/third:1.0")
    assert push([bundle], third, plain_http=False, context=context).layers == {"sent": 5}


def test_a_signature_travels_and_may_be_required(
    bundle: Path, named: Reference, pulled: Pull, context: HostContext, tmp_path: Path
) -> None:
    key_in(tmp_path)
    push([bundle], named, plain_http=False, context=context)
    refused(lambda: pulled(named, key=tmp_path / "key.pub"), SignatureError, "is not signed", "edgepack sign")
    assert nothing_at(tmp_path)
    sign_path(bundle, key_in(tmp_path, "team"), context=context)
    push([bundle], named, plain_http=False, context=context)
    refused(lambda: pulled(named, key=tmp_path / "key.pub"), SignatureError, "", "")
    assert nothing_at(tmp_path)
    said_by = pulled(named, key=tmp_path / "team.pub").said_by
    assert said_by.whose == "key" and len(said_by.key) == 64


def test_another_bundle_of_the_same_key_and_an_older_one_are_refused(
    bundle: Path, named: Reference, pulled: Pull, context: HostContext, tmp_path: Path
) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text())
    (bundle / "manifest.json").write_text(json.dumps({**manifest, "version": "1.2.0"}))
    sign_path(bundle, key_in(tmp_path, "team"), context=context)
    push([bundle], named, plain_http=False, context=context)
    key = tmp_path / "team.pub"
    refused(lambda: pulled(named, key=key, name="another"), SignatureError, "not another", "same key")
    refused(lambda: pulled(named, key=key, min_version="1.3"), SignatureError, "older than 1.3", "")
    assert nothing_at(tmp_path)
    refused(lambda: pulled(named, name="1.2"), UsageError, "requires --key", "--key")
    refused(lambda: pulled(named, min_version="1.2"), UsageError, "requires --key", "--key")
    found = pulled(named, key=key, name=manifest["name"], min_version="1.2")
    assert (found.bundle.name, found.version) == (manifest["name"], "1.2.0")


def test_a_bundle_under_another_ones_name_is_refused(
    pushed: Pushed, named: Reference, registry: Registry, pulled: Pull, tmp_path: Path
) -> None:
    index = registry.document("team/embed", "1.0")
    model = next(each for each in index["manifests"] if "annotations" in each)
    said = registry.document("team/embed", model["digest"])
    for name, what in (
        ("another", "says that it holds another, and holds"),
        ("a\x1b[2Jb", "is not a bundle of edgepack's"),
        ("verified \u2713", "is not a bundle of edgepack's"),
        ("a\nverified", "is not a bundle of edgepack's"),
        ("a\0b", "is not a bundle of edgepack's"),
        ("\u202egnp.exe", "is not a bundle of edgepack's"),
        ("..\\up", "is not a bundle of edgepack's"),
        ("a" * 300, "is not a bundle of edgepack's"),
    ):
        annotations = {**said["annotations"], BUNDLE: name}
        digest = registry.put_document(
            "team/embed", "bad", {**said, "annotations": annotations}, OCI_MANIFEST
        )
        refused(partial(pulled, named.at(digest)), BundleError, what, "")
        assert nothing_at(tmp_path)


def test_a_bundle_under_another_platforms_name_is_refused(
    bundle: Path, context: HostContext, tmp_path: Path, pulled: Pull
) -> None:
    place = parse_reference(f"oci:{tmp_path}/layout:1.0")
    push([bundle], place, plain_http=False, context=context)
    (index,) = [
        path
        for path in (tmp_path / "layout/blobs/sha256").iterdir()
        if b'"linux/amd64"' in path.read_bytes() and b'"manifests"' in path.read_bytes()
    ]
    said = index.read_bytes().replace(b'"linux/amd64"', b'"linux/arm64"')
    digest = hashlib.sha256(said).hexdigest()
    index.with_name(digest).write_bytes(said)
    lying = parse_reference(f"oci:{tmp_path}/layout@sha256:{digest}")
    refused(
        lambda: pulled(lying, platform="linux/arm64"),
        BundleError,
        "holds linux/arm64, and holds linux/amd64",
        "",
    )


def test_each_machine_gets_its_bundle(
    bundle: Path, other: Path, named: Reference, pulled: Pull, context: HostContext, tmp_path: Path
) -> None:
    push([bundle, other], named, plain_http=False, context=context)
    assert pulled(named, platform="linux/arm64").bundle.name == "other"
    assert pulled(named, platform="linux/amd64", force=True).bundle.name == "sample"
    refused(
        lambda: pulled(named, platform="linux/s390x", force=True),
        DownloadError, "has no bundle for linux/s390x", "one of linux/amd64, linux/arm64",
    )  # fmt: skip
    assert open_bundle(tmp_path / "out").name == "sample"


def test_images_alone_are_enough(pushed: Pushed, named: Reference, pulled: Pull, registry: Registry) -> None:
    image = pushed.packed[0].image
    assert image is not None
    assert pulled(named.at(image.digest)).bundle.name == "sample"
    # Tools that copy images leave annotations out.
    plain = {key: value for key, value in json.loads(image.content).items() if key != "annotations"}
    registry.put_document("team/embed", "plain", plain, OCI_MANIFEST)
    assert pulled(named.tagged("plain"), force=True).bundle.name == "sample"


def test_an_archive_is_pushed_too(
    bundle: Path, named: Reference, context: HostContext, pushed: Pushed
) -> None:
    from edgepack.bundles.archive import pack

    archive = bundle.with_name("sample.tar.zst")
    pack(open_bundle(bundle), archive, context=context)
    assert push([archive], named, plain_http=False, context=context).reference == pushed.reference


@pytest.mark.sample(1)
@pytest.mark.parametrize("forgets", [False, True])
def test_a_broken_upload_goes_on(
    bundle: Path, named: Reference, registry: Registry, pulled: Pull, context: HostContext, pauses: list[float],
    forgets: bool,
) -> None:  # fmt: skip
    registry.cuts, registry.forgets = [40, 30], forgets
    push([bundle], named, plain_http=False, context=context)
    assert pulled(named).bundle.name == "sample"
    ranges = [asked.headers["content-range"] for asked in registry.asked if asked.method == "PATCH"]
    assert ranges[0].startswith("0-")
    assert [each.partition("-")[0] for each in ranges[1:3]] == (["0", "0"] if forgets else ["40", "70"])
    assert len(pauses) == 2


def test_an_upload_that_never_arrives_ends(
    bundle: Path, named: Reference, registry: Registry, context: HostContext, pauses: list[float]
) -> None:
    registry.cuts = [1] * 20
    refused(
        lambda: push([bundle], named, plain_http=False, context=context),
        UploadError, "cannot push to http://127.0.0.1", "what has arrived is not sent again",
    )  # fmt: skip
    assert registry.manifests == {} and len(pauses) < 10


REFUSALS = [
    (401, "requires a login, and there are no credentials", "docker login"),
    (403, "says 403 Forbidden (denied: go away)", "check that your account may do that"),
    (404, "says 404", "create the repository first"),
    (405, "says 405", "may want something that edgepack does not do"),
    (307, "says 307", "name the registry there"),
    (429, "says 429", "try again later"),
    (503, "says 503", "try again later"),
]


@pytest.mark.parametrize(("status", "said", "hint"), REFUSALS)
def test_a_registry_that_refuses_what_is_pushed(
    bundle: Path, named: Reference, registry: Registry, context: HostContext, pauses: list[float],
    status: int, said: str, hint: str,
) -> None:  # fmt: skip
    body = b'{"errors": [{"code": "DENIED", "message": "denied: go away"}]}'
    headers = {"Location": "http://127.0.0.1:1/elsewhere"}
    registry.fail("POST", "uploads", Reply(status=status, body=body, headers=headers), times=20)
    refused(lambda: push([bundle], named, plain_http=False, context=context), UploadError, said, hint)
    assert registry.manifests == {} and registry.blobs.get("team/embed", {}) == {}
    assert len(pauses) == (4 if status in (429, 503) else 0)


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("status", "said", "hint"),
    [
        (404, "says 404 Not Found", "check the name and the tag"),
        *(row for row in REFUSALS if row[0] not in (404, 405, 307)),
    ],
)
def test_a_registry_that_refuses_what_is_pulled(
    pushed: Pushed, named: Reference, registry: Registry, pulled: Pull, pauses: list[float], tmp_path: Path,
    status: int, said: str, hint: str,
) -> None:  # fmt: skip
    body = b'{"errors": [{"code": "DENIED", "message": "denied: go away"}]}'
    registry.fail("GET", "manifests", Reply(status=status, body=body), times=20)
    refused(lambda: pulled(named), DownloadError, said, hint)
    assert nothing_at(tmp_path)


def test_a_busy_registry_is_waited_for(
    bundle: Path, named: Reference, registry: Registry, context: HostContext, pauses: list[float]
) -> None:
    registry.fail("POST", "uploads", Reply(status=429, headers={"Retry-After": "7"}))
    registry.fail("PUT", "manifests", Reply(status=502))
    push([bundle], named, plain_http=False, context=context)
    assert pauses == [7.0, 0.5]
    registry.fail("HEAD", "blobs", Reply(status=429, headers={"Retry-After": "3600"}))
    refused(
        lambda: push([bundle], named, plain_http=False, context=context),
        UploadError, "come back in 3600 s", "try again later",
    )  # fmt: skip


def test_a_tag_stays_what_it_was_when_a_push_fails(
    pushed: Pushed, named: Reference, registry: Registry, other: Path, context: HostContext
) -> None:
    before = dict(registry.manifests["team/embed"])
    registry.fail("PUT", "manifests/1.0$", Reply(status=403))
    with pytest.raises(UploadError):
        push([other], named, plain_http=False, context=context)
    assert registry.manifests["team/embed"]["1.0"] == before["1.0"]


def weights_of(registry: Registry) -> str:
    return str(registry.document("team/embed", "1.0-modelpack")["layers"][0]["digest"])


def test_half_a_layer_goes_on_where_it_broke(
    pushed: Pushed, named: Reference, registry: Registry, pulled: Pull, pauses: list[float]
) -> None:
    digest = weights_of(registry)
    content = registry.blobs["team/embed"][digest]
    registry.fail("GET", digest, Reply(body=content, cut=300))
    pulled(named)
    asked = [
        each.headers.get("range") for each in registry.asked if each.method == "GET" and digest in each.path
    ]
    assert asked == [None, "bytes=300-"]


@pytest.mark.parametrize("keep", [300, 0])
def test_a_layer_that_never_comes_whole(
    pushed: Pushed,
    named: Reference,
    registry: Registry,
    pulled: Pull,
    pauses: list[float],
    tmp_path: Path,
    keep: int,
) -> None:
    digest = weights_of(registry)
    body = registry.blobs["team/embed"][digest]
    registry.fail("GET", digest, Reply(body=body, cut=keep), times=20)
    refused(
        lambda: pulled(named), DownloadError, f"cannot fetch {registry.base}/v2/team/embed/blobs/{digest}", ""
    )
    assert nothing_at(tmp_path)


def test_a_blob_that_lies(
    pushed: Pushed, named: Reference, registry: Registry, pulled: Pull, tmp_path: Path
) -> None:
    digest = weights_of(registry)
    right = registry.blobs["team/embed"][digest]
    registry.blobs["team/embed"][digest] = right[:-1] + b"x"
    refused(
        lambda: pulled(named), HashMismatchError, "does not match its pinned digest", "sent a different file"
    )
    assert nothing_at(tmp_path)
    registry.blobs["team/embed"][digest] = right + b"x"
    refused(lambda: pulled(named), EdgepackError, digest.removeprefix("sha256:")[:12], "")
    assert nothing_at(tmp_path)


def test_manifests_that_lie(
    pushed: Pushed, named: Reference, registry: Registry, pulled: Pull, tmp_path: Path
) -> None:
    kept = registry.manifests["team/embed"]
    pin, model = pushed.reference.digest, pushed.packed[0].modelpack.digest
    kind, content = kept[model]
    kept[model] = kind, content + b" "
    refused(lambda: pulled(named), HashMismatchError, "is not what the registry sends", "sent something else")
    kept[pin] = kind, content
    refused(lambda: pulled(pushed.reference), HashMismatchError, "is not what the registry sends", "")
    index = registry.document("team/embed", "1.0")
    index["manifests"][1]["size"] += 1
    kept[model] = kind, content
    registry.put_document("team/embed", "1.0", index, INDEX)
    refused(lambda: pulled(named), HashMismatchError, "its index says", "sent something else")
    manifest = json.loads(content)
    manifest["layers"][0]["size"] += 1
    registry.put_document("team/embed", "lie", manifest, kind)
    refused(lambda: pulled(named.tagged("lie")), EdgepackError, "bytes", "")
    del manifest["layers"][0]
    registry.put_document("team/embed", "less", manifest, kind)
    refused(lambda: pulled(named.tagged("less")), BundleError, "is missing", "push the bundle again")
    manifest["layers"].append(manifest["layers"][-1])
    registry.put_document("team/embed", "twice", manifest, kind)
    refused(lambda: pulled(named.tagged("twice")), BundleError, "twice", "")
    assert nothing_at(tmp_path)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"mediaType": OCI_MANIFEST, "artifactType": "application/vnd.kitops.modelkit.manifest.v1+json",
          "config": {"mediaType": "a/b", "digest": f"sha256:{'0' * 64}", "size": 2}, "layers": []},
         "is not a bundle of edgepack's, but application/vnd.kitops.modelkit"),
        ({"mediaType": INDEX, "manifests": []}, "has no bundle for"),
        ({"mediaType": INDEX}, "is an index without manifests"),
        ({"mediaType": OCI_MANIFEST, "config": {"digest": "md5:1", "size": 1}, "layers": []}, "without a sha256 digest"),
        ({"mediaType": OCI_MANIFEST, "annotations": {BUNDLE: "../x"}, "layers": [],
          "config": {"mediaType": "a/b", "digest": f"sha256:{'0' * 64}", "size": 2}}, "is not a bundle of edgepack's"),
        ({"mediaType": OCI_MANIFEST, "annotations": {BUNDLE: "x"}, "layers": [],
          "config": {"mediaType": "a/b", "digest": f"sha256:{'0' * 64}", "size": 2}}, "has no layers, or too many"),
        (["no", "object"], "is not a document of OCI"),
    ],
)  # fmt: skip
def test_what_is_no_bundle_of_edgepacks(
    named: Reference, registry: Registry, pulled: Pull, tmp_path: Path, document: object, said: str
) -> None:
    registry.put_document("team/embed", "1.0", document, OCI_MANIFEST)
    with pytest.raises(EdgepackError, match=said) as caught:
        pulled(named)
    assert caught.value.hint
    assert nothing_at(tmp_path) and not registry.requests("GET", "blobs")


def test_an_image_of_somebody_else_is_refused_by_its_configuration(
    named: Reference, registry: Registry, pulled: Pull, tmp_path: Path
) -> None:
    config = b'{"config": {"Labels": null}}'
    from tests.support.registry import digest_of

    registry.blobs["team/embed"] = {digest_of(config): config}
    said = {"mediaType": IMAGE_CONFIG, "digest": digest_of(config), "size": len(config)}
    layer = {"mediaType": "x", "digest": f"sha256:{'1' * 64}", "size": 7}
    registry.put_document(
        "team/embed", "1.0", {"mediaType": OCI_MANIFEST, "config": said, "layers": [layer]}, OCI_MANIFEST
    )
    refused(lambda: pulled(named), BundleError, f"but {IMAGE_CONFIG}", "edgepack bundle --help")
    assert len(registry.requests("GET", "blobs")) == 1 and nothing_at(tmp_path)


def test_a_layer_that_writes_elsewhere_is_refused(
    pushed: Pushed, named: Reference, registry: Registry, pulled: Pull, tmp_path: Path
) -> None:
    import io
    import tarfile

    from tests.support.registry import digest_of

    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        tar.addfile(tarfile.TarInfo("models/../../stolen"))
    evil = out.getvalue()
    registry.blobs["team/embed"][digest_of(evil)] = evil
    manifest = registry.document("team/embed", "1.0-modelpack")
    manifest["layers"][0] |= {"digest": digest_of(evil), "size": len(evil)}
    registry.put_document("team/embed", "evil", manifest, OCI_MANIFEST)
    refused(
        lambda: pulled(named.tagged("evil")),
        BundleError,
        "a path that leads out of it",
        "push the bundle again",
    )
    assert nothing_at(tmp_path) and not (tmp_path / "stolen").exists()


def test_a_folder_that_is_there_is_not_replaced_unasked(
    pushed: Pushed, named: Reference, pulled: Pull, tmp_path: Path
) -> None:
    pulled(named)
    refused(lambda: pulled(named), OutputError, "already exists", "--force")
    assert pulled(named, force=True).bundle.name == "sample"


def log_in(home: Path, registry: Registry, pair: str) -> None:
    (home / ".docker").mkdir(exist_ok=True)
    auth = {"auths": {registry.host: {"auth": base64.b64encode(pair.encode()).decode()}}}
    (home / ".docker/config.json").write_text(json.dumps(auth))


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["basic", "tokens"])
def test_credentials_of_docker_login(
    bundle: Path,
    named: Reference,
    registry: Registry,
    pulled: Pull,
    context: HostContext,
    home: Path,
    kind: str,
) -> None:
    setattr(registry, kind, "me:secret:word")
    refused(lambda: pulled(named), DownloadError, "requires a login", f"podman login {registry.host}")
    log_in(home, registry, "me:wrong")
    refused(
        lambda: push([bundle], named, plain_http=False, context=context),
        UploadError, f"does not accept the credentials of {home}/.docker/config.json", "docker login",
    )  # fmt: skip
    log_in(home, registry, "me:secret:word")
    push([bundle], named, plain_http=False, context=context)
    assert pulled(named).bundle.name == "sample"
    if kind == "tokens":
        scopes = [path for path in registry.requests("GET", "/token") if "pull%2Cpush" in path]
        assert scopes and all("repository%3Ateam%2Fembed" in path for path in scopes)


@pytest.mark.tools(may=("docker-credential-safe", "docker-credential-missing", "env", "sh"))
def test_credentials_of_a_helper(
    bundle: Path,
    named: Reference,
    registry: Registry,
    context: HostContext,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registry.tokens = "a-refresh-token"
    helper = home / "docker-credential-safe"
    helper.write_text(
        f'#!/bin/sh\n[ "$1 $(cat)" = "get {registry.host}" ] && echo \'{{"Username": "<token>", "Secret": "a-refresh-token"}}\'\n'
    )
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{home}:/usr/bin:/bin")
    (home / "auth.json").write_text(json.dumps({"credHelpers": {registry.host: "safe"}}))
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(home / "auth.json"))
    assert push([bundle], named, plain_http=False, context=context).layers == {"sent": 5}
    (home / "auth.json").write_text(json.dumps({"credsStore": "x/../evil"}))
    refused(
        lambda: push([bundle], named, plain_http=False, context=context),
        UsageError,
        "names no credential",
        "",
    )
    (home / "auth.json").write_text(json.dumps({"credsStore": "missing"}))
    refused(
        lambda: push([bundle], named, plain_http=False, context=context), UploadError, "requires a login", ""
    )
    (home / "auth.json").write_text("{")
    refused(
        lambda: push([bundle], named, plain_http=False, context=context),
        UsageError,
        "cannot be read",
        "log in again",
    )


def test_podmans_accounts_for_parts_of_a_registry(
    bundle: Path, named: Reference, registry: Registry, context: HostContext, home: Path
) -> None:
    registry.basic = "team:secret"
    folder = home / ".config/containers"
    folder.mkdir(parents=True)
    pairs = {registry.host: "other:pair", f"{registry.host}/team": "team:secret"}
    auths = {key: {"auth": base64.b64encode(pair.encode()).decode()} for key, pair in pairs.items()}
    (folder / "auth.json").write_text(json.dumps({"auths": auths}))
    assert push([bundle], named, plain_http=False, context=context).layers == {"sent": 5}


def test_whoever_a_registry_leads_to_is_not_given_its_credentials(
    bundle: Path, named: Reference, registry: Registry, pulled: Pull, context: HostContext, home: Path
) -> None:
    """Storage elsewhere, which asks for a login, is not the registry."""
    push([bundle], named, plain_http=False, context=context)
    log_in(home, registry, "me:secret")
    with serving() as elsewhere:
        realm = elsewhere.on("/token", lambda asked: Reply(body=b'{"token": "t"}'))
        demand = {"WWW-Authenticate": f'Bearer realm="{realm}"'}
        place = elsewhere.on("/manifest", lambda asked: Reply(status=401, headers=demand))
        registry.fail("GET", "manifests", Reply(status=307, headers={"Location": place}))
        refused(lambda: pulled(named), DownloadError, "", "")
        assert elsewhere.paths("GET") == ["/manifest"]
    assert all("authorization" not in asked.headers for asked in elsewhere.asked)


def test_credentials_stay_with_the_registry(
    bundle: Path,
    named: Reference,
    registry: Registry,
    pulled: Pull,
    context: HostContext,
    home: Path,
    pauses: list[float],
) -> None:
    registry.basic = "me:secret"
    log_in(home, registry, "me:secret")
    push([bundle], named, plain_http=False, context=context)
    with serving() as elsewhere:
        digest = weights_of(registry)
        content = registry.blobs["team/embed"][digest]
        place = elsewhere.on("/storage", lambda asked: Reply(body=content))
        registry.fail("GET", digest, Reply(status=307, headers={"Location": place}))
        pulled(named)
        assert elsewhere.paths("GET") == ["/storage"]
        assert all("authorization" not in asked.headers for asked in elsewhere.asked)
    with running_registry() as other:
        registry.blobs.clear()
        there = {"Location": f"{other.base}/v2/team/embed/blobs/uploads/some"}
        registry.fail("POST", "uploads", Reply(status=202, headers=there))
        with pytest.raises(UploadError):
            push([bundle], named, plain_http=False, context=context)
        assert other.requests("PATCH")
        assert all("authorization" not in asked.headers for asked in other.asked)
    assert basic("me:secret") in {asked.headers.get("authorization") for asked in registry.asked}


def test_no_plain_http_to_other_machines_unasked(
    registry: Registry, bundle: Path, context: HostContext, pulled: Pull, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edgepack_oci.places.registry import open_registry

    there = parse_reference("registry.example/team/embed:1.0")
    for plain, origin in ((False, "https://registry.example"), (True, "http://registry.example")):
        with open_registry(there, push=False, plain_http=plain, context=context) as opened:
            assert opened.origin == origin
    own = parse_reference(f"localhost:{registry.host.rpartition(':')[2]}/team/embed:1.0")
    push([bundle], own, plain_http=False, context=context)
    registry.fail("GET", "manifests", Reply(status=302, headers={"Location": "http://192.0.2.1/x"}))
    refused(lambda: pulled(own), DownloadError, "http://192.0.2.1/x is not an https URL", "not followed")


def test_progress_counts_every_byte_once(
    bundle: Path,
    named: Reference,
    registry: Registry,
    context: HostContext,
    pauses: list[float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from edgepack_oci.content.release import make_release
    from edgepack_oci.push import open_place

    monkeypatch.setattr(upload, "PIECE", 64)
    registry.cuts = [100]
    release = make_release([open_bundle(bundle)], "1.0", context=context)
    counted: list[int] = []
    with open_place(named, push=True, plain_http=False, context=context) as place:
        for layer in release.layers.values():
            place.put_layer(layer, counted.append)
    assert sum(counted) == sum(layer.size for layer in release.layers.values())


def test_a_layout_is_a_registry_in_a_folder(
    bundle: Path, other: Path, context: HostContext, tmp_path: Path, pulled: Pull, pushed: Pushed
) -> None:
    place = parse_reference(f"oci:{tmp_path}/layout:1.0")
    made = push([bundle], place, plain_http=False, context=context)
    assert made.reference.digest == pushed.reference.digest and made.layers == {"sent": 5}
    for blob in (tmp_path / "layout/blobs/sha256").iterdir():
        blob.write_bytes(bytes(blob.stat().st_size))
    assert push([bundle], place, plain_http=False, context=context).layers == {"sent": 5}
    assert push([bundle], place.tagged("2.0"), plain_http=False, context=context).layers == {"there": 5}
    assert json.loads((tmp_path / "layout/oci-layout").read_text()) == {"imageLayoutVersion": "1.0.0"}
    assert pulled(place).bundle.name == "sample"
    assert pulled(made.reference, force=True).reference == made.reference
    refused(lambda: pulled(place.tagged("3.0")), DownloadError, "there is no 3.0", "1.0, 1.0-modelpack, 2.0")
    model = made.packed[0].modelpack
    blobs = tmp_path / "layout/blobs/sha256"
    weights = json.loads(model.content)["layers"][0]["digest"].removeprefix("sha256:")
    (blobs / weights).write_bytes(b"something else")
    refused(lambda: pulled(place, force=True), HashMismatchError, "is damaged", "copy the folder again")
    (blobs / weights).unlink()
    refused(lambda: pulled(place, force=True), DownloadError, "cannot be read", "copy the whole folder")
    assert open_bundle(tmp_path / "out").name == "sample"


def test_a_layer_of_another_size_is_not_read(
    bundle: Path, context: HostContext, tmp_path: Path, pulled: Pull
) -> None:
    """In a folder of anybody's, it may be a file of holes that stands for a petabyte."""
    place = parse_reference(f"oci:{tmp_path}/layout:1.0")
    push([bundle], place, plain_http=False, context=context)
    for blob in (tmp_path / "layout/blobs/sha256").iterdir():
        if blob.read_bytes().startswith(b"\x1f\x8b"):
            with blob.open("r+b") as stream:
                stream.truncate(1 << 43)
    with pytest.raises(HashMismatchError, match="is damaged: it has 8796093022208 bytes"):
        pulled(place)


def test_what_is_exchanged_in_a_layout_after_it_was_compared_is_not_unpacked(
    bundle: Path,
    context: HostContext,
    tmp_path: Path,
    pulled: Pull,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was, in 7 of 8 tries, with the digest that the user had named said of it."""
    place = parse_reference(f"oci:{tmp_path}/layout:1.0")
    named = push([bundle], place, plain_http=False, context=context).reference

    def exchanged(files: Sequence[Path], folder: Path) -> None:
        for blob in (tmp_path / "layout/blobs/sha256").iterdir():
            blob.write_bytes(b"of somebody else")
        unpack_layers(files, folder)

    monkeypatch.setattr("edgepack_oci.pull.unpack_layers", exchanged)
    assert pulled(named).bundle.name == "sample"


@pytest.mark.parametrize("what", ["index.json", "manifest"])
@pytest.mark.parametrize("lie", ["pipe", "device", "holes"])
def test_a_layout_of_anybodys_is_read_to_an_end(
    what: str, lie: str, bundle: Path, context: HostContext, tmp_path: Path, pulled: Pull
) -> None:
    place = parse_reference(f"oci:{tmp_path}/layout:1.0")
    digest = push([bundle], place, plain_http=False, context=context).reference.digest
    file = (
        tmp_path / "layout" / ("index.json" if what == "index.json" else f"blobs/{digest.replace(':', '/')}")
    )
    file.unlink()
    if lie == "pipe":
        os.mkfifo(file)
    elif lie == "device":
        file.symlink_to("/dev/zero")
    else:
        with file.open("wb") as stream:
            stream.truncate(1 << 40)
    with pytest.raises((BundleError, DownloadError), match="is no file of at most"):
        pulled(place)


def test_a_layout_is_not_made_where_something_else_is(
    bundle: Path, context: HostContext, tmp_path: Path, pulled: Pull
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    place = parse_reference(f"oci:{tmp_path}/full:1.0")
    refused(
        lambda: push([bundle], place, plain_http=False, context=context),
        UsageError,
        "is not an OCI layout",
        "another folder",
    )
    refused(lambda: pulled(place), BundleError, "is not an OCI layout", "name the folder")


def test_a_damaged_bundle_is_not_pushed(
    bundle: Path, named: Reference, registry: Registry, context: HostContext
) -> None:
    (bundle / MANIFEST).write_text("{}")
    with pytest.raises(BundleError):
        push([bundle], named, plain_http=False, context=context)
    assert registry.asked == []
    assert MODELPACK


@pytest.mark.tools("python")
def test_the_commands(bundle: Path, registry: Registry, tmp_path: Path) -> None:
    from tests.support.command import edgepack

    manifest = json.loads((bundle / MANIFEST).read_text())
    manifest["target"]["platform"]["os"] = "web\x1b[2J"
    (bundle / MANIFEST).write_text(json.dumps(manifest))
    env = {"EDGEPACK_CACHE": str(tmp_path / "cache")}
    done = edgepack("push", str(bundle), f"{registry.host}/team/embed:1.0", env=env)
    assert done.returncode == 0, done.stderr
    name, layers, kind = done.stdout.splitlines()
    assert name.startswith(f"{registry.host}/team/embed@sha256:") and layers.startswith("layers: 4 sent")
    assert kind == r"web\x1b[2J/amd64: sample, no image: it is for web\x1b[2J"
    done = edgepack("pull", name, "-o", str(tmp_path / "out"), "--json", env=env)
    assert json.loads(done.stdout) == {
        "directory": str(tmp_path / "out"), "bundle": "sample", "reference": name, "key": None,
        "version": None, "said_by": {"whose": "maker", "key": ""}, "devices": None,
    }  # fmt: skip
    done = edgepack("pull", name, "--force", env=env, cwd=tmp_path)
    assert done.returncode == 2 and "--force requires --output, or --name" in done.stderr
    done = edgepack("pull", f"{registry.host}/team/none", env=env, cwd=tmp_path)
    assert done.returncode == DownloadError.exit_code
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == ["error", "hint"]


def test_a_record_of_devices_goes_along_with_its_signature(
    bundle: Path, named: Reference, registry: Registry, tmp_path: Path, context: HostContext
) -> None:
    record = bundle.with_name(f"{bundle.name}.devices.json")
    key = key_in(tmp_path, "lab")
    write_record(record, open_bundle(bundle), [result()], key=key, store=context.store)
    tags = push([bundle], named, plain_http=False, context=context).tags
    assert set(tags) == {"1.0", "1.0-modelpack", "1.0-devices"}
    assert registry.requests("PUT", "manifests")[-1].endswith("/1.0")
    found = registry.document("team/embed", "1.0-devices")
    assert found["subject"]["digest"] == tags["1.0-modelpack"]
    assert found["artifactType"] == "application/vnd.in-toto+json"
    contents = [registry.blobs["team/embed"][layer["digest"]] for layer in found["layers"]]
    assert contents == [record.read_bytes(), signature_of(record).read_bytes()]


def test_a_record_of_another_bundle_does_not(
    bundle: Path, other: Path, named: Reference, context: HostContext
) -> None:
    record = bundle.with_name(f"{bundle.name}.devices.json")
    write_record(record, open_bundle(other), [result()], key=None, store=context.store)
    assert "1.0-devices" not in push([bundle], named, plain_http=False, context=context).tags


def test_a_record_of_devices_comes_along_and_counts_by_its_key(
    bundle: Path, named: Reference, pulled: Pull, registry: Registry, tmp_path: Path, context: HostContext
) -> None:
    record = bundle.with_name(f"{bundle.name}.devices.json")
    key = key_in(tmp_path, "lab")
    write_record(record, open_bundle(bundle), [result()], key=key, store=context.store)
    push([bundle], named, plain_http=False, context=context)
    got = pulled(named)
    assert got.devices == tmp_path / "out.devices.json"
    here = open_bundle(got.bundle.directory)
    asked = partial(require_device, got.devices, here, "pi4", limits=OWN_LIMITS)
    fresh = type(context.store)(root=tmp_path / "empty")
    with pytest.raises(DeviceError, match="its maker's word"):
        asked(key=None, store=fresh)
    assert asked(key=key.public, store=fresh).id == "pi4"
    # What lies there already stays, unless all of it is to be replaced.
    got.devices.write_text("mine")
    pulled(named, force=True)
    assert got.devices.read_bytes() == record.read_bytes()


@pytest.mark.parametrize(
    "lie", ["another bundle", "not JSON", "three layers", "altered", "too large", "no document"]
)
def test_a_lying_record_of_devices_does_not_come_along(
    lie: str,
    bundle: Path,
    other: Path,
    named: Reference,
    pulled: Pull,
    registry: Registry,
    tmp_path: Path,
    context: HostContext,
) -> None:
    record = bundle.with_name(f"{bundle.name}.devices.json")
    write_record(record, open_bundle(bundle), [result()], key=None, store=context.store)
    push([bundle], named, plain_http=False, context=context)
    said = registry.document("team/embed", "1.0-devices")
    (layer,) = said["layers"]
    kept = registry.blobs["team/embed"]
    if lie == "another bundle":
        write_record(tmp_path / "r", open_bundle(other), [result()], key=None, store=context.store)
    elif lie == "too large":
        (tmp_path / "r").write_bytes(b" " * (5 << 20))
    else:
        (tmp_path / "r").write_bytes(b"{" if lie == "not JSON" else record.read_bytes())
    content = (tmp_path / "r").read_bytes()
    named_digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    kept[named_digest] = content + b" " * (lie == "altered")
    layer |= {"digest": named_digest, "size": len(content)}
    layers = [layer] * (3 if lie == "three layers" else 1)
    lying: object = [] if lie == "no document" else {**said, "layers": layers}
    registry.put_document("team/embed", "1.0-devices", lying, OCI_MANIFEST)
    got = pulled(named)
    assert got.devices is None and got.bundle.directory.is_dir()
    assert not (tmp_path / "out.devices.json").exists()
