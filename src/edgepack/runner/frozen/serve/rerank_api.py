"""``POST /v1/rerank`` as clients of Cohere and Jina send and read it: https://docs.cohere.com/reference/rerank"""

from __future__ import annotations

import json

from ..program.read import SURROGATES
from .openai_api import refuse
from .question import Api, Question, Refused, flag, parse_body

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def read(body: bytes) -> Question:
    """Raises ``Refused``."""
    asked = parse_body(body)
    query, given = asked.get("query"), asked.get("documents")
    if not isinstance(query, str):
        raise Refused(400, "query must be a string", param="query")
    if not isinstance(given, list) or not given:
        raise Refused(400, "documents must be a list of strings, one at least", param="documents")
    texts = [entry.get("text") if isinstance(entry, dict) else entry for entry in given]
    if not all(isinstance(text, str) for text in texts):
        raise Refused(400, "documents must be strings, or objects with a text", param="documents")
    most = asked.get("top_n")
    if most is not None and (type(most) is not int or most < 1):
        raise Refused(400, "top_n must be a positive integer", param="top_n")
    shown = flag(asked, "return_documents", default=False)
    question = Question(
        texts,
        lambda scores, model, tokens, seconds: write(
            scores, model, tokens, documents=given if shown else None, most=most
        ),
        field="documents",
    )
    question.query = SURROGATES.sub("\ufffd", query)
    return question


def write(
    scores: Sequence[Sequence[float]],
    model: str,
    tokens: int,
    *,
    documents: Sequence[Any] | None,
    most: int | None,
) -> bytes:
    """The best first; of equal ones, that which came first."""
    order = sorted(range(len(scores)), key=lambda index: -scores[index][0])[:most]
    results = [
        {
            "index": index,
            "relevance_score": float(f"{scores[index][0]:.9g}"),
            **({} if documents is None else {"document": _object(documents[index])}),
        }
        for index in order
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    answer = {"object": "list", "model": model, "results": results, "usage": usage}
    return json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _object(document: Any) -> Any:
    return document if isinstance(document, dict) else {"text": document}


RERANK = Api(read, refuse)
