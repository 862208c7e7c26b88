"""``POST /v1/embeddings`` as OpenAI's clients send and read it: https://platform.openai.com/docs/api-reference/embeddings"""

from __future__ import annotations

import json

from ..program.numbers import json_fields, little_endian
from .question import Api, Question, Refused, choice, parse_body

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence
    from typing import Any


def read(body: bytes) -> Question:
    """Raises ``Refused``."""
    asked = parse_body(body)
    base64 = choice(asked, "encoding_format", ("float", "base64")) == "base64"
    question = Question(
        asked.get("input"),
        lambda vectors, model, tokens, seconds: write(vectors, model, tokens, base64=base64),
        field="input",
        prefix=choice(asked, "prefix", ("query", "passage")),
        dimensions=asked.get("dimensions"),
    )
    if not len(question):
        raise Refused(400, "input must be a string, or a list of strings or of token ids", param="input")
    return question


def write(vectors: Sequence[array[float]], model: str, tokens: int, *, base64: bool) -> bytes:
    rows = ",".join(
        f'{{"object":"embedding","index":{index},{encoded(vector, base64)}}}'
        for index, vector in enumerate(vectors)
    )
    usage = f'{{"prompt_tokens":{tokens},"total_tokens":{tokens}}}'
    name = json.dumps(model, ensure_ascii=False)
    return f'{{"object":"list","data":[{rows}],"model":{name},"usage":{usage}}}\n'.encode()


def encoded(vector: array[float], base64: bool) -> str:
    if not base64:
        return json_fields(vector, "f32")
    from binascii import b2a_base64

    return f'"embedding":"{b2a_base64(little_endian(vector), newline=False).decode()}"'


def refuse(refused: Refused) -> tuple[int, Any]:
    kind = "invalid_request_error" if refused.status < 500 else "server_error"
    return refused.status, {
        "error": {"message": refused.message, "type": kind, "param": refused.param, "code": None}
    }


EMBEDDINGS = Api(read, refuse)
