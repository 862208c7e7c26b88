"""A registry over HTTP (https://github.com/opencontainers/distribution-spec): manifests and blobs, read and written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgepack.api import BuildContext, BundleError, EdgepackError
from edgepack.api.axes import DownloadError, HashMismatchError
from edgepack.errors import UploadError
from edgepack.fetch.download import fetch_file
from edgepack.fetch.http import PATIENT, TryAgain, client, is_loopback, retry_after, retrying
from edgepack.terminal_text import foreign
from edgepack_oci.content.documents import (
    ANY_MANIFEST,
    MANIFEST,
    MOST,
    Descriptor,
    Document,
    digest_of,
    read_document,
)
from edgepack_oci.content.layers import Layer
from edgepack_oci.content.reference import Reference
from edgepack_oci.places.access import Access, read_answer
from edgepack_oci.places.credentials import find_credentials
from edgepack_oci.places.mounts import Mounts
from edgepack_oci.places.place import Advance, Sent
from edgepack_oci.places.upload import upload

if TYPE_CHECKING:
    import httpx

PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
LONGEST_PAUSE = 120.0
"""Seconds; a registry that asks for more is asked again by the user."""
UNREACHABLE = (
    "check the registry's name and the connection (HTTPS_PROXY, NO_PROXY and SSL_CERT_FILE are honoured); --plain-http is for a registry "
    "without TLS"
)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Answer of a registry, whole."""

    status: int
    reason: str
    headers: Mapping[str, str]
    """Their names in any case."""
    content: bytes
    own: bool
    """The registry's own, and not that of whom it leads to."""


@dataclass(frozen=True, kw_only=True)
class Registry:
    """The place (``edgepack_oci.places.place.Place``). It sends credentials to the registry itself and to no other host."""

    reference: Reference
    http: httpx.Client
    access: Access
    origin: str
    """``https://HOST``"""
    plain_http: bool
    error: type[EdgepackError]
    context: BuildContext

    @property
    def base(self) -> str:
        return f"{self.origin}/v2/{self.reference.name}"

    def put_layer(self, layer: Layer, advance: Advance) -> Sent:
        url = f"{self.base}/blobs/{layer.digest}"
        if self.ask("HEAD", url, takes=(200, 404)).status == 200:
            advance(layer.size)
            self._mounts.remember(layer.digest, self.reference.name)
            return "there"
        sent = upload(self, layer, source=self._mounts.source_of(layer.digest), advance=advance)
        self._mounts.remember(layer.digest, self.reference.name)
        return sent

    def put_config(self, config: Document) -> None:
        file = self.context.work_dir / "oci-config.json"
        file.write_bytes(config.content)
        layer = Layer(part="config", file=file, digest=config.digest, diff_id="", size=len(config.content))
        if self.ask("HEAD", f"{self.base}/blobs/{layer.digest}", takes=(200, 404)).status != 200:
            upload(self, layer, source="", advance=lambda size: None)

    def put_manifest(self, manifest: Document, tag: str = "") -> None:
        url = f"{self.base}/manifests/{tag or manifest.digest}"
        headers = {"Content-Type": manifest.media_type}
        answer = self.ask(
            "PUT", url, takes=(200, 201, 202), headers=headers, content=lambda: manifest.content
        )
        said = answer.headers.get("docker-content-digest", manifest.digest)
        if said != manifest.digest:
            raise UploadError(
                f"{self.reference.registry} has stored another manifest than the one that was sent: {said}",
                hint="a registry that rewrites manifests cannot hold what is signed or pinned",
            )

    def manifest(self, wanted: str) -> Document:
        headers = {"Accept": ", ".join(ANY_MANIFEST)}
        answer = self.ask("GET", f"{self.base}/manifests/{wanted}", takes=(200,), headers=headers)
        where = f"{self.reference.registry}/{self.reference.name}: {wanted}"
        if wanted.startswith("sha256:") and digest_of(answer.content) != wanted:
            raise HashMismatchError(
                f"{where} is not what the registry sends: {digest_of(answer.content)}",
                hint="the registry, or a proxy in between, sent something else",
            )
        said = read_document(answer.content, where)
        media_type = str(
            said.get("mediaType") or answer.headers.get("content-type", MANIFEST).partition(";")[0]
        )
        return Document(content=answer.content, media_type=media_type)

    def config(self, said: Descriptor) -> bytes:
        if said.size > MOST:
            raise BundleError(
                f"the configuration {said.digest} has {said.size} bytes", hint=f"at most {MOST} are read"
            )
        return self.layer(said).read_bytes()

    def layer(self, said: Descriptor) -> Path:
        """Kept in the store, where what an interrupted download left goes on."""
        return fetch_file(
            f"{self.base}/blobs/{said.digest}",
            name=said.digest.removeprefix("sha256:")[:12],
            sha256=said.digest.removeprefix("sha256:"),
            size=said.size,
            headers={"Authorization": self.access.header} if self.access.header else {},
            allow_http=self.plain_http,
            context=self.context,
        )

    def ask(
        self,
        method: str,
        url: str,
        *,
        takes: tuple[int, ...],
        headers: Mapping[str, str] | None = None,
        content: Callable[[], Any] | None = None,
    ) -> Answer:
        """An answer of one of these statuses, asked for until there is one. ``content`` is called for each try."""
        attempt = partial(self.try_once, method, url, takes=takes, headers=headers, content=content)
        return retrying(
            url, attempt, policy=PATIENT, error=self.error, doing=self._doing, unreachable=UNREACHABLE
        )

    def try_once(
        self,
        method: str,
        url: str,
        *,
        takes: tuple[int, ...],
        headers: Mapping[str, str] | None = None,
        content: Callable[[], Any] | None = None,
    ) -> Answer:
        """Raises ``TryAgain`` for what may pass, and errors for refusals; a login that is demanded is made."""
        for _ in range(3):
            answer = self._send(method, url, headers or {}, content)
            if answer.status in takes:
                return answer
            if (
                answer.status != 401
                or not answer.own
                or not self.access.meet(answer.headers.get("www-authenticate", ""))
            ):
                break
        raise self._refusal(answer)

    def _send(
        self, method: str, url: str, headers: Mapping[str, str], content: Callable[[], Any] | None
    ) -> Answer:
        """The whole answer; at most ``MOST`` bytes."""
        own = url.startswith(f"{self.origin}/")
        if not own:
            self.access.require_elsewhere(url, why="with an upload")
        authorization = {"Authorization": self.access.header} if own and self.access.header else {}
        given = {"Accept-Encoding": "identity", **headers, **authorization}
        request = self.http.build_request(method, url, headers=given, content=content() if content else None)
        # Only what is read may lead elsewhere: whoever leads a write to another host may want what is written.
        answer = self.http.send(request, stream=True, follow_redirects=method in ("GET", "HEAD"))
        return Answer(
            status=answer.status_code,
            reason=foreign(answer.reason_phrase),
            headers=answer.headers,
            own=str(answer.url).startswith(f"{self.origin}/"),
            content=read_answer(answer, who=self.reference.registry, error=self.error),
        )

    def _refusal(self, answer: Answer) -> Exception:
        status = answer.status
        said = f"{status} {answer.reason}".strip() + _reason(answer)
        if status in PASSING:
            seconds = retry_after(answer.headers.get("retry-after"))
            if seconds is None or seconds <= LONGEST_PAUSE:
                return TryAgain(f"the registry says {said}", after=seconds, hint="try again later")
            said += f"; it asks to come back in {seconds:.0f} s"
        if status == 401:
            return self.access.refused()
        place = self.reference
        cannot = f"cannot {self._doing} {place.registry}/{place.name}: the registry says {said}"
        if 300 <= status < 400:
            return self.error(
                cannot,
                hint=f"it leads to {foreign(answer.headers.get('location', 'nowhere'))[:200]}: name the registry there",
            )
        hints = {
            403: "check that your account may do that there",
            404: "check the name and the tag"
            if self.error is DownloadError
            else "create the repository first, and check its name",
            429: "try again later",
        }
        return self.error(
            cannot, hint=hints.get(status, "the registry may want something that edgepack does not do")
        )

    @property
    def _doing(self) -> str:
        return "pull" if self.error is DownloadError else "push to"

    @property
    def _mounts(self) -> Mounts:
        return Mounts(registry=self.reference.registry, context=self.context)


@contextmanager
def open_registry(
    reference: Reference, *, push: bool, plain_http: bool, context: BuildContext
) -> Iterator[Registry]:
    """A connection to a registry: TLS, unless it is this machine or ``plain_http`` says otherwise."""
    host = reference.host
    name, _, port = host.rpartition(":")
    plain = plain_http or is_loopback((name if port.isdigit() and name else host).strip("[]"))
    error: type[EdgepackError] = UploadError if push else DownloadError
    scope = f"repository:{reference.name}:{'pull,push' if push else 'pull'}"
    with client(PATIENT, allow_http=plain_http) as http:
        access = Access(
            http=http,
            registry=reference.registry,
            scopes=(scope,),
            credentials=find_credentials(reference.registry, reference.name, context=context),
            error=error,
        )
        yield Registry(
            reference=reference,
            http=http,
            access=access,
            origin=f"{'http' if plain else 'https'}://{host}",
            plain_http=plain_http,
            error=error,
            context=context,
        )


def _reason(answer: Answer) -> str:
    """Reason of a refusal in the registry's own words, shortened."""
    try:
        (first, *_) = json.loads(answer.content)["errors"]
        words = str(first.get("message") or first.get("code"))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ""
    return f" ({foreign(words[:200])})"
