"""Requests to ``embed serve``, which the fuzzer of its parser begins with."""

import json
from collections.abc import Mapping
from typing import Any

QUESTIONS: tuple[Mapping[str, Any], ...] = (
    {"input": "a cat", "model": "sample"},
    {"input": ["a cat", "the mat \U0001f642", ""], "encoding_format": "base64", "dimensions": 4},
    {"input": [[4, 5], [6]], "encoding_format": "float", "user": "me"},
    {"input": [4, 5, 6], "prefix": "query", "dimensions": 8},
)
HEAD = b"%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
POST = HEAD % b"POST /v1/embeddings"


def with_body(body: bytes) -> bytes:
    return POST + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


BODIES = [json.dumps(question).encode() for question in QUESTIONS]
GOOD = with_body(BODIES[0])
SEEDS = (
    *map(with_body, BODIES),
    POST + b"Transfer-Encoding: chunked\r\n\r\n10;a=b\r\n" + BODIES[0][:16] + b"\r\n0\r\nTrailer: x\r\n\r\n",
    *(HEAD % line + b"\r\n" for line in (b"GET /info", b"HEAD /health", b"GET /metrics?x=%ff", b"OPTIONS *")),
    GOOD + HEAD % b"GET /v1/models" + b"Connection: close\r\n\r\n",
    POST + b"Expect: 100-continue\r\nContent-Length: 17\r\n\r\n" + b'{"input": "cats"}',
)
