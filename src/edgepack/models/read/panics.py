"""Where the tokenizers library gives up: its Rust code panics, and Python sees an exception that no ``except Exception`` catches, or it ends
the process where it gets no memory, which a tokenizer.json may need for one word, or takes hours for it.
"""

import base64
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Any

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.ort.processor_time import Allowance, limited_time
from edgepack.models.read.documents import EDITED

MOST = 256
"""Times; those of published models are below 40, which Unicode's own longest decomposition takes."""


PARALLEL = "TOKENIZERS_PARALLELISM"
_changing, _before = Lock(), list[str | None]()
_allowed: list[Allowance] = []
"""What the tokenizer that was read last may still take."""


def allow_tokenizer() -> None:
    """Give a tokenizer that is read now, and its further calls, the time of a model that has no graph."""
    _allowed[:] = [Allowance(0)]


@contextmanager
def panics_reported(letters: int = 0) -> Iterator[None]:
    """Raises ``UnsupportedModelError`` for a panic: a regular expression of tokenizer.json that tries too many ways to match; ``ModelError`` for
    one that stays below the library's limit of tries for a place, and takes minutes for each.

    Around every call of a model's tokenizer; also a decorator. ``letters`` are those of many texts, which take longer.
    """
    if not _allowed:
        allow_tokenizer()
    _allowed[0].for_letters(letters)
    try:
        with _in_this_thread(), limited_time("tokenizer.json", _allowed[0]):
            yield
    except BaseException as error:
        # pyo3 makes the class when it is first needed, and no module has it.
        if type(error).__name__ != "PanicException":
            raise
        said = str(error).partition("\n")[0][:200]
        raise UnsupportedModelError(
            f"the tokenizers library gave up on the model's tokenizer.json: {said}",
            hint="a regular expression in its normalizer or pre_tokenizer takes too long for some texts, or a part contradicts another; "
            "ask the model's author for another",
        ) from error


@contextmanager
def _in_this_thread() -> Iterator[None]:
    """Have the library compute in the thread that asks, whose time is counted; what the variable was before the first is so after the last."""
    with _changing:
        _before.append(os.environ.get(PARALLEL))
        os.environ[PARALLEL] = "false"
    try:
        yield
    finally:
        with _changing:
            # Of those that are within, the first knows what it was.
            was = _before.pop()
            if not _before:
                os.environ.pop(PARALLEL, None)
            if not _before and was is not None:
                os.environ[PARALLEL] = was


def require_bounded(tokenizer: Mapping[str, Any], name: str) -> None:
    """Raises ``UnsupportedModelError`` where the steps of a tokenizer, one after the other, might make more than ``MOST`` letters of one, or put
    more than that around a text.
    """
    try:
        steps = [step for part in _PARTS for step in _steps(tokenizer.get(part))]
        times, added = math.prod(map(_growth, steps)), sum(map(_added, steps))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"{name} is not a tokenizer: {error!r}", hint=EDITED) from error
    if times > MOST or added > MOST:
        raise UnsupportedModelError(
            f"{name} may make a text more than {MOST} times as long, or put more than {MOST} tokens around it",
            hint="no model needs that: the file is damaged, or made to fill memory; ask the model's author for another",
        )


_PARTS = ("normalizer", "pre_tokenizer", "post_processor")


def _steps(part: Any) -> Iterator[Mapping[str, Any]]:
    """A part, and those of sequences in it. By its keys, for the library reads steps that do not say their type, too."""
    left = [] if part is None else [part]
    while left:
        step = left.pop()
        yield step
        left += [each for key in ("normalizers", "pretokenizers", "processors") for each in step.get(key, ())]


def _growth(step: Mapping[str, Any]) -> int:
    """Letters that a step makes of one, at most, or texts that it makes of one."""
    times = 2 if "use_regex" in step or "add_prefix_space" in step else 1  # bytes are letters of two bytes
    if "content" in step:
        pattern = step["pattern"]
        replaced = pattern if isinstance(pattern, str) else pattern.get("String", "")
        times *= max(1, math.ceil(len(step["content"]) / max(len(replaced), 1)))
    if charsmap := base64.b64decode(step.get("precompiled_charsmap") or ""):
        texts = charsmap[4 + int.from_bytes(charsmap[:4], "little") :]
        times *= max(1, *(len(text.decode("utf-8", "replace")) for text in texts.split(b"\0")))
    alone, pair = (sum("Sequence" in piece for piece in step.get(form, ())) for form in ("single", "pair"))
    # A pair has each of two texts once.
    return times * max(1, alone, pair - 1)


def _added(step: Mapping[str, Any]) -> int:
    """Letters and tokens that a step puts before or behind a text."""
    tokens = step.get("special_tokens", {}).values()
    return len(step.get("prepend", "")) + sum(len(each["ids"]) for each in tokens)
