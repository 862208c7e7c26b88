"""One HTTP/1.1 connection: h11 knows the protocol; time and size limits are here.

Every wait has an end, so that slow and silent clients cost a connection only for a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import gmtime, monotonic, strftime

import h11

from .question import Refused

CHUNK = 1 << 16
MAX_HEADER = 1 << 14
ONCE = (b"content-type", b"authorization", b"origin")
"""What stands before this server may have looked at the other one. (Of Host, h11 takes one only.)"""
EVENTS = 64
"""Pieces of a body that are read before others have their turn: 64 kB may hold thousands of chunks of two bytes."""
LINGER_SECONDS = 2.0
LINGER_BYTES = 1 << 20


class Request:
    """A request, read whole."""

    def __init__(self, method: str, target: str, headers: dict[str, str], body: bytes) -> None:
        self.method = method
        self.path = target.partition("?")[0]
        self.headers = headers
        """Names in lower case; of a name that came twice, the last. None of ``ONCE`` does."""
        self.body = body


class Response:
    """What is sent back."""

    def __init__(
        self,
        status: int,
        body: bytes,
        *,
        kind: str = "application/json",
        headers: dict[str, str] | None = None,
    ) -> None:
        self.status = status
        self.body = body
        self.kind = kind
        self.headers = headers or {}


class Bodies:
    """The bytes of all requests that are read or answered at the moment, so that many slow clients cannot fill the memory."""

    def __init__(self, most: int) -> None:
        self._left = most

    def take(self, count: int) -> None:
        """Raises ``Refused`` where the server has no room for more at the moment."""
        if count > self._left:
            raise Refused(
                503,
                "the requests being read take all the memory that --max-bodies allows",
                headers={"Retry-After": "1"},
            )
        self._left -= count

    def give_back(self, count: int) -> None:
        self._left += count


class Closed(Exception):  # noqa: N818 - nothing went wrong
    """The client said good-bye between two requests, or nothing for too long."""


class Limits:
    """Seconds and bytes that a connection may take."""

    def __init__(
        self, *, body: int, request: float = 30.0, idle: float = 60.0, sending: float = 30.0
    ) -> None:
        self.body = body
        self.request = request
        """From a request's first byte to its last."""
        self.idle = idle
        """Before a request's first byte."""
        self.sending = sending
        """For the client to take an answer."""


class Connection:
    """Serves the requests of one client, one after the other.

    ``respond`` answers a request; ``check`` may refuse one by its headers, before its body is read; ``refuse`` makes
    the error's answer; ``allow`` says for a page's origin which may read answers; ``closing`` whether this should be the
    last one.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        limits: Limits,
        bodies: Bodies,
        check: Callable[[Request], None],
        respond: Callable[[Request, Connection], Awaitable[Response]],
        refuse: Callable[[str, Refused], Response],
        allow: Callable[[str], str],
        closing: Callable[[], bool],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._limits = limits
        self._bodies = bodies
        self._held = 0
        self._check = check
        self._respond = respond
        self._refuse = refuse
        self._allow = allow
        self._closing = closing
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEADER)
        self._method = self._path = self._origin = ""
        self.idle = True
        """Whether it waits for a request's first byte: it can be closed without a loss."""

    def gone(self) -> bool:
        """Whether the client has broken off."""
        return self._writer.transport.is_closing()

    async def serve(self) -> None:
        """Until either side has had enough."""
        try:
            while await self._serve_one():
                pass
        except (Closed, ConnectionError):
            pass
        finally:
            await self._close()

    async def _close(self) -> None:
        self._writer.close()
        try:
            await asyncio.wait_for(self._writer.wait_closed(), self._limits.sending)
        except (TimeoutError, ConnectionError):
            self._writer.transport.abort()

    async def _serve_one(self) -> bool:
        """Answer one request; whether another may follow."""
        try:
            return await self._answer_one()
        finally:
            self._bodies.give_back(self._held)
            self._held = 0

    async def _answer_one(self) -> bool:
        self._method = self._path = self._origin = ""
        try:
            request = await self._read()
            response = await self._respond(request, self)
        except Refused as refused:
            response = self._refuse(self._path, refused)
        except h11.RemoteProtocolError as error:
            unsound = Refused(error.error_status_hint, f"malformed HTTP request: {error}")
            response = self._refuse(self._path, unsound)
        whole = self._http.their_state is h11.DONE
        await self._send(response, last=self._closing() or not whole)
        if not whole:
            await self._linger()
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    async def _read(self) -> Request:
        """The next request. Raises ``Closed``, ``Refused`` and what h11 raises."""
        if not self._http.trailing_data[0]:
            await self._await_first_byte()
        end = monotonic() + self._limits.request
        event = await self._event(end)
        if not isinstance(event, h11.Request):
            raise Closed
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
        names = [name for name, _ in event.headers]
        twice = [name.decode() for name in ONCE if names.count(name) > 1]
        self._method = event.method.decode("latin-1")
        request = Request(self._method, event.target.decode("latin-1"), headers, b"")
        self._path = request.path
        self._origin = headers.get("origin", "")
        if twice:
            raise Refused(400, f"malformed HTTP request: several headers {twice[0]}")
        # Where it ends depends on who reads it: another request may be hidden in it.
        if {"content-length", "transfer-encoding"} <= headers.keys():
            raise Refused(400, "malformed HTTP request: Content-Length beside Transfer-Encoding")
        self._check(request)
        if int(headers.get("content-length", "0")) > self._limits.body:
            raise self._too_large()
        if self._http.they_are_waiting_for_100_continue:
            await self._write(self._http.send(h11.InformationalResponse(status_code=100, headers=[])))
        request.body = await self._read_body(end)
        return request

    async def _await_first_byte(self) -> None:
        self.idle = True
        try:
            data = await asyncio.wait_for(self._reader.read(CHUNK), self._limits.idle)
        except TimeoutError as error:
            raise Closed from error
        self.idle = False
        if not data:
            raise Closed
        self._http.receive_data(data)

    async def _read_body(self, end: float) -> bytes:
        # One buffer: small pieces would each cost more than they hold, and their memory would not go back.
        body, events = bytearray(), 0
        while not isinstance(event := await self._event(end), h11.EndOfMessage):
            events += 1
            if events % EVENTS == 0:
                await asyncio.sleep(0)
            if not isinstance(event, h11.Data):
                continue
            if len(body) + len(event.data) > self._limits.body:
                raise self._too_large()
            self._bodies.take(len(event.data))
            self._held += len(event.data)
            body += event.data
        return bytes(body)

    def _too_large(self) -> Refused:
        return Refused(413, f"the body is larger than {self._limits.body} bytes")

    async def _event(self, end: float) -> object:
        """The next thing that the client says. Raises ``Refused`` when it has not come by ``end``."""
        while (event := self._http.next_event()) is h11.NEED_DATA:
            try:
                data = await asyncio.wait_for(self._reader.read(CHUNK), max(0.0, end - monotonic()))
            except TimeoutError as error:
                raise Refused(408, "the request was not complete in time") from error
            self._http.receive_data(data)
        return event

    async def _send(self, response: Response, *, last: bool) -> None:
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        headers = {
            "Date": strftime("%a, %d %b %Y %H:%M:%S GMT", gmtime()),
            "Server": "embed",
            "Content-Type": response.kind,
            "Content-Length": str(len(response.body)),
            **response.headers,
        }
        if response.status == 204:
            del headers["Content-Type"], headers["Content-Length"]
        if self._origin and (allowed := self._allow(self._origin)):
            headers |= {"Access-Control-Allow-Origin": allowed, "Vary": "Origin"}
        if last:
            headers["Connection"] = "close"
        head = h11.Response(status_code=response.status, headers=list(headers.items()))
        body = b"" if self._method == "HEAD" else response.body
        parts = (head, h11.Data(data=body), h11.EndOfMessage())
        await self._write(*(self._http.send(part) for part in parts))

    async def _write(self, *parts: bytes | None) -> None:
        self._writer.write(b"".join(part for part in parts if part))
        try:
            await asyncio.wait_for(self._writer.drain(), self._limits.sending)
        except TimeoutError as error:
            self._writer.transport.abort()
            raise Closed from error

    async def _linger(self) -> None:
        """Take what is still coming for a moment: closing at once would reset the connection and lose our answer."""
        if self._writer.can_write_eof():
            self._writer.write_eof()
        end, size = monotonic() + LINGER_SECONDS, 0
        try:
            while size < LINGER_BYTES:
                data = await asyncio.wait_for(self._reader.read(CHUNK), max(0.0, end - monotonic()))
                if not data:
                    return
                size += len(data)
        except (TimeoutError, ConnectionError):
            return
