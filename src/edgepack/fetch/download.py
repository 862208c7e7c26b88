"""The one download: a file, fetched whole, checked, and only then put in its place."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote, urlsplit

from edgepack.context import BuildContext, Progress
from edgepack.errors import DiskFullError, DownloadError, HashMismatchError
from edgepack.fetch import http as network
from edgepack.fetch.http import PATIENT, Policy, TryAgain, redacted
from edgepack.files.store import default_root, disk_errors, disk_full, free_bytes, remove, sha256_of

if TYPE_CHECKING:
    import httpx

SLOW_AFTER, SLOWEST = 60.0, 256
"""Seconds, and bytes a second: a connection that is slower for so long is given up, and the file is asked for again."""
MIN_GAIN = 1 << 20
"""Bytes that count as getting further, so that a long file outlives any number of short connections."""
MOST = 64 << 30
"""Bytes of a file whose size nobody knows: a server may send for ever."""


class OpenProgress(Protocol):
    """``BuildContext.progress``, or anything that is called like it."""

    def __call__(
        self, label: str, total: int | None = None, *, unit: str = ""
    ) -> AbstractContextManager[Progress]: ...


@dataclass(kw_only=True)
class _Transfer:
    """A download under way. Mutable: it remembers between attempts what the server said."""

    url: str
    name: str
    part: Path
    headers: Mapping[str, str]
    pinned: bool
    """Whether a digest will tell if two halves do not belong together."""
    progress: OpenProgress | None
    stack: ExitStack
    size: int | None = None
    """Bytes that the file has, where that is known: nobody is listened to for more."""
    most: int = MOST
    """Bytes that it may have, whatever is said of it."""
    total: int | None = None
    validator: str | None = None
    resumed: bool = False
    furthest: int = 0
    counted_from: int = 0
    bar: Progress | None = field(default=None)

    def here(self) -> int:
        """Bytes in the partial file."""
        try:
            return self.part.stat().st_size
        except FileNotFoundError:
            return 0

    def reached(self, offset: int) -> None:
        """Move the bar; what comes a second time is not counted twice."""
        if self.bar is not None and offset > self.furthest:
            self.bar.advance(offset - self.furthest)
        self.furthest = max(self.furthest, offset)

    def gained(self) -> bool:
        """Whether this attempt came further than those before it."""
        if self.furthest < self.counted_from + MIN_GAIN:
            return False
        self.counted_from = self.furthest
        return True


def download(
    url: str,
    destination: Path,
    *,
    sha256: str | None = None,
    size: int | None = None,
    most: int | None = None,
    headers: Mapping[str, str] | None = None,
    progress: OpenProgress | None = None,
    policy: Policy = PATIENT,
    allow_http: bool = False,
) -> Path:
    """Fetch ``url`` to ``destination`` and return that path.

    The bytes gather in ``DESTINATION.part`` beside it. A broken connection is continued if the server says that the
    file is still the same or ``sha256`` will tell, an interrupted program only in the latter case. ``size`` is bytes, ``most`` how many they may be. The caller
    sees to it that no other process downloads to the same place (``Store.lock``). ``progress`` is called once the
    size is known, with unit ``B``. Raises ``DownloadError``, ``HashMismatchError`` (naming both digests; the
    file is gone then), ``DiskFullError`` or ``OutputError``.
    """
    part = destination.with_name(f"{destination.name}.part")
    with disk_errors(destination):
        part.parent.mkdir(parents=True, exist_ok=True)
        if sha256 is None or part.is_symlink() or not part.is_file():
            remove(part)
    try:
        with network.client(policy, allow_http=allow_http) as client, ExitStack() as stack:
            transfer = _Transfer(
                url=url,
                name=destination.name,
                part=part,
                headers=headers or {},
                pinned=sha256 is not None,
                progress=progress,
                stack=stack,
                size=size,
                most=most or MOST,
                total=size,
            )
            _fetch_checked(client, transfer, sha256, size, policy)
    except DiskFullError:
        part.unlink(missing_ok=True)
        raise
    with disk_errors(destination):
        part.replace(destination)
    return destination


def _fetch_checked(
    client: httpx.Client, transfer: _Transfer, sha256: str | None, size: int | None, policy: Policy
) -> None:
    """Complete the partial file and check it; one put together from two answers gets a second chance in one piece."""
    for again in (True, False):
        network.retrying(
            transfer.url, lambda: _attempt(client, transfer), policy=policy, gained=transfer.gained
        )
        problem = _difference(transfer, sha256, size)
        if problem is None:
            return
        transfer.part.unlink()
        if not (again and transfer.resumed):
            raise problem
        transfer.total = transfer.validator = None


def _difference(
    transfer: _Transfer, sha256: str | None, size: int | None
) -> HashMismatchError | DownloadError | None:
    """Error about the complete partial file, if it is not the file that was asked for."""
    if sha256 is not None:
        found = sha256_of(transfer.part)
        if found == sha256.lower():
            return None
        return HashMismatchError(
            f"{redacted(transfer.url)} does not match its pinned digest: sha256 {found}, expected {sha256.lower()}",
            hint="the server, or a proxy in between, sent a different file",
        )
    if size is not None and transfer.here() != size:
        return DownloadError(
            f"{redacted(transfer.url)} has {transfer.here()} bytes, expected {size}",
            hint="the server, or a proxy in between, sent a different file",
        )
    return None


def _attempt(client: httpx.Client, transfer: _Transfer) -> None:
    """One request, for what is still missing."""
    offset = transfer.here() if transfer.pinned or transfer.validator else 0
    if offset and offset == transfer.total:
        transfer.resumed = True
        return
    headers = {**transfer.headers, "Accept-Encoding": "identity"}
    if offset:
        headers["Range"] = f"bytes={offset}-"
        if transfer.validator is not None:
            headers["If-Range"] = transfer.validator
    with client.stream("GET", transfer.url, headers=headers) as response:
        if offset and response.status_code == 416:
            if _total_of_range(response) == offset:
                transfer.resumed = True
                return
            _start_over(transfer, "the server has no more of the file than is here")
        network.check_status(response)
        if response.status_code == 206:
            _check_continuation(response, transfer, offset)
            transfer.resumed = True
        else:
            offset = 0
        _receive(response, transfer, offset)


def _start_over(transfer: _Transfer, reason: str) -> None:
    transfer.part.unlink(missing_ok=True)
    transfer.validator = None
    raise TryAgain(reason, after=0.0)


def _check_continuation(response: httpx.Response, transfer: _Transfer, offset: int) -> None:
    """Start over when a partial answer is not the rest of the same file."""
    given = re.match(r"bytes ([0-9]+)-", response.headers.get("content-range", ""))
    if given is None or network.number(given.group(1)) != offset:
        _start_over(transfer, "the server continued the file at another place")
    if transfer.validator is not None and _validator(response) != transfer.validator:
        _start_over(transfer, "the file has changed on the server")


def _validator(response: httpx.Response) -> str | None:
    """Header that changes when the file does: a strong ETag, else the date (RFC 9110, 13.1.5, for If-Range)."""
    etag: str = response.headers.get("etag", "")
    dated: str | None = response.headers.get("last-modified")
    return dated if not etag or etag.startswith("W/") else etag


def _total_of_range(response: httpx.Response) -> int | None:
    return network.number(response.headers.get("content-range", "").rpartition("/")[2])


def _receive(response: httpx.Response, transfer: _Transfer, offset: int) -> None:
    """Append the answer's bytes to the partial file, of which the first ``offset`` are kept."""
    length = network.number(response.headers.get("content-length", ""))
    transfer.total = _total_of_range(response) if length is None else offset + length
    transfer.validator = _validator(response)
    _require_no_more(transfer, transfer.total or 0)
    if (transfer.total or transfer.size or 0) - offset > free_bytes(transfer.part):
        raise disk_full(transfer.part, cache=default_root())
    if transfer.bar is None and transfer.progress is not None:
        opened = transfer.progress(f"download {transfer.name}", transfer.total, unit="B")
        transfer.bar = transfer.stack.enter_context(opened)
    transfer.reached(offset)
    with disk_errors(transfer.part), transfer.part.open("ab" if offset else "wb") as stream:
        # In the pieces that come: with a chunk size, httpx loses what it has gathered when the connection breaks.
        since, before = time.monotonic(), offset
        for chunk in response.iter_raw():
            offset += len(chunk)
            _require_no_more(transfer, offset)
            stream.write(chunk)
            transfer.reached(offset)
            if time.monotonic() - since > SLOW_AFTER:
                if offset - before < SLOW_AFTER * SLOWEST:
                    raise TryAgain(f"the server sends less than {SLOWEST} bytes a second")
                since, before = time.monotonic(), offset
    if transfer.total is not None and offset != transfer.total:
        raise TryAgain(f"the connection ended after {offset} of {transfer.total} bytes")


def _require_no_more(transfer: _Transfer, received: int) -> None:
    """Raise ``HashMismatchError`` for a server that sends more: a disk would be full of what nobody asked for."""
    if received > (most := min(transfer.most, transfer.most if transfer.size is None else transfer.size)):
        transfer.part.unlink(missing_ok=True)
        raise HashMismatchError(
            f"{redacted(transfer.url)} is more than the {most} bytes that it may have",
            hint="the server, or a proxy in between, sent a different file",
        )


def fetch_file(
    url: str,
    *,
    sha256: str,
    context: BuildContext,
    name: str = "",
    size: int | None = None,
    most: int | None = None,
    headers: Mapping[str, str] | None = None,
    policy: Policy = PATIENT,
    allow_http: bool = False,
) -> Path:
    """A file of known content, fetched once and kept in the store under ``name``, else that in the address; a damaged one is fetched again.

    Raises what ``download`` raises; offline, ``DownloadError`` when the store does not have it.
    """
    name = name or file_name(url)
    folder = context.store.folder("downloads", {"sha256": sha256.lower(), "name": name})
    path = folder / name
    with context.store.lock(folder):
        if path.is_file() and sha256_of(path) == sha256.lower():
            return path
        require_online(context, f"{redacted(url)} (sha256 {sha256.lower()})")
        with disk_errors(path):
            remove(path)
        return download(
            url,
            path,
            sha256=sha256,
            size=size,
            most=most,
            headers=headers,
            progress=context.progress,
            policy=policy,
            allow_http=allow_http,
        )


def require_online(context: BuildContext, what: str) -> None:
    """Raise ``DownloadError`` naming what would be fetched, when nothing may be."""
    if context.offline:
        raise DownloadError(
            f"offline, and not in the cache: {what}",
            hint="run once without --offline to fill the cache, or name a local model with --model FOLDER",
        )


def file_name(url: str) -> str:
    """The last part of an address's path, as a safe file name."""
    last = unquote(urlsplit(url).path).rstrip("/").rpartition("/")[2]
    return re.sub(r"[^\w.+-]", "_", last).lstrip(".") or "download"
