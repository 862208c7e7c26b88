"""A server that speaks OpenAI's embeddings API: asked politely, believed little."""

import base64
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np

from edgepack.doctor.halves import Vectors
from edgepack.doctor.subject import Deadline, OutOfTime, Refused, as_vectors
from edgepack.errors import SubjectError, UsageError
from edgepack.fetch import http as network
from edgepack.fetch.http import Policy, redacted

if TYPE_CHECKING:
    import httpx

POLICY = Policy(attempts=3, connect_timeout=5.0, read_timeout=60.0)
LONGEST_WAIT = 10.0
"""Seconds that a server may ask us to wait for, all in all."""
LARGEST_ANSWER = 16 << 20
"""Bytes: 128 vectors of 4,096 numbers with 21 digits take 11 million. As Python's objects they are many times as many."""
EXAMPLE = "http://localhost:8080/v1"
Answer = tuple[int, Mapping[str, str], bytes]
"""Status, headers and body."""
NOT_THIS_INPUT = (400, 413, 422, 500)


@dataclass(kw_only=True)
class Endpoint:
    """The subject behind ``--url``. Mutable: it remembers how long it has waited."""

    url: str
    """Of the API, e.g. ``http://host:8080/v1``."""
    client: "httpx.Client"
    model: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    dimensions: int | None = None
    at_once: int = 16
    """Servers may refuse more than 32; ``probes.LARGE`` are tried in the end."""
    deadline: Deadline = field(default_factory=Deadline)
    waited: float = 0.0

    def embed(self, texts: Sequence[str], *, encoding: str | None = None) -> Vectors:
        document: dict[str, Any] = {"input": list(texts), "model": self.model or self.first_model()}
        if self.dimensions is not None:
            document["dimensions"] = self.dimensions
        if encoding is not None:
            document["encoding_format"] = encoding
        answer = self._ask("POST", self.endpoint, document)
        return as_vectors(_in_order(answer, len(texts), redacted(self.url)), len(texts), redacted(self.url))

    @property
    def endpoint(self) -> str:
        base = self.url.rstrip("/")
        return base if base.endswith("/embeddings") else f"{base}/embeddings"

    def first_model(self) -> str:
        """Name of the model at the server; some take no request without it."""
        try:
            listed = self._ask("GET", self.endpoint.removesuffix("embeddings") + "models", None)
            self.model = str(listed["data"][0]["id"])
        except (SubjectError, KeyError, IndexError, TypeError):
            self.model = "default"
        return self.model

    def _ask(self, method: str, url: str, document: Any) -> Any:
        """The JSON that the server answers; asked again where it is busy, for a bounded time."""
        import httpx

        failures = 0
        while True:
            try:
                status, headers, body = self._in_time(partial(self._once, method, url, document))
            except httpx.HTTPError as error:
                raise SubjectError(
                    f"{redacted(url)} does not answer: {str(error) or type(error).__name__}",
                    hint="check that the server is running and the URL is right; it usually has the form http://HOST:PORT/v1",
                ) from error
            failures += 1
            if status not in (429, 503) or failures >= 5:
                return _checked(status, headers, body, url)
            asked = network.retry_after(headers.get("retry-after"))
            seconds = network.back_off(failures) if asked is None else asked
            if self.waited + seconds > LONGEST_WAIT:
                raise SubjectError(
                    f"{redacted(url)} limits requests ({status}) and demands a wait of {seconds:.0f} s",
                    hint="try again later, or raise the server's limit (at most 425 texts are sent)",
                )
            if seconds > self.deadline.left():
                raise OutOfTime(self.deadline.seconds)
            self.waited += seconds
            network.pause(seconds)

    def _in_time(self, ask: Callable[[], Answer]) -> Answer:
        """Answer of the server, or ``OutOfTime``: a server may send a byte now and then for ever, and each is in time."""
        began = time.monotonic()
        try:
            return network.in_time(ask, self.deadline.left(), since=lambda: began)
        except TimeoutError:
            raise OutOfTime(self.deadline.seconds) from None

    def _once(self, method: str, url: str, document: Any) -> Answer:
        body = bytearray()
        started = time.monotonic()
        # What is compressed may be a million times as much.
        headers = {**self.headers, "Accept-Encoding": "identity"}
        # A redirect may lead to somebody whom the user did not name.
        with self.client.stream(
            method, url, json=document, headers=headers, follow_redirects=False
        ) as answer:
            if (coding := answer.headers.get("content-encoding", "identity")) != "identity":
                raise SubjectError(
                    f"{redacted(url)} answers compressed ({coding[:20]!r}), which was not asked for",
                    hint="a proxy in between may compress; name the server itself",
                )
            for chunk in answer.iter_raw():
                body += chunk
                if len(body) > LARGEST_ANSWER or time.monotonic() - started > POLICY.read_timeout:
                    raise SubjectError(
                        f"the answer of {redacted(url)} does not end", hint="is this an embeddings API?"
                    )
            return answer.status_code, answer.headers, bytes(body)


@contextmanager
def connected(
    url: str,
    *,
    model: str | None,
    headers: Mapping[str, str],
    dimensions: int | None,
    deadline: Deadline | None = None,
) -> Iterator[Endpoint]:
    """The server at an address, with one connection to it."""
    try:
        direct = network.is_loopback(urlsplit(url).hostname or "")
    except ValueError as error:
        raise UsageError(f"--url {url}: {error}", hint=f"it is like {EXAMPLE}") from error
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise UsageError(f"--url {url} is not the URL of a server", hint=f"it is like {EXAMPLE}")
    with network.client(POLICY, allow_http=True, direct=direct) as client:
        yield Endpoint(
            url=url,
            client=client,
            model=model,
            headers=headers,
            dimensions=dimensions,
            deadline=deadline or Deadline(),
        )


def _checked(status: int, headers: Mapping[str, str], body: bytes, url: str) -> Any:
    said = body[:300].decode("utf-8", "replace").strip()
    if 300 <= status < 400:
        raise SubjectError(
            f"{redacted(url)} leads elsewhere ({status}): {redacted(headers.get('location', ''))}",
            hint="use that URL if it is the right one; redirects are not followed",
        )
    if status in (401, 403):
        raise SubjectError(
            f"{redacted(url)} requires a valid token ({status})",
            hint="name its environment variable with --token-env NAME",
        )
    if status == 404:
        raise SubjectError(
            f"{redacted(url)} does not exist there (404): {_message(said)}",
            hint="the URL usually ends in /v1; if the server uses another name for the model, set --served-name",
        )
    if status in NOT_THIS_INPUT:
        raise Refused(
            f"{redacted(url)} refuses the texts ({status}): {_message(said)}",
            hint="if the server uses another name for the model, set --served-name; see also the server's log",
        )
    if not 200 <= status < 300:
        raise SubjectError(f"{redacted(url)} fails ({status}): {_message(said)}", hint="see the server's log")
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        kind = headers.get("content-type", "no type").partition(";")[0]
        raise SubjectError(
            f"{redacted(url)} answers {kind}, not JSON: {said[:60]!r}",
            hint="is this an OpenAI-compatible embeddings API? The URL usually ends in /v1",
        ) from error


def _message(said: str) -> str:
    """Message of an error document, in one line."""
    if said.startswith("<"):
        return "an HTML page"
    try:
        document = json.loads(said)
        error = document.get("error", document.get("detail", document.get("message", document)))
        said = str(error.get("message", error) if isinstance(error, dict) else error)
    except (ValueError, AttributeError):
        pass
    return " ".join(said.split())[:160] or "without a word"


def _in_order(answer: Any, count: int, whose: str) -> list[Any]:
    """The vectors of an answer by their ``index``."""
    entries = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise SubjectError(
            f"{whose} answers JSON without a list `data`: {_message(json.dumps(answer)[:300])}",
            hint="is this an OpenAI-compatible embeddings API?",
        )
    places = [entry.get("index", at) for at, entry in enumerate(entries)]
    if len(entries) == count and sorted(places, key=str) != sorted(range(count), key=str):
        raise SubjectError(
            f"{whose} numbers its vectors {str(places[:5])[:80]} … for {count} texts",
            hint="`index` must be the position of each text",
        )
    rows = (
        sorted(zip(places, entries, strict=True), key=lambda pair: pair[0]) if len(entries) == count else []
    )
    return [_numbers(entry.get("embedding"), whose) for _, entry in rows] or entries


def _numbers(embedding: Any, whose: str) -> Any:
    if not isinstance(embedding, str):
        return embedding
    try:
        return np.frombuffer(base64.b64decode(embedding, validate=True), "<f4")
    except ValueError as error:
        raise SubjectError(
            f"{whose} gave a vector that is not base64 of float32: {error}",
            hint="expected encoding_format float",
        ) from error
