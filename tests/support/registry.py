"""A registry of container images on the loopback, in memory: right by itself, and wrong where a test says so."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.serving import Asked, Reply, listening

TOKEN = "a-token"


@dataclass(kw_only=True)
class Registry:
    """What it has, what it was asked, and how it misbehaves. Repositories have blobs of their own."""

    host: str
    blobs: dict[str, dict[str, bytes]] = field(default_factory=dict)
    """Repository → digest → content."""
    manifests: dict[str, dict[str, tuple[str, bytes]]] = field(default_factory=dict)
    """Repository → tag or digest → media type and content."""
    uploads: dict[str, bytearray] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    faults: list[tuple[str, str, Reply]] = field(default_factory=list)
    """Method, expression for the path, and what is answered instead, once each."""
    cuts: list[int] = field(default_factory=list)
    """After so many bytes of a PATCH its connection ends, once each; they count as arrived."""
    basic: str = ""
    """``user:password`` that every request needs."""
    tokens: str = ""
    """``user:password`` for which there is a token, which every request needs."""
    forgets: bool = False
    """Whether a broken upload is forgotten."""

    @property
    def base(self) -> str:
        return f"http://{self.host}"

    def fail(self, method: str, path: str, reply: Reply, times: int = 1) -> None:
        """Answer requests whose path has that in it otherwise, so many times."""
        self.faults += [(method, path, reply)] * times

    def requests(self, method: str, part: str = "") -> list[str]:
        return [asked.path for asked in self.asked if asked.method == method and part in asked.path]

    def document(self, repository: str, name: str) -> dict[str, Any]:
        read: dict[str, Any] = json.loads(self.manifests[repository][name][1])
        return read

    def put_document(self, repository: str, name: str, document: object, media_type: str) -> str:
        """As if somebody had pushed it; its digest."""
        content = json.dumps(document).encode()
        digest = digest_of(content)
        kept = self.manifests.setdefault(repository, {})
        kept[name] = kept[digest] = (media_type, content)
        return digest

    def answer(self, asked: Asked) -> Reply:
        self.asked.append(asked)
        if asked.method == "PATCH" and len(asked.body) < int(asked.headers["content-length"]):
            return self._broken(asked)
        for number, (method, path, reply) in enumerate(self.faults):
            if method == asked.method and re.search(path, asked.path):
                del self.faults[number]
                return reply
        if asked.path.startswith("/token"):
            return self._token(asked)
        if refusal := self._unauthorized(asked):
            return refusal
        parts = urlsplit(asked.path)
        found = re.fullmatch(r"/v2/(.+)/(blobs/uploads|blobs|manifests)/(.*)", parts.path)
        if not found:
            return Reply(status=404)
        repository, kind, name = found.groups()
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        if kind == "manifests":
            return self._manifest(asked, repository, name)
        if kind == "blobs":
            return self._blob(asked, self.blobs.get(repository, {}).get(name))
        return self._upload(asked, repository, name, query)

    def _manifest(self, asked: Asked, repository: str, name: str) -> Reply:
        kept = self.manifests.setdefault(repository, {})
        if asked.method == "PUT":
            for each in json.loads(asked.body).get("manifests", []):
                if each["digest"] not in kept:
                    return Reply(status=400, body=b'{"errors": [{"code": "MANIFEST_BLOB_UNKNOWN"}]}')
            kept[name] = kept[digest_of(asked.body)] = (asked.headers["content-type"], asked.body)
            return Reply(status=201, headers={"Docker-Content-Digest": digest_of(asked.body)})
        if name not in kept:
            return Reply(
                status=404, body=b'{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}'
            )
        return Reply(body=kept[name][1], headers={"Content-Type": kept[name][0]})

    def _blob(self, asked: Asked, content: bytes | None) -> Reply:
        if content is None:
            return Reply(status=404)
        if wanted := re.fullmatch(r"bytes=(\d+)-", asked.headers.get("range", "")):
            start = int(wanted.group(1))
            headers = {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"}
            return Reply(status=206, body=content[start:], headers=headers)
        return Reply(body=content)

    def _upload(self, asked: Asked, repository: str, name: str, query: dict[str, str]) -> Reply:
        own = self.blobs.setdefault(repository, {})
        if asked.method == "POST":
            if (content := self.blobs.get(query.get("from", ""), {}).get(query.get("mount", ""))) is not None:
                own[query["mount"]] = content
                return Reply(status=201)
            name = f"upload-{len(self.uploads)}"
            self.uploads[name] = bytearray()
            return self._went(repository, name, 202)
        if name not in self.uploads:
            return Reply(status=404)
        if asked.method == "GET":
            return self._went(repository, name, 204)
        if asked.method == "PATCH":
            start = int(asked.headers["content-range"].partition("-")[0])
            if start != len(self.uploads[name]):
                return Reply(status=416)
            self.uploads[name] += asked.body
            return self._went(repository, name, 202)
        content = bytes(self.uploads.pop(name)) + asked.body
        if digest_of(content) != query["digest"]:
            return Reply(status=400, body=b'{"errors": [{"code": "DIGEST_INVALID"}]}')
        own[query["digest"]] = content
        return Reply(status=201)

    def _went(self, repository: str, name: str, status: int) -> Reply:
        last = max(0, len(self.uploads[name]) - 1)
        place = f"/v2/{repository}/blobs/uploads/{name}?state=some"
        return Reply(status=status, headers={"Location": place, "Range": f"0-{last}"})

    def ends_after(self, asked: Asked) -> int | None:
        """Of the body of a PATCH, where its connection is to end."""
        length = int(asked.headers.get("content-length", 0))
        return self.cuts.pop(0) if asked.method == "PATCH" and self.cuts and self.cuts[0] < length else None

    def _broken(self, asked: Asked) -> Reply:
        """The connection of a PATCH has ended."""
        name = urlsplit(asked.path).path.rpartition("/")[2]
        if self.forgets:
            del self.uploads[name]
        else:
            self.uploads[name][int(asked.headers["content-range"].partition("-")[0]) :] = asked.body
        return Reply()

    def _unauthorized(self, asked: Asked) -> Reply | None:
        given = asked.headers.get("authorization", "")
        if self.basic and given != basic(self.basic):
            return Reply(status=401, headers={"WWW-Authenticate": 'Basic realm="here"'})
        if self.tokens and given != f"Bearer {TOKEN}":
            challenge = f'Bearer realm="{self.base}/token",service="tests",scope="repository:a:pull"'
            return Reply(status=401, headers={"WWW-Authenticate": challenge})
        return None

    def _token(self, asked: Asked) -> Reply:
        refreshed = parse_qs(asked.body.decode()).get("refresh_token") == [self.tokens]
        if asked.headers.get("authorization") != basic(self.tokens) and not refreshed:
            return Reply(status=401)
        return Reply(body=json.dumps({"access_token" if refreshed else "token": TOKEN}).encode())


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def basic(pair: str) -> str:
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


@contextmanager
def running_registry() -> Iterator[Registry]:
    """A registry that runs inside the block."""
    with listening(
        lambda asked: registry.answer(asked), ends_after=lambda asked: registry.ends_after(asked)
    ) as host:
        registry = Registry(host=host)
        yield registry
