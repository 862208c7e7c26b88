"""What a bundle's program answers, read as a stranger's words: a JSON value a line, as many as were asked for."""

import json
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
LONGEST = 32 << 20
"""Letters of one answer: the vectors of 8,192 tokens take a third. Each may become 16 bytes of Python's."""


class BadAnswer(ValueError):  # noqa: N818 - what is wrong with data; callers say whose it is
    """An answer that is not what was asked for, in words."""


def read_answers(said: str, asked: int, read: Callable[[Any], T]) -> list[T]:
    """Results of ``read`` for each line. Raises ``BadAnswer`` for other lines than ``asked`` readable ones."""
    # Not splitlines: a label may hold any separator of Unicode's.
    count = said.count("\n") + (said != "" and not said.endswith("\n"))
    if count != asked:
        raise BadAnswer(f"{count} lines for {asked}")
    lines = said.removesuffix("\n").split("\n") if count else []
    if any(len(line) > LONGEST for line in lines):
        raise BadAnswer(f"a line of more than {LONGEST >> 20} MiB")
    try:
        return [read(json.loads(line)) for line in lines]
    # 10^400 is too large for a number, a thousand brackets are too many for the parser.
    except (
        ValueError,
        KeyError,
        IndexError,
        TypeError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        raise BadAnswer(f"{type(error).__name__}: {str(error)[:200]}") from error


def whole_numbers(value: Any) -> list[int]:
    """The value, where it is a list of whole numbers. Raises ``ValueError``."""
    if not isinstance(value, list) or not all(type(each) is int for each in value):
        raise ValueError("not a list of whole numbers")
    return value
