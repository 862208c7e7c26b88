"""Models of the Hugging Face hub, or of a server that answers like it: ``hf:ORG/NAME[@REVISION]``."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from edgepack.context import BuildContext
from edgepack.errors import DownloadError, HashMismatchError, ModelError, UsageError
from edgepack.fetch import http
from edgepack.fetch.download import download, fetch_file, require_online
from edgepack.fetch.hub_library import by_hub_library, in_hub_cache, require_download, token_of_login
from edgepack.files.folder import is_below
from edgepack.files.store import sha256_of, written_beside
from edgepack.models.read.documents import most_of
from edgepack.records.model import RemoteModel

HUB_PREFIX = "hf:"
DEFAULT_ENDPOINT = "https://huggingface.co"
DENIED_HINT = (
    "check the name; a private or gated model of the hub needs a token: `hf auth login`, or HF_TOKEN"
)


@dataclass(frozen=True, kw_only=True)
class FileRequest:
    """Address of a file, and what to say to get it."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    allow_http: bool = False


@dataclass(frozen=True, kw_only=True)
class HubFile:
    """A file as the hub lists it; large ones come with their digest."""

    path: str
    size: int | None = None
    sha256: str | None = None
    blob: str | None = None
    """What git calls the content of a small one."""


@dataclass(frozen=True, kw_only=True)
class Listing:
    """Listing of a repository at one commit."""

    commit: str
    files: Mapping[str, HubFile]


def endpoint() -> str:
    """``$HF_ENDPOINT``, or the hub."""
    named = (os.environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT).rstrip("/")
    if not named.startswith(("https://", "http://")):
        raise UsageError(
            f"HF_ENDPOINT is not an address: {named}", hint=f"e.g. HF_ENDPOINT={DEFAULT_ENDPOINT}"
        )
    return named


def _token() -> str | None:
    token = (os.environ.get("HF_TOKEN") or token_of_login() or "").strip()
    if token and re.fullmatch(r"[\x21-\x7e]+", token) is None:
        raise UsageError(
            "HF_TOKEN, or the token of `hf auth login`, contains characters that are invalid in a token",
            hint="copy it again from the hub's settings",
        )
    return token or None


def parse_repository(form: str) -> tuple[str, str]:
    """Repository and revision out of ``hf:ORG/NAME[@REVISION]``."""
    given = re.fullmatch(r"hf:([\w.-]+(?:/[\w.-]+)?)(?:@([\w./-]+))?", form)
    if given is None or ".." in form:
        raise ModelError(
            f"{form!r} does not name a model of the hub", hint="write hf:ORG/NAME or hf:ORG/NAME@REVISION"
        )
    return given.group(1), given.group(2) or "main"


def file_request(form: str, path: str) -> FileRequest:
    """How one file of ``hf:ORG/NAME@REVISION`` is asked for."""
    repository, revision = parse_repository(form)
    return _request(f"{repository}/resolve/{quote(revision, safe='')}/{quote(path)}")


def _request(path: str) -> FileRequest:
    # Who names an endpoint by http:// in HF_ENDPOINT means it: mirrors inside a company are often such.
    base = endpoint()
    headers = {"Authorization": f"Bearer {token}"} if (token := _token()) else {}
    return FileRequest(url=f"{base}/{path}", headers=headers, allow_http=base.startswith("http://"))


@dataclass(frozen=True, kw_only=True)
class Hub:
    """The source of ``hf:`` addresses (``edgepack.api.axes.Source``)."""

    def find(self, address: str, *, context: BuildContext) -> RemoteModel:
        """A model at one commit. A branch is asked for its newest; offline, the one seen last counts."""
        repository, revision = parse_repository(address)
        listing = _listing(repository, revision, context)
        origin = f"{HUB_PREFIX}{repository}@{listing.commit}"

        def fetch(name: str, destination: Path) -> None:
            if name not in listing.files:
                raise ModelError(f"{origin} has no {name}", hint="get the model whole, or take another")
            with _denied_by_the_hub():
                _fetch(listing.files[name], repository, listing.commit, destination, context)

        return RemoteModel(
            name=repository,
            origin=origin,
            pins={"hub": origin, "endpoint": endpoint()},
            files=tuple(listing.files),
            fetch=fetch,
        )


@contextmanager
def _denied_by_the_hub() -> Iterator[None]:
    """A refusal's hint names the hub's token, which no other server asks for."""
    try:
        yield
    except DownloadError as error:
        if error.hint == http.DENIED_HINT:
            error.hint = DENIED_HINT
        raise


def _fetch(file: HubFile, repository: str, commit: str, destination: Path, context: BuildContext) -> None:
    """The file out of the user's cache of the hub, or downloaded into it; by edgepack where the hub's library cannot.

    Whatever gives it, it is the file that the hub lists for the commit, by its digest. The library writes where a server's headers
    say, and as much as it sends: only the hub itself is asked by it.
    """
    if _taken(in_hub_cache(repository, file.path, commit), file, destination):
        return
    require_download(repository, file.path)
    if endpoint() == DEFAULT_ENDPOINT:
        made = by_hub_library(repository, file.path, commit, endpoint=DEFAULT_ENDPOINT, token=_token())
        if _taken(made, file, destination):
            return
    request = file_request(f"{HUB_PREFIX}{repository}@{commit}", file.path)
    if file.sha256 is None:
        download(
            request.url,
            destination,
            size=file.size,
            most=most_of(file.path),
            headers=request.headers,
            allow_http=request.allow_http,
        )
        if not _is(destination, file):
            destination.unlink()
            raise HashMismatchError(
                f"{file.path} of {repository} is not what the hub lists for {commit}",
                hint="check HF_ENDPOINT",
            )
        return
    fetched = fetch_file(
        request.url,
        sha256=file.sha256,
        size=file.size,
        most=most_of(file.path),
        headers=request.headers,
        allow_http=request.allow_http,
        context=context,
    )
    fetched.replace(destination)


def _taken(found: Path | None, file: HubFile, destination: Path) -> bool:
    """Whether what was found is that file, and copied. The copy is looked at: others may write where it was found."""
    if found is None or file.size not in (None, found.stat().st_size):
        return False
    shutil.copyfile(found, destination)
    if _is(destination, file):
        return True
    destination.unlink()
    return False


def _is(path: Path, file: HubFile) -> bool:
    """Whether a file has the digest that the hub lists: a large one's SHA-256, a small one's name in git."""
    if file.sha256 is not None:
        return sha256_of(path) == file.sha256
    size = path.stat().st_size
    if file.blob is None:
        return file.size in (None, size)
    digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    with path.open("rb") as stream:
        while piece := stream.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest() == file.blob


def _listing(repository: str, revision: str, context: BuildContext) -> Listing:
    """Listing of a revision; remembered, for when the hub cannot be asked."""
    is_commit = re.fullmatch(r"[0-9a-f]{40}", revision) is not None
    last = _remembered(repository, revision, context)
    if is_commit and last is not None and last.commit != revision:
        last = None
    if last is not None and (is_commit or context.offline):
        return last
    require_online(context, f"{HUB_PREFIX}{repository}@{revision}")
    request = _request(f"api/models/{repository}/revision/{quote(revision, safe='')}?blobs=true")
    try:
        with _denied_by_the_hub():
            answer = http.ask(request.url, headers=request.headers, allow_http=request.allow_http)
    except DownloadError as error:
        if not http.is_passing(error) or last is None:
            raise
        context.warn(f"{HUB_PREFIX}{repository}@{revision}: {error.message}; using the last known commit")
        return last
    listing = _read_listing(answer, repository)
    if is_commit and listing.commit != revision:
        raise DownloadError(
            f"the hub lists the commit {listing.commit} of {repository} in the place of {revision}",
            hint="check HF_ENDPOINT",
        )
    for name in (revision, listing.commit):
        with written_beside(_memory(repository, name, context)) as temporary:
            temporary.write_bytes(answer)
    return listing


def _memory(repository: str, revision: str, context: BuildContext) -> Path:
    inputs = {"endpoint": endpoint(), "repository": repository, "revision": revision}
    return context.store.folder("hub", inputs) / "listing.json"


def _remembered(repository: str, revision: str, context: BuildContext) -> Listing | None:
    """Listing of the revision from the last time; ``None`` where that is not known, or damaged."""
    try:
        return _read_listing(_memory(repository, revision, context).read_bytes(), repository)
    except (OSError, DownloadError):
        return None


def _read_listing(answer: bytes, repository: str) -> Listing:
    try:
        document = json.loads(answer)
        commit = str(document["sha"])
        files = {file.path: file for file in map(_hub_file, document["siblings"])}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DownloadError(
            f"the hub's answer for {repository} is invalid", hint="check HF_ENDPOINT"
        ) from error
    if re.fullmatch(r"\w[\w.-]*", commit) is None:
        raise DownloadError(f"the hub names no commit of {repository}", hint="check HF_ENDPOINT")
    if outside := [name for name in files if not is_below(name)]:
        raise DownloadError(
            f"the hub lists {outside[0]!r}, which is no path below the folder of {repository}",
            hint="check HF_ENDPOINT",
        )
    return Listing(commit=commit, files=files)


def _hub_file(entry: Mapping[str, Any]) -> HubFile:
    large = entry.get("lfs") or {}
    size, sha256 = large.get("size", entry.get("size")), large.get("sha256")
    if not isinstance(size, int | None) or not isinstance(sha256, str | None):
        raise ValueError(f"{size!r} is no size, or {sha256!r} no digest")
    path = entry["rfilename"]
    if not isinstance(path, str) or not path.isprintable():
        raise ValueError(f"{path!r} is no name of a file")
    blob = entry.get("blobId")
    named = isinstance(blob, str) and re.fullmatch(r"[0-9a-f]{40}", blob) is not None
    return HubFile(path=path, size=size, sha256=sha256, blob=blob if named else None)
