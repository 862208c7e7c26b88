"""Pickles of strangers, as plain data: read by ``machine.py``, a program of its own with limits, and checked here again.

A pickle may call any function of any module, and take any time and memory without calling one. Here it calls nothing: a name is a
text, and what it is called with is a tuple.
"""

import base64
import json
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgepack import tools
from edgepack.errors import ModelError, ToolError
from edgepack.models.pickles import machine

SECONDS = 60
DAMAGED = "the file is damaged or was not downloaded whole; fetch the model again"


START = "import sys; sys.path.append(sys.argv.pop(1)); from machine import main; main()"
_FOLDER = Path(machine.__file__).parent


class ForeignNameError(Exception):
    """A pickle names what its reader does not know; nothing of it was run."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Name:
    """A class or a function, not called."""

    name: str
    """``module.name``."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RebuiltObject:
    """Object that a name would have made: the name, and what it would have been called with."""

    name: str
    arguments: tuple[Any, ...]
    state: Any
    """A dictionary with texts as keys, a tuple, or ``None``."""


@dataclass(frozen=True, kw_only=True)
class Unpickled:
    """A file's pickle: ``None``, numbers, texts, bytes, tuples, lists, dictionaries, ``Name`` and ``RebuiltObject``; sets are lists."""

    document: Any
    members: Mapping[str, tuple[int, int]]
    """Of an archive: the key of a tensor's place → where its numbers begin in the file, and bytes."""


def read_pickle(path: Path, names: Collection[str], *, archive: bool = False) -> Unpickled:
    """A file's pickle; with ``archive`` that of PyTorch's zip archives. ``names`` are all that it may name.

    Raises ``ForeignNameError`` for another name, and ``ModelError``.
    """
    try:
        answer = json.loads(answered(path, json.dumps({"names": sorted(names), "archive": archive})))
        if "foreign" in answer:
            raise ForeignNameError(str(answer["foreign"]))
        if "refused" in answer:
            raise ModelError(f"{path.name} cannot be read: {answer['refused']}", hint=DAMAGED)
        members = {str(key): (int(start), int(size)) for key, (start, size) in answer["members"].items()}
        return Unpickled(document=_plain(answer["document"]), members=members)
    except ToolError as error:
        raise ModelError(
            f"{path.name} cannot be read: its pickle takes more memory or time than any model's", hint=DAMAGED
        ) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelError(f"{path.name} cannot be read: {type(error).__name__}", hint=DAMAGED) from error


def answered(path: Path, question: str) -> str:
    """Answer of the machine about a file, from a program of its own. Raises ``ToolError`` where that ends at its limits."""
    # Without what starts with this Python by itself, which would take longer than the reading.
    command: list[str | Path] = [sys.executable, "-I", "-S", "-c", START, _FOLDER, path.absolute()]
    return tools.run_tool(command, input=question, timeout=SECONDS)


def _plain(said: Any, depth: int = 0) -> Any:
    """A value as the machine writes it. Raises ``ValueError`` or ``TypeError`` for what it does not write."""
    if not isinstance(said, list):
        if isinstance(said, dict):
            raise TypeError("no value")
        return said
    if depth > machine.DEPTH + 2:
        raise ValueError("too deep")
    kind, *parts = said
    if kind == "b":
        return base64.b64decode(parts[0], validate=True)
    if kind == "n":
        return Name(name=str(parts[0]))
    if kind == "d":
        return _dictionary(parts, depth)
    if kind == "m":
        name, arguments, state = parts
        made = _plain(arguments, depth + 1), _plain(state, depth + 1)
        if not isinstance(made[0], tuple):
            raise TypeError("no arguments")
        return RebuiltObject(name=str(name), arguments=made[0], state=made[1])
    if kind not in ("t", "l"):
        raise ValueError("no kind of value")
    found = [_plain(part, depth + 1) for part in parts]
    return tuple(found) if kind == "t" else found


def _dictionary(pairs: list[Any], depth: int) -> dict[Any, Any]:
    if not all(machine.is_key(key) for key, _ in pairs):
        raise TypeError("no key")
    return {key: _plain(value, depth + 1) for key, value in pairs}
