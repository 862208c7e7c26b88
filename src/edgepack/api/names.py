"""Names that are imported where they live when they are first asked for (PEP 562)."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lookup(module: str, homes: Mapping[str, tuple[str, ...]]) -> Callable[[str], object]:
    """The ``__getattr__`` of a module whose names live in others; ``homes`` is module → names."""
    home_of = {name: home for home, names in homes.items() for name in names}

    def find(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        found = getattr(import_module(home_of[name]), name)
        setattr(sys.modules[module], name, found)
        return found

    return find
