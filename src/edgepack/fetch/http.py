"""How edgepack talks HTTP: which connections are allowed, what is tried again, and what a refusal means to people."""

from __future__ import annotations

import ipaddress
import logging
import os
import queue
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast
from urllib.parse import urlsplit, urlunsplit

from edgepack.errors import DownloadError, EdgepackError, UsageError

if TYPE_CHECKING:
    import ssl

    import httpx

log = logging.getLogger(__name__)

T = TypeVar("T")

TRANSIENT_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
MAX_ANSWER = 8 << 20
"""Bytes that ``ask`` takes at most."""
LONGEST = 300.0
"""Seconds until an answer begins, however many bytes come before, and until a short one has ended."""
LONGEST_PAUSE = 120.0
"""Seconds; a server that asks for more is asked again by the user, not by us."""
MOST_PAUSES = 900.0
"""Seconds between all attempts together, however much each of them gained."""

UNREACHABLE_HINT = (
    "check the connection (HTTPS_PROXY, NO_PROXY and SSL_CERT_FILE are honoured); without a network, --offline works "
    "with what is cached and --model FOLDER with a model on this disk"
)
DENIED_HINT = "check the name, and that you may read what it names"


@dataclass(frozen=True, kw_only=True)
class Probe:
    """Size and validator of a file, which the server tells without sending it."""

    size: int | None
    validator: str
    """Changes when the file changes (ETag, else date and size); empty when the server does not tell."""


@dataclass(frozen=True, kw_only=True)
class Policy:
    """How hard to try."""

    attempts: int = 5
    """Failures in a row that end it."""
    connect_timeout: float = 15.0
    """Seconds."""
    read_timeout: float = 60.0
    """Seconds without a single byte."""


PATIENT = Policy()
HASTY = Policy(attempts=2, connect_timeout=5.0, read_timeout=20.0)
"""For a place that has another one behind it."""


class TryAgain(Exception):  # noqa: N818 - a request, caught in here
    """An attempt that failed in a way that may pass."""

    def __init__(
        self,
        reason: str,
        *,
        hint: str | None = None,
        after: float | None = None,
        at_most: int | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint
        """None: what is said where a server cannot be reached."""
        self.after = after
        """Seconds that the server asked for."""
        self.at_most = at_most
        """Attempts that make sense at all for this reason."""


def patience(size: int) -> float:
    """Seconds that another program may take to fetch so many bytes, at most half a day; how quick it is, it does not tell."""
    return LONGEST + min(size / (32 << 10), 43200)


def pause(seconds: float) -> None:
    """Wait between two attempts."""
    time.sleep(seconds)


def back_off(failures: int) -> float:
    """Seconds to wait after that many failures in a row: 0.5, 1, 2, 4, … at most 30."""
    return float(min(0.5 * 2 ** (failures - 1), 30.0))


def retrying(
    url: str,
    attempt: Callable[[], T],
    *,
    policy: Policy,
    gained: Callable[[], bool] | None = None,
    error: type[EdgepackError] = DownloadError,
    doing: str = "fetch",
    unreachable: str = UNREACHABLE_HINT,
) -> T:
    """Result of ``attempt()``, called again with growing pauses while it fails in ways that may pass.

    ``gained()`` tells whether the last attempt came further than all before it: then the count starts anew.
    Raises ``error``: ``cannot DOING URL: …``, with the hint ``unreachable`` where there was no answer.
    """
    failures, paused = 0, 0.0
    while True:
        try:
            with _transport_errors(f"cannot {doing} {redacted(url)}", error):
                return attempt()
        except TryAgain as failure:
            failures = 1 if gained and gained() else failures + 1
            if failures >= min(policy.attempts, failure.at_most or policy.attempts):
                raise error(
                    f"cannot {doing} {redacted(url)}: {failure.reason}", hint=failure.hint or unreachable
                ) from failure
            seconds = back_off(failures) if failure.after is None else failure.after
            paused += seconds
            if paused > MOST_PAUSES:
                raise error(
                    f"cannot {doing} {redacted(url)}: after {MOST_PAUSES:.0f} s of waiting still: {failure.reason}",
                    hint=failure.hint or unreachable,
                ) from failure
            log.debug("%s: %s; again in %.1f s", redacted(url), failure.reason, seconds)
            pause(seconds)


@cache
def _certificates(trust_env: bool, file: str | None, folder: str | None) -> ssl.SSLContext:
    """Those that a client trusts, read once: that takes 60 ms. The variables are httpx's, and here for the cache to know them."""
    import httpx

    return httpx.create_ssl_context(trust_env=trust_env)


@contextmanager
def client(policy: Policy, *, allow_http: bool = False, direct: bool = False) -> Iterator[httpx.Client]:
    """A client that follows redirects, honours the system's proxies and certificates, and refuses plain HTTP.

    ``direct``: past proxies and whatever else the environment says. ``Authorization`` does not follow a redirect to another host (httpx drops it).
    """
    import httpx

    from edgepack import __version__

    def check(request: httpx.Request) -> None:
        url = str(request.url)
        if not (allow_http or is_safe(url)):
            raise DownloadError(
                f"{redacted(url)} is not an https URL", hint="a redirect to plain http is not followed"
            )

    def check_redirect(response: httpx.Response) -> None:
        if not response.has_redirect_location:
            return
        # httpx reads a redirect's body whole, and unpacks it, before it goes on: a body without an end takes all memory.
        response.stream.close()  # type: ignore[union-attr]
        response.stream = httpx.ByteStream(b"")
        if is_loopback(response.url.host):
            return
        there = response.url.join(response.headers["location"])
        if leads_here(there.host):
            raise DownloadError(
                f"{redacted(str(response.url))} leads to {there.host}, which is this machine",
                hint="a redirect from elsewhere to a service of this machine is not followed",
            )

    class Taken(httpx.SyncByteStream):
        """A body that is sent, and when the last piece of it was taken."""

        def __init__(self, pieces: Iterable[bytes]) -> None:
            self.pieces, self.last = pieces, time.monotonic()

        def __iter__(self) -> Iterator[bytes]:
            for piece in self.pieces:
                yield piece
                self.last = time.monotonic()

    class Given(httpx.SyncByteStream):
        """A body that comes, no piece of it later than ``policy`` waits: each byte of what frames the pieces is in time."""

        def __init__(self, body: httpx.SyncByteStream) -> None:
            self.body = body

        def __iter__(self) -> Iterator[bytes]:
            pieces = iter(self.body)
            while piece := self.next(partial(next, pieces, b"")):
                yield piece

        def next(self, read: Callable[[], bytes]) -> bytes:
            began = time.monotonic()
            try:
                return in_time(read, policy.read_timeout, since=lambda: began)
            except TimeoutError as error:
                raise httpx.ReadTimeout(f"nothing has come for {policy.read_timeout:.0f} s") from error

        def close(self) -> None:
            self.body.close()

    class Client(httpx.Client):
        """One that waits no longer than ``LONGEST`` for an answer to begin once all is sent, and for each piece to be taken: each byte of its
        head, or answer before it, is in time.
        """

        def send(self, request: httpx.Request, **how: Any) -> httpx.Response:
            sent = request.stream = Taken(cast("Iterable[bytes]", request.stream))
            try:
                response = in_time(partial(super().send, request, **how), LONGEST, since=lambda: sent.last)
            except TimeoutError as error:
                raise TryAgain(str(error), hint="try again later", at_most=1) from error
            response.stream = Given(cast("httpx.SyncByteStream", response.stream))
            return response

    timeout = httpx.Timeout(policy.read_timeout, connect=policy.connect_timeout)
    try:
        opened = Client(
            verify=_certificates(not direct, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")),
            timeout=timeout,
            follow_redirects=True,
            trust_env=not direct,
            headers={"User-Agent": f"edgepack/{__version__}"},
            event_hooks={"request": [check], "response": [check_redirect]},
        )
    except (OSError, ValueError, ImportError) as error:  # a bad SSL_CERT_FILE, a bad or SOCKS proxy
        raise DownloadError(
            f"the network settings of this system are invalid: {error}",
            hint="check HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE",
        ) from error
    with opened:
        yield opened


def in_time(do: Callable[[], T], seconds: float, *, since: Callable[[], float]) -> T:
    """Result of ``do()``, in a thread that is left to itself where it takes longer after ``since()``. Raises ``TimeoutError`` then."""
    done: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

    def work() -> None:
        try:
            done.put((do(), None))
        except BaseException as error:
            done.put((None, error))

    threading.Thread(target=work, daemon=True).start()
    while (left := since() + seconds - time.monotonic()) > 0:
        try:
            result, problem = done.get(timeout=left)
            break
        except queue.Empty:
            continue
    else:
        raise TimeoutError(f"no answer has begun after {seconds:.0f} s")
    if problem is not None:
        raise problem
    return cast("T", result)


def ask(
    url: str, *, headers: Mapping[str, str] | None = None, policy: Policy = PATIENT, allow_http: bool = False
) -> bytes:
    """A short answer, e.g. of an API, in memory (at most ``MAX_ANSWER`` bytes), as it was sent. Raises ``DownloadError``."""
    plainly = {**(headers or {}), "Accept-Encoding": "identity"}

    def attempt() -> bytes:
        with http.stream("GET", url, headers=plainly) as response:
            check_status(response)
            if (coding := response.headers.get("content-encoding", "identity")) != "identity":
                # A thousand times as many bytes may be in it, and a digest is of what it was before.
                raise DownloadError(
                    f"the answer of {redacted(url)} is compressed ({coding[:20]!r}), which was not asked for",
                    hint="a proxy in between may have compressed it",
                )
            answer, began = bytearray(), time.monotonic()
            for chunk in response.iter_raw():
                answer += chunk
                if time.monotonic() - began > LONGEST:
                    raise TryAgain(f"the answer has not ended after {LONGEST:.0f} s", at_most=1)
                if len(answer) > MAX_ANSWER:
                    raise DownloadError(f"the answer of {redacted(url)} is larger than {MAX_ANSWER} bytes")
            return bytes(answer)

    with client(policy, allow_http=allow_http) as http:
        return retrying(url, attempt, policy=policy)


def probe(urls: Iterable[str], *, there: bool = False) -> dict[str, Probe]:
    """Sizes and validators of files before they are fetched; those that do not exist are left out. Raises ``DownloadError``, also
    when all of them together take longer than ``LONGEST`` and a second each. ``there``: they are expected, and what HEAD does not find is
    asked for once more: a link that was signed for GET is refused otherwise.
    """
    wanted = tuple(urls)
    end = time.monotonic() + LONGEST + len(wanted)

    def attempt(url: str) -> Probe | None:
        if time.monotonic() > end:
            raise TryAgain(f"{len(wanted)} files are asked for, and the server is too slow", at_most=1)
        return _probe_one(http, url, there=there)

    with client(PATIENT) as http:
        found = {url: retrying(url, partial(attempt, url), policy=PATIENT) for url in wanted}
    return {url: seen for url, seen in found.items() if seen is not None}


def _probe_one(http: httpx.Client, url: str, *, there: bool) -> Probe | None:
    for method in ("HEAD", "GET"):
        with http.stream(method, url, headers={"Accept-Encoding": "identity"}) as response:
            # Object stores answer 403 for a missing file to those who may not list the folder.
            missing = response.status_code in (403, 404, 410)
            if method == "HEAD" and (response.status_code in (405, 501) or (missing and there)):
                continue
            if missing:
                return None
            check_status(response)
            given = response.headers
            length = given.get("content-length", "")
            dated = f"{given['last-modified']} {length}" if "last-modified" in given else ""
            return Probe(size=number(length), validator=given.get("etag") or dated)
    return None


def require_safe(url: str) -> None:
    """Raise ``UsageError`` unless the address is https, or http on this machine."""
    if not is_safe(url):
        raise UsageError(
            f"{redacted(url)} is not an https URL",
            hint="only https is supported (and http from this machine)",
        )


def is_safe(url: str) -> bool:
    """Whether an address is https, or http on this machine."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    return (parts.scheme == "https" and bool(host)) or (parts.scheme == "http" and is_loopback(host))


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def leads_here(host: str) -> bool:
    """Whether a host is this machine, however that is written: ``localhost.``, ``127.1``, ``0``, ``::ffff:127.0.0.1``.

    Names are not looked up: one that leads here is not known.
    """
    name = host.strip("[]").partition("%")[0].rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address: ipaddress.IPv4Address | ipaddress.IPv6Address = ipaddress.ip_address(name)
    except ValueError:
        try:
            # As the system reads it: with parts left out, octal, as one number.
            address = ipaddress.IPv4Address(socket.inet_aton(name))
        except (OSError, ValueError):
            return False
    inner = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return any(each.is_loopback or each.is_unspecified for each in (address, inner or address))


def redacted(url: str) -> str:
    """The address as it may be shown and recorded: without user, password, query and fragment."""
    try:
        parts = urlsplit(url)
    except ValueError:  # no address, in which there may be a password all the same
        return f"{url.partition(':')[0]}:…"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def check_status(response: httpx.Response) -> None:
    """Raise ``TryAgain`` or ``DownloadError`` for a response that is not a success."""
    status = response.status_code
    if response.is_success:
        return
    said = f"{status} {response.reason_phrase}".strip()
    if status in TRANSIENT_STATUSES:
        seconds = retry_after(response.headers.get("retry-after"))
        if seconds is None or seconds <= LONGEST_PAUSE:
            raise TryAgain(f"{_who(response)} says {said}", after=seconds, hint="try again later")
        raise _refused(response, f"{said}, and to come back in {seconds:.0f} s", "try again later")
    hints = {401: DENIED_HINT, 403: DENIED_HINT, 404: "check the name", 407: "the proxy wants a password"}
    raise _refused(response, said, hints.get(status))


def _refused(response: httpx.Response, said: str, hint: str | None) -> DownloadError:
    first = response.history[0] if response.history else response
    return DownloadError(f"cannot fetch {redacted(str(first.url))}: {_who(response)} says {said}", hint=hint)


def _who(response: httpx.Response) -> str:
    """Who answered: by name where that is not whom the address names."""
    asked = response.history[0].url if response.history else response.url
    there = response.url
    return "the server" if there.netloc == asked.netloc else f"{there.netloc.decode()}, where it leads,"


def retry_after(value: str | None) -> float | None:
    """Seconds that a Retry-After header asks for: a number, or a date."""
    if not value:
        return None
    if (seconds := number(value.strip())) is not None:
        return float(seconds)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def number(text: str) -> int | None:
    """Number that a server writes in digits; ``None`` for anything else, and for one larger than any file."""
    return int(text) if re.fullmatch("[0-9]{1,18}", text) else None


@contextmanager
def _transport_errors(cannot: str, error: type[EdgepackError]) -> Iterator[None]:
    """Turn httpx's exceptions into ``TryAgain`` or ``error``."""
    import httpx

    try:
        yield
    except (httpx.UnsupportedProtocol, httpx.InvalidURL, httpx.TooManyRedirects) as problem:
        raise error(f"{cannot}: {problem}", hint="check the address") from problem
    except httpx.RequestError as problem:
        _raise_transport(cannot, error, problem)


def _raise_transport(cannot: str, error: type[EdgepackError], problem: httpx.RequestError) -> NoReturn:
    import httpx

    causes = list(_causes(problem))
    text = str(problem) or type(problem).__name__
    if "CERTIFICATE_VERIFY_FAILED" in text:
        raise error(
            f"{cannot}: the certificate of {problem.request.url.host} is not trusted",
            hint="set SSL_CERT_FILE to a file with your organisation's certificates",
        ) from problem
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        host = problem.request.url.host  # a redirect may have led to another one
        # A name that is not known now is rarely known a moment later: most likely there is no network.
        raise TryAgain(f"cannot resolve {host} (DNS)", at_most=2) from problem
    if isinstance(problem, httpx.ConnectTimeout | httpx.PoolTimeout):
        raise TryAgain("no connection within the time limit") from problem
    if isinstance(problem, httpx.TimeoutException):
        raise TryAgain("the server stopped sending") from problem
    raise TryAgain(text) from problem


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def is_passing(error: EdgepackError) -> bool:
    """Whether the failure was of a kind that may pass: no network, a server that is down or busy."""
    return isinstance(error.__cause__, TryAgain)
