"""How the bundle in this package is asked: through its library where it has one, else through its program."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ._errors import refusal
from ._program import Program, forget_programs

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path(__file__).absolute().with_name("bundle")
MODULE = FOLDER / "python"
"""A zip, in which neither pip nor Python leaves what it compiles."""


class Wishes(NamedTuple):
    """``None`` is the model's own way."""

    prefix: str | None = None
    dim: int | None = None
    max_length: int | None = None
    batch_size: int | None = None
    threads: int | None = None


def program() -> str:
    """Where the bundle's program lies."""
    manifest = json.loads((FOLDER / "manifest.json").read_text(encoding="utf-8"))
    return str(FOLDER / manifest["runner"]["program"])


def embedder(wishes: Wishes) -> Callable[[list[str]], list[list[float]]]:
    """What makes vectors of texts in this way. Raises ``ValueError`` or ``EmbedError``."""
    if MODULE.exists():
        return _with_library(wishes)
    return Program([program(), *_flags(wishes)]).embed


def after_fork() -> None:
    """In a child process: nothing of the parent's is used any more."""
    forget_programs()


def _flags(wishes: Wishes) -> list[str]:
    given = {name: value for name, value in wishes._asdict().items() if value is not None}
    return [word for name, value in given.items() for word in ("--" + name.replace("_", "-"), str(value))]


def _with_library(wishes: Wishes) -> Callable[[list[str]], list[list[float]]]:
    if str(MODULE) not in (places := sys.modules[__package__].__path__):
        places.append(str(MODULE))
    module: Any = importlib.import_module(__package__ + ".edgepack_bundle")
    numbers = {name: value or 0 for name, value in wishes._asdict().items() if name != "prefix"}
    try:
        bundle = module.Bundle(FOLDER, prefix=wishes.prefix, **numbers)
    except module.EmbedError as error:
        raise refusal(str(error), error.code) from None

    def embed(texts: list[str]) -> list[list[float]]:
        try:
            rows = bundle.embed(texts)
        except module.EmbedError as error:
            raise refusal(str(error), error.code) from None
        # A NumPy array where NumPy is installed.
        made: list[list[float]] = rows if isinstance(rows, list) else rows.tolist()
        return made

    return embed
