"""``POST /v1/embeddings`` as OpenAI's clients send and read it: https://platform.openai.com/docs/api-reference/embeddings"""

from __future__ import annotations

import json

from ..program.numbers import json_fields, little_endian
from ..program.read import SURROGATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence
    from typing import Any

MAX_INPUTS = 2048
"""OpenAI's own limit."""


class Refused(Exception):  # noqa: N818 - what was done with the request
    """A request that gets an error for an answer."""

    def __init__(
        self, status: int, message: str, *, param: str | None = None, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.headers = headers or {}

    def body(self) -> bytes:
        """OpenAI's form of an error."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        said = {"message": self.message, "type": kind, "param": self.param, "code": None}
        return json.dumps({"error": said}, ensure_ascii=False).encode("utf-8", "replace")


class Question:
    """What a request asks for: texts, or token ids, one of the two."""

    def __init__(self, body: bytes) -> None:
        asked = parse_body(body)
        self.texts: list[str] = []
        self.tokens: list[list[int]] = []
        self._read_input(asked.get("input"))
        self.base64 = choice(asked, "encoding_format", ("float", "base64")) == "base64"
        self.prefix = choice(asked, "prefix", ("query", "passage"))
        dimensions = asked.get("dimensions")
        if dimensions is not None and (type(dimensions) is not int or dimensions < 1):
            raise Refused(400, "dimensions must be a positive integer", param="dimensions")
        self.dimensions: int | None = dimensions
        if self.prefix and self.tokens:
            raise Refused(400, "prefix applies to texts, not to token ids", param="prefix")

    def _read_input(self, given: Any) -> None:
        if isinstance(given, str):
            given = [given]
        if not isinstance(given, list) or not given:
            raise Refused(400, "input must be a string, or a list of strings or of token ids", param="input")
        if all(isinstance(entry, str) for entry in given):
            self.texts = [SURROGATES.sub("\ufffd", text) for text in given]
        elif is_ids(given):
            self.tokens = [given]
        elif all(isinstance(entry, list) and entry and is_ids(entry) for entry in given):
            self.tokens = given
        else:
            raise Refused(400, "input must be all strings, or all token ids, none empty", param="input")
        if len(self) > MAX_INPUTS:
            raise Refused(
                400, f"input has {len(self)} entries; at most {MAX_INPUTS} are allowed", param="input"
            )

    def __len__(self) -> int:
        return len(self.texts) or len(self.tokens)


def parse_body(body: bytes) -> dict[str, Any]:
    try:
        asked = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"the body is not JSON: {error}") from error
    if not isinstance(asked, dict):
        raise Refused(400, "the body must be a JSON object")
    return asked


def choice(asked: dict[str, Any], name: str, values: Sequence[str]) -> str | None:
    said = asked.get(name)
    if said is not None and said not in values:
        raise Refused(400, f"{name} must be one of {', '.join(values)}", param=name)
    return said


def is_ids(entries: list[Any]) -> bool:
    return all(type(entry) is int for entry in entries)


def answer(vectors: Sequence[array[float]], *, base64: bool, model: str, tokens: int) -> bytes:
    """The body of a good answer."""
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
