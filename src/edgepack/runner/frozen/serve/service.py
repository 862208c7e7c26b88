"""What the server does with a request, whoever's connection it came by."""

from __future__ import annotations

import asyncio
import json
import math
from _operator import _compare_digest  # hmac would bring in OpenSSL for the same function
from argparse import Namespace
from array import array
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import monotonic

from ..base.bundle import Bundle
from ..base.errors import EmbedError, UsageError
from ..base.streams import say
from ..model.embedder import Embedder, prefix_of
from ..model.head import Head
from ..model.matryoshka import MatryoshkaTruncation
from ..program.about import info
from ..program.bench import memory
from ..program.task import NOUNS
from . import ollama_api, openai_api, rerank_api, tei_api
from .batching import Batcher, Busy, Row
from .connection import Bodies, Connection, Limits, Request, Response
from .hosts import HostCheck
from .metrics import CONTENT_TYPE, Metrics
from .question import Question, Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

APIS = {
    "/v1/embeddings": openai_api.EMBEDDINGS,
    "/api/embed": ollama_api.EMBED,
    "/api/embeddings": ollama_api.EMBEDDINGS,
    "/embed": tei_api.EMBED,
    "/embed_sparse": tei_api.EMBED_SPARSE,
    "/v1/rerank": rerank_api.RERANK,
}
PATHS = {
    **dict.fromkeys(APIS, ("POST",)),
    "/v1/models": ("GET", "HEAD"),
    "/api/tags": ("GET", "HEAD"),
    "/health": ("GET", "HEAD"),
    "/info": ("GET", "HEAD"),
    "/metrics": ("GET", "HEAD"),
}


class Service:
    """One model, for all connections."""

    def __init__(self, bundle: Bundle, embedder: Embedder, options: Namespace) -> None:
        self._bundle = bundle
        self._embedder = embedder
        self._options = options
        self._limits = Limits(body=options.max_body, request=options.timeout, sending=options.timeout)
        self._bodies = Bodies(options.max_bodies)
        self._hosts = HostCheck(options)
        self._tokenizing = ThreadPoolExecutor(1, thread_name_prefix="tokens")
        self._connections: dict[asyncio.Task[None], Connection] = {}
        self._stopping = False
        self._metrics = Metrics()
        self._head = Head(bundle) if bundle.task else None
        if options.prefix:
            prefix_of(bundle, options.prefix)
        self.batcher = Batcher(
            partial(embedder.embed_tokens, workers=1),
            lanes=embedder.workers,
            window=options.window,
            wait=options.wait / 1e3,
            limit=options.queue,
            observe=self._metrics.batches.observe,
        )

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection to its end."""
        task = asyncio.current_task()
        assert task is not None
        full = len(self._connections) >= self._options.max_connections
        connection = Connection(
            reader,
            writer,
            limits=self._limits,
            bodies=self._bodies,
            check=self._refuse_full if full else self._check,
            respond=self._respond,
            refuse=self._refuse,
            allow=partial(allowed_origin, self._options.cors),
            closing=lambda: full or self._stopping,
        )
        self._connections[task] = connection
        try:
            await connection.serve()
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            del self._connections[task]

    async def finish(self, grace: float) -> None:
        """Close the idle connections at once, the others when their request is answered, or after ``grace`` seconds."""
        self._stopping = True
        for task, connection in list(self._connections.items()):
            if connection.idle:
                task.cancel()
        if self._connections:
            await asyncio.wait(self._connections, timeout=grace)
        for task in list(self._connections):
            task.cancel()

    def _refuse(self, path: str, refused: Refused) -> Response:
        """An error in the form that the clients of a path know."""
        api = APIS.get(path) or (ollama_api.EMBED if path.startswith("/api/") else openai_api.EMBEDDINGS)
        status, said = api.refuse(refused)
        self._metrics.count(path if path in PATHS else "other", status)
        return json_response(said, status, headers=refused.headers)

    def _refuse_full(self, request: Request) -> None:
        raise Refused(503, "too many connections", headers={"Retry-After": "1"})

    def _check(self, request: Request) -> None:
        """What can be said before the body is read."""
        self._hosts.require(request.headers.get("host", ""))
        methods = PATHS.get(request.path)
        if methods is None:
            raise Refused(404, f"no such path: {request.path}; embeddings are at /v1/embeddings")
        if request.method == "OPTIONS" and self._options.cors and request.headers.get("origin"):
            return
        if request.method not in methods:
            raise Refused(405, f"{request.path} takes {methods[0]}", headers={"Allow": ", ".join(methods)})
        if self._options.token and request.path != "/health" and not self._is_allowed(request):
            raise Refused(401, "a bearer token is required", headers={"WWW-Authenticate": "Bearer"})
        # A page of any site may send what is not said to be JSON, without being asked whether it may.
        if request.method == "POST" and not is_json(request.headers.get("content-type", "")):
            raise Refused(415, "the request must have Content-Type: application/json")

    def _is_allowed(self, request: Request) -> bool:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        given = token.strip().encode("latin-1", "replace")
        return kind.lower() == "bearer" and _compare_digest(given, self._options.token)

    async def _respond(self, request: Request, connection: Connection) -> Response:
        if request.method == "OPTIONS":
            return self._preflight(request)
        if request.path in APIS:
            return await self._answer(request, connection)
        if request.path == "/health":
            status = "stopping" if self._stopping else "ok"
            response = json_response({"status": status}, 503 if self._stopping else 200)
        elif request.path == "/info":
            response = json_response(self._info())
        elif request.path == "/metrics":
            response = Response(200, self._metrics.text(self._gauges()).encode(), kind=CONTENT_TYPE)
        elif request.path == "/api/tags":
            response = json_response(ollama_api.tags(self._bundle))
        else:
            model = {"id": self._bundle.value("model", "name"), "object": "model", "owned_by": "bundle"}
            response = json_response({"object": "list", "data": [{**model, "created": 0}]})
        self._metrics.count(request.path, response.status)
        return response

    def _preflight(self, request: Request) -> Response:
        """What a browser asks before it lets a page of another origin ask. Raises ``Refused`` for one that may not."""
        if not allowed_origin(self._options.cors, request.headers["origin"]):
            raise Refused(403, "pages of this origin may not use the server; --cors ORIGIN allows one")
        self._metrics.count(request.path, 204)
        # Clients send some of their own; none of them means anything here.
        asked = request.headers.get("access-control-request-headers") or "authorization, content-type"
        headers = {
            "Access-Control-Allow-Methods": ", ".join(PATHS[request.path]),
            "Access-Control-Allow-Headers": asked,
            "Access-Control-Max-Age": "600",
        }
        return Response(204, b"", headers=headers)

    async def _answer(self, request: Request, connection: Connection) -> Response:
        """Vectors for what a request asks. Raises ``Refused``."""
        start = monotonic()
        question = APIS[request.path].read(request.body)
        self._require_task(question)
        truncate = self._matryoshka(question.dimensions)
        self.batcher.expected += 1
        try:
            rows = await self._rows(question)
        finally:
            self.batcher.expected -= 1
            self.batcher.nudge()
        tokens = sum(len(ids) for ids, _ in rows)
        if tokens > self._options.max_tokens:
            raise Refused(400, f"{tokens} tokens, {self._options.max_tokens} at most", param=question.field)
        if not question.truncate:
            self._require_whole(rows)
        vectors = await self._embed(rows, connection.gone)
        if self._head:
            made: list[Any] = [self._head.scores(vector) for vector in vectors]
        else:
            made = self._shaped(vectors, question, truncate)
        self._metrics.texts += len(rows)
        self._metrics.tokens += tokens
        seconds = monotonic() - start
        self._metrics.seconds.observe(seconds)
        self._metrics.count(request.path, 200)
        model = self._bundle.value("model", "name")
        return Response(200, question.write(made, model, tokens, seconds))

    def _shaped(
        self, vectors: list[array[float]], question: Question, truncate: MatryoshkaTruncation | None
    ) -> list[array[float]]:
        """As short, and as long, as the question asks for."""
        if truncate:
            return [truncate(vector) for vector in vectors]
        if question.normalize and not self._bundle.normalized:
            return [unit(vector) for vector in vectors]
        return vectors

    def _require_task(self, question: Question) -> None:
        """Raises ``Refused`` for what the bundle's model is not made for."""
        name, task = self._bundle.value("model", "name"), self._bundle.task
        if self._bundle.outputs and not question.sparse:
            raise Refused(400, f"{name} is a sparse encoder: weights of tokens are at /embed_sparse")
        if question.sparse and not self._bundle.outputs:
            raise Refused(400, f"{name} is {self._noun()}, which gives no weights of tokens")
        if task is None and question.query is not None:
            raise Refused(400, f"{name} is an embedding model: vectors are at /v1/embeddings")
        if task == "rank" and question.query is None:
            raise Refused(400, f"{name} is a reranker: scores are at /v1/rerank")
        if task == "classes":
            raise Refused(400, f"{name} is a classifier, which the server does not offer: embed --classify")

    def _noun(self) -> str:
        return NOUNS.get(self._bundle.task or "", "an embedding model")

    def _require_whole(self, rows: list[Row]) -> None:
        """Raises ``Refused`` for a text that may have been cut: the tokenizers do not say of one that just fits."""
        most = self._embedder.tokenizer.max_length
        for ids, _ in rows:
            if len(ids) >= most:
                raise Refused(400, f"a text must have fewer than {most} tokens where it may not be truncated")

    async def _embed(self, rows: list[Row], gone: Callable[[], bool]) -> list[array[float]]:
        try:
            return await self.batcher.embed(rows, gone) if rows else []
        except Busy as busy:
            raise Refused(429, str(busy), headers={"Retry-After": str(busy.retry_after)}) from busy
        except EmbedError as error:
            raise Refused(500, error.message) from error
        except Exception as error:
            say(f"error: {type(error).__name__}: {error}\n")
            raise Refused(500, "internal error; see the server's standard error") from error

    async def _rows(self, question: Question) -> list[Row]:
        """Token ids of the texts, or the ids that were given, with the special tokens around them."""
        tokenizer = self._embedder.tokenizer
        try:
            if question.tokens:
                return [tokenizer.with_special_tokens(ids) for ids in question.tokens]
            if question.query is not None:
                pairs = partial(tokenizer.encode_pairs, question.query, question.texts)
                return await asyncio.get_running_loop().run_in_executor(self._tokenizing, pairs)
            kind = question.prefix or self._options.prefix
            prefix = prefix_of(self._bundle, kind) if kind else ""
        except UsageError as error:
            raise Refused(400, error.message, param="prefix" if question.texts else question.field) from error
        texts = [prefix + text for text in question.texts]
        return await asyncio.get_running_loop().run_in_executor(self._tokenizing, tokenizer.encode, texts)

    def _matryoshka(self, dimensions: int | None) -> MatryoshkaTruncation | None:
        if dimensions is None or dimensions == self._bundle.dimension:
            return None
        try:
            return MatryoshkaTruncation(self._bundle, dimensions)
        except UsageError as error:
            raise Refused(400, f"{error.message}; {error.hint}", param="dimensions") from error

    def _info(self) -> dict[str, object]:
        names = (
            "queue",
            "window",
            "wait",
            "max_body",
            "max_bodies",
            "max_tokens",
            "max_connections",
            "timeout",
        )
        return {
            **info(self._bundle),
            **self._embedder.model.about(),
            "server": {name: getattr(self._options, name) for name in names},
        }

    def _gauges(self) -> dict[str, tuple[str, float]]:
        gauges: dict[str, tuple[str, float]] = {
            "embed_queue_texts": ("Texts that wait for the model.", self.batcher.waiting),
            "embed_connections": ("Open connections.", len(self._connections)),
        }
        if resident := memory().get("resident_mb"):
            gauges["process_resident_memory_bytes"] = ("Resident memory.", resident * 1e6)
        return gauges


def is_json(kind: str) -> bool:
    """Whether a ``Content-Type`` says JSON."""
    return kind.partition(";")[0].strip().lower() == "application/json"


def json_response(
    value: dict[str, object], status: int = 200, *, headers: dict[str, str] | None = None
) -> Response:
    body = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
    return Response(status, body, headers=headers)


def allowed_origin(allowed: list[str], origin: str) -> str:
    """What to say that a page of ``origin`` may read answers; empty: it may not."""
    return "*" if "*" in allowed else origin if origin in allowed else ""


def unit(vector: array[float]) -> array[float]:
    """Of length 1; zeros stay zeros."""
    length = math.hypot(*vector) or 1.0
    return array("f", [x / length for x in vector])
