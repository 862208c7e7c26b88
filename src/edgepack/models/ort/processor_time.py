"""Limits of the processor time that a model takes in this process: a stranger's may ask for hours in some hundred bytes.

It is processor time, so that a busy machine takes no more of it, and that of the thread that asks: ONNX Runtime computes in
it as well as in threads of its own, and it waits for those without rest. What else the process does is not counted.
"""

import atexit
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from subprocess import Popen
from threading import Lock, get_native_id
from typing import Any

from edgepack import tools
from edgepack.errors import ModelError, UsageError
from edgepack.models.ort import watcher
from edgepack.terminal_text import foreign

LARGE = 1 << 29
"""Bytes; a graph whose weights are in a file of their own is smaller."""
VARIABLE = "EDGEPACK_GRAPH_SECONDS"
SECONDS = 600.0
"""For what does not grow with the model."""
PER_BYTE = 1e-7
"""Seconds to read, fold and optimize a byte of a model: 800 for one of 8 GB."""
PER_LETTER = 2e-5
"""Seconds to make tokens; published tokenizers take a thirtieth."""
PER_BYTE_AND_TOKEN = 4e-9
"""Seconds to compute: float32 weights take half an operation each byte and token, and ALBERT's, which twelve layers share, four times as many. The slowest
machine that ran one did some 5·10^9 in a second."""

_lock = Lock()
_numbers = count()
_watching: dict[int, Popen[bytes]] = {}
"""By process: one that was forked is not watched by its parent's."""


class Allowance:
    """Processor time that a graph may take in all that is done with it; what it is run on adds to it."""

    def __init__(self, model_bytes: int) -> None:
        """Raises ``UsageError`` where the variable holds no number."""
        self._bytes = model_bytes
        self.left = _base() + PER_BYTE * model_bytes

    def for_letters(self, letters: int) -> None:
        """Allow for a tokenizer's work on so many letters."""
        self.left += PER_LETTER * letters

    def for_tokens(self, tokens: int) -> None:
        """Allow for a run on so many tokens, those of padding among them."""
        self.left += PER_BYTE_AND_TOKEN * self._bytes * tokens


@contextmanager
def limited_time(name: str, allowance: Allowance) -> Iterator[None]:
    """Take what passes meanwhile from ``allowance``. Raises ``ModelError`` about ``name`` where nothing is left at the end.

    Where it passes within one call that does not return, the process is ended, with the same words.
    """
    start, error = time.thread_time(), too_long(name)
    number = next(_numbers)
    say = f"error: {foreign(error.message)}\nhint: {error.hint}"
    thread = get_native_id()
    _tell({"limit": number, "thread": thread, "until": start + allowance.left, "say": say})
    try:
        yield
    finally:
        _tell({"limit": number, "until": None})
        allowance.left -= time.thread_time() - start
    if allowance.left < 0:
        raise error


def too_long(name: str) -> ModelError:
    """Error about a model that passes its allowance."""
    return ModelError(
        f"{name} computes for longer than a model of its size",
        hint=f"it may ask for much in few bytes; if the model can be trusted, set {VARIABLE}={10 * SECONDS:.0f}",
    )


@atexit.register
def _dismiss() -> None:
    if watching := _watching.pop(os.getpid(), None):
        watching.communicate()


def model_bytes(model: Path | bytes) -> int:
    """Bytes of a graph with its weights, those in a file of their own, too; of what cannot be read, which whoever opens it says, those of the file."""
    size = len(model) if isinstance(model, bytes) else model.stat().st_size if model.is_file() else 0
    if size >= LARGE or (isinstance(model, Path) and model.suffix == ".ort"):
        return size
    import onnx

    try:
        read = (
            onnx.load_from_string(model)
            if isinstance(model, bytes)
            else onnx.load(str(model), load_external_data=False)
        )
    except Exception:  # of protobuf's or the system's
        return size
    entries = (said for tensor in read.graph.initializer for said in tensor.external_data)
    return size + sum(int(said.value) for said in entries if said.key == "length" and said.value.isdigit())


def tokens_in(feed: Mapping[str, Any]) -> int:
    """Tokens of a batch, with padding: the numbers of the largest input."""
    return max((int(each.size) for each in feed.values()), default=0)


def _base() -> float:
    said = os.environ.get(VARIABLE) or str(SECONDS)
    try:
        seconds = float(said)
        if not 0 < seconds < float("inf"):
            raise ValueError
    except ValueError:
        raise UsageError(
            f"{VARIABLE}={said} is no number of seconds", hint=f"for example {VARIABLE}=6000"
        ) from None
    return seconds


def _tell(line: dict[str, object]) -> None:
    """Tell the watcher of this process, which is started where there is none."""
    with _lock, suppress(BrokenPipeError):  # somebody has ended it: the limit holds at the end of each call
        watching = _watching.get(os.getpid())
        if watching is None:
            _watching.clear()
            watching = _watching[os.getpid()] = tools.companion(
                [sys.executable, "-I", "-S", Path(watcher.__file__)]
            )
        assert watching.stdin is not None
        watching.stdin.write(json.dumps(line).encode() + b"\n")
