"""Names that are imported where they live when they are first asked for (PEP 562)."""

import re
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path


def homes(file: str) -> Mapping[str, str]:
    """Name → the module it lives in, as the stub beside ``file`` says for type checkers: a line imports one name."""
    stub = Path(file).with_suffix(".pyi").read_text(encoding="utf-8")
    return {name: home for home, name in re.findall(r"^from (\S+) import (\w+) as", stub, re.MULTILINE)}


def lookup(module: str, home_of: Mapping[str, str]) -> Callable[[str], object]:
    """The ``__getattr__`` of a module whose names live in others."""

    def find(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        found = getattr(import_module(home_of[name]), name)
        setattr(sys.modules[module], name, found)
        return found

    return find


def listing(home_of: Mapping[str, str]) -> Callable[[], list[str]]:
    """The ``__dir__`` of such a module, by which ``help`` shows every name."""
    return lambda: sorted(home_of)
