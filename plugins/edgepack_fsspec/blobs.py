"""``BlobStore`` on a file system of fsspec."""

from __future__ import annotations

import os
import posixpath
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from edgepack.api import MissingToolError, UsageError
from edgepack.fetch.http import is_loopback, leads_here
from edgepack.files.store import copy_at_most

FOLDERS = {"file", "local"}
RENAMES = {*FOLDERS, "sftp", "ssh"}
"""Protocols of file systems where half a file can be seen while it is written, and renaming is one step."""
PUTS = {"http", "https"}
CONFLICT = 409
"""What a WebDAV server says of what would lie in a folder that is not there (RFC 4918, 9.3.1)."""
INSTALL = "pip install 'edgepack[store]'"


def opener() -> Callable[[str], Blobs]:
    """Function that opens a store, for the axis ``store``."""
    return open_store


def open_store(url: str) -> Blobs:
    """Raises ``MissingToolError`` where fsspec, or what it reaches such a place with, is not installed; ``UsageError`` for no address."""
    try:
        import fsspec
    except ImportError as error:
        raise MissingToolError(
            f"the store {url} is reached by fsspec, which is not installed", hint=INSTALL
        ) from error
    scheme = url.partition("://")[0] if "://" in url else "file"
    # Of what is in the store nothing is remembered: others write there, too. Its own loop: workers may be threads of another one.
    options: dict[str, Any] = {} if scheme in ("file", "memory") else {"use_listings_cache": False}
    try:
        if scheme in PUTS:
            said = fsspec.config.conf.get(scheme, {}).get("client_kwargs", {})
            # Proxies and passwords where downloads have theirs: the environment and ~/.netrc.
            options["client_kwargs"] = {"trust_env": True, "trace_configs": [_elsewhere()], **said}
        system, root = fsspec.url_to_fs(url, **options)
    except ImportError as error:
        raise MissingToolError(
            f"the store {url} cannot be reached: {error}", hint=f"{INSTALL}, or the package that is named"
        ) from error
    except ValueError as error:
        raise UsageError(
            f"{url} is no address of a store: {error}", hint="e.g. s3://BUCKET/edgepack, or a folder"
        ) from error
    return Blobs(system=system, root=str(root).rstrip("/"), scheme=scheme)


def _elsewhere() -> Any:
    """Trace of aiohttp by which no server elsewhere sends a request, which may write, to a service of this machine."""
    from aiohttp import TraceConfig

    async def look(session: Any, context: Any, redirect: Any) -> None:
        there = redirect.url.join(type(redirect.url)(redirect.response.headers.get("Location", "")))
        if leads_here(there.host or "") and not is_loopback(redirect.url.host or ""):
            raise OSError(f"it leads to {there.host}, which is this machine")

    trace = TraceConfig()
    trace.on_request_redirect.append(look)
    return trace


@dataclass(frozen=True, kw_only=True)
class Blobs:
    """``edgepack.api.axes.BlobStore``."""

    system: Any
    """``fsspec.AbstractFileSystem``; fsspec says nothing of its types."""
    root: str
    scheme: str
    folders: set[str] = field(default_factory=set)
    """Of a server of HTTP: those that it was told to make."""
    sizes: dict[str, int | None] = field(default_factory=dict)
    """What was last said of a file: nobody is listened to for more."""

    def get(self, name: str, destination: Path) -> bool:
        from fsspec import Callback

        most = self.sizes.pop(name) if name in self.sizes else self.size(name)

        def look(size: int | None, value: int) -> None:
            if value > (most or 0):
                raise OSError(f"{name} is more than the {most or 0} bytes that the store says")

        place = self._place(name)
        try:
            if self.scheme in FOLDERS:  # fsspec copies one whole, and says nothing meanwhile
                copy_at_most(Path(place), destination, most or 0)
            else:
                self.system.get_file(place, str(destination), callback=Callback(hooks={"": look}))
        except FileNotFoundError:
            return False
        return True

    def has(self, name: str) -> bool:
        # A server that refuses or fails has no answer to that, which fsspec takes for a no by default.
        how = {"strict": True} if self.scheme in PUTS else {}
        return bool(self.system.exists(self._place(name), **how))

    def size(self, name: str) -> int | None:
        try:
            found = self.system.info(self._place(name))
        except FileNotFoundError:
            return None
        if found["type"] != "file":
            raise OSError(f"{name} is no file")  # a device has no end
        size: int | None = found.get("size")
        self.sizes[name] = size
        return size

    def put(self, name: str, source: Path) -> None:
        place = self._place(name)
        if self.scheme in PUTS:
            self._put_http(place, source)
        elif self.scheme in RENAMES:
            self._put_beside(place, source)
        else:
            self.system.put_file(str(source), place)

    def _put_http(self, place: str, source: Path) -> None:
        """A server that wants a folder may end the connection before it has the file, and what it says with it: folders come first."""
        from fsspec.asyn import sync

        folder = posixpath.dirname(place)
        if folder not in self.folders:
            sync(self.system.loop, self._make_folder, folder)
            self.folders.add(folder)
        self.system.put_file(str(source), place, method="put")

    async def _make_folder(self, place: str) -> None:
        """Makes a folder of a WebDAV server, and those that it is in. What any server says to that is not asked: PUT says it."""
        session = await self.system.set_session()
        address = self.system.encode_url(place)
        async with session.request("MKCOL", address) as reply:
            status = reply.status
        if status == CONFLICT and urlsplit(place).path.strip("/"):
            await self._make_folder(posixpath.dirname(place))
            async with session.request("MKCOL", address):
                pass

    def _put_beside(self, place: str, source: Path) -> None:
        folder, name = posixpath.split(place)
        temporary = f"{folder}/.{name}-{uuid.uuid4().hex}"
        self.system.makedirs(folder, exist_ok=True)
        try:
            self.system.put_file(str(source), temporary)
            self.system.mv(temporary, place)
        finally:
            if self.system.exists(temporary):
                self.system.rm_file(temporary)

    def _place(self, name: str) -> str:
        place = f"{self.root}/{name}"
        if self.scheme in FOLDERS:
            # Others may write there, links too.
            inside, leads = os.path.realpath(self.root), os.path.realpath(place)
            if os.path.commonpath((inside, leads)) != inside:
                raise OSError(f"{name} leads out of the store")
        return place
