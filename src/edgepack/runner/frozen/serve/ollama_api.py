"""``POST /api/embed`` and its older ``/api/embeddings`` as Ollama answers them: https://docs.ollama.com/api/embed"""

from __future__ import annotations

import json
import os

from ..program.numbers import digits_of
from .question import Api, Question, Refused, flag, parse_body

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence
    from typing import Any

    from ..base.bundle import Bundle


def read(body: bytes) -> Question:
    """Of nothing there are no vectors, which is no error. Raises ``Refused``."""
    asked = parse_body(body)
    given = asked.get("input") or []
    if isinstance(given, list) and not all(isinstance(entry, str) for entry in given):
        raise Refused(400, "invalid input type")
    return Question(
        given,
        write,
        field="input",
        dimensions=asked.get("dimensions") or None,
        truncate=flag(asked, "truncate", default=True),
        normalize=True,
    )


def read_one(body: bytes) -> Question:
    """Raises ``Refused``."""
    prompt = parse_body(body).get("prompt") or ""
    if not isinstance(prompt, str):
        raise Refused(400, "prompt must be a string")
    return Question([prompt] if prompt else [], write_one, field="prompt")


def write(vectors: Sequence[array[float]], model: str, tokens: int, seconds: float) -> bytes:
    rows = ",".join(digits_of(vector, "%.9g") for vector in vectors)
    name = json.dumps(model, ensure_ascii=False)
    took = f'"total_duration":{round(seconds * 1e9)},"load_duration":0,"prompt_eval_count":{tokens}'
    return f'{{"model":{name},"embeddings":[{rows}],{took}}}\n'.encode()


def write_one(vectors: Sequence[array[float]], model: str, tokens: int, seconds: float) -> bytes:
    return f'{{"embedding":{digits_of(vectors[0], "%.9g") if vectors else []}}}\n'.encode()


def refuse(refused: Refused) -> tuple[int, Any]:
    return refused.status, {"error": refused.message}


def tags(bundle: Bundle) -> dict[str, Any]:
    """``GET /api/tags``: the one model."""
    from time import gmtime, strftime

    name, file = bundle.value("model", "name"), bundle.value("model", "file")
    (entry,) = (entry for entry in bundle.value("files") if entry["path"] == file)
    changed = gmtime(os.stat(bundle.model).st_mtime)
    model = {
        "name": name,
        "model": name,
        "modified_at": strftime("%Y-%m-%dT%H:%M:%SZ", changed),
        "size": entry["size"],
        "digest": entry["sha256"],
        "details": {
            "parent_model": "",
            "format": bundle.value("model", "format"),
            "family": "",
            "families": None,
            "parameter_size": "",
            "quantization_level": bundle.value("model", "precision"),
        },
    }
    return {"models": [model]}


EMBED = Api(read, refuse)
EMBEDDINGS = Api(read_one, refuse)
