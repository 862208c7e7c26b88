"""``POST /embed`` and ``/embed_sparse`` as Text Embeddings Inference answers it: https://huggingface.github.io/text-embeddings-inference/"""

from __future__ import annotations

from ..program.numbers import digits_of
from ..program.outputs import weights_of
from .question import Api, Question, Refused, choice, flag, parse_body

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence
    from typing import Any

VALIDATION = 413
"""Its status for what it finds wrong with a request."""
KINDS = {400: "Empty", 422: "Tokenizer", 424: "Backend", 429: "Overloaded", 503: "Unhealthy"}
EMPTY = "`inputs` cannot be empty"


class Empty(Refused):
    """No inputs at all."""


def read(body: bytes) -> Question:
    """Raises ``Refused``."""
    try:
        asked = parse_body(body)
    except Refused as refused:
        raise Refused(422, refused.message) from refused
    given = asked.get("inputs")
    if given == []:
        raise Empty(400, EMPTY)
    try:
        if given == "" or (isinstance(given, list) and "" in given):
            raise Refused(400, EMPTY)
        if choice(asked, "truncation_direction", ("Left", "Right", "left", "right")) in ("Left", "left"):
            raise Refused(400, "texts are cut at their end alone: `truncation_direction` is Right")
        return Question(
            given,
            write,
            field="inputs",
            prefix=choice(asked, "prompt_name", ("query", "passage")),
            dimensions=asked.get("dimensions"),
            truncate=flag(asked, "truncate", default=True),
            normalize=flag(asked, "normalize", default=True),
        )
    except Refused as refused:
        raise Refused(VALIDATION, refused.message) from refused


def write(vectors: Sequence[array[float]], model: str, tokens: int, seconds: float) -> bytes:
    return f"[{','.join(digits_of(vector, '%.9g') for vector in vectors)}]\n".encode()


def read_sparse(body: bytes) -> Question:
    """The same, of weights of tokens. Raises ``Refused``."""
    asked = read(body)
    asked.sparse, asked.normalize, asked.write = True, False, write_sparse
    return asked


def write_sparse(vectors: Sequence[array[float]], model: str, tokens: int, seconds: float) -> bytes:
    texts = []
    for vector in vectors:
        pairs = zip(*weights_of(vector), strict=True)
        said = (f'{{"index":{token},"value":{weight:.9g}}}' for token, weight in pairs)
        texts.append(f"[{','.join(said)}]")
    return f"[{','.join(texts)}]\n".encode()


def refuse(refused: Refused) -> tuple[int, Any]:
    status = {400: VALIDATION, 500: 424}.get(refused.status, refused.status)
    if isinstance(refused, Empty):
        status = 400
    return status, {"error": refused.message, "error_type": KINDS.get(status, "Validation")}


EMBED = Api(read, refuse)
EMBED_SPARSE = Api(read_sparse, refuse)
