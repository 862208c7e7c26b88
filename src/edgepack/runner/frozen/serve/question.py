"""What every kind of request for vectors comes down to, and how one is refused."""

from __future__ import annotations

import json

from ..program.read import SURROGATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, NamedTuple

    Write = Callable[["Sequence[Any]", str, int, float], bytes]
    """The body of a good answer, from vectors (or a list of scores each), the model's name, tokens, and the seconds that it took."""
else:
    from collections import namedtuple

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


class Question:
    """Texts, or token ids, one of the two; ``write`` makes the answer's body."""

    def __init__(
        self,
        given: Any,
        write: Write,
        *,
        field: str,
        prefix: str | None = None,
        dimensions: Any = None,
        truncate: bool = True,
        normalize: bool = False,
    ) -> None:
        """``given`` is what stands in ``field`` of the request. Raises ``Refused``."""
        self.texts: list[str] = []
        self.query: str | None = None
        """What the texts are to be ranked by; ``None``: their vectors are asked for."""
        self.sparse = False
        """Whether the weights of tokens are asked for."""
        self.tokens: list[list[int]] = []
        self.write = write
        self.field = field
        self.prefix = prefix
        self.truncate = truncate
        """Whether a text may be cut; else one that fills the model's length is refused."""
        self.normalize = normalize
        """Whether vectors are brought to length 1, where the model does not do so."""
        if dimensions is not None and (type(dimensions) is not int or dimensions < 1):
            raise Refused(400, "dimensions must be a positive integer", param="dimensions")
        self.dimensions: int | None = dimensions
        self._read_input(given)
        if prefix and self.tokens:
            raise Refused(400, "prefix applies to texts, not to token ids", param="prefix")

    def _read_input(self, given: Any) -> None:
        field = self.field
        if isinstance(given, str):
            given = [given]
        if not isinstance(given, list):
            raise Refused(400, f"{field} must be a string, or a list of strings or of token ids", param=field)
        if all(isinstance(entry, str) for entry in given):
            self.texts = [SURROGATES.sub("\ufffd", text) for text in given]
        elif is_ids(given):
            self.tokens = [given]
        elif all(isinstance(entry, list) and entry and is_ids(entry) for entry in given):
            self.tokens = given
        else:
            raise Refused(400, f"{field} must be all strings, or all token ids, none empty", param=field)
        if len(self) > MAX_INPUTS:
            raise Refused(
                400, f"{field} has {len(self)} entries; at most {MAX_INPUTS} are allowed", param=field
            )

    def __len__(self) -> int:
        return len(self.texts) or len(self.tokens)


if TYPE_CHECKING:

    class Api(NamedTuple):
        """How a server's requests are read, and what its errors look like."""

        read: Callable[[bytes], Question]
        """Raises ``Refused``."""
        refuse: Callable[[Refused], tuple[int, Any]]
        """Status and body, to be written as JSON."""
else:
    Api = namedtuple("Api", "read refuse")


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


def flag(asked: dict[str, Any], name: str, *, default: bool) -> bool:
    """A truth; ``null`` is as if it were not there."""
    said = asked.get(name)
    if said is None:
        return default
    if not isinstance(said, bool):
        raise Refused(400, f"{name} must be true or false", param=name)
    return said


def is_ids(entries: list[Any]) -> bool:
    return all(type(entry) is int for entry in entries)
