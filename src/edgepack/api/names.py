"""Names that are imported where they live when they are first asked for (PEP 562)."""

import re
import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path


def homes(file: str) -> Mapping[str, str]:
    """Name → the module it lives in, as the stub beside ``file`` says for type checkers: a line imports one name."""
    stub = Path(file).with_suffix(".pyi").read_text(encoding="utf-8")
    return {name: home for home, name in re.findall(r"^from (\S+) import (\w+) as", stub, re.MULTILINE)}


def lookup(
    module: str, home_of: Mapping[str, str], former: Callable[[str], str | None] = lambda name: None
) -> Callable[[str], object]:
    """The ``__getattr__`` of a module whose names live in others; ``former`` knows the home of those that it had before."""

    def find(name: str) -> object:
        home = home_of.get(name) or former(name)
        if home is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        found = getattr(import_module(home), name)
        if name in home_of:
            setattr(sys.modules[module], name, found)
        return found

    return find


def former(name: str) -> str | None:
    """The home of a name that ``edgepack.api.kit`` had before, for one release; whoever asks is warned."""
    from edgepack.api.former import ENDS, HOMES

    if name in HOMES:
        said = f"{name} is no longer in edgepack.api.kit, interface 3; edgepack {ENDS} ends it there"
        # Of the plugin's own line: two frames of this module, two of Python's import system.
        warnings.warn(said, DeprecationWarning, stacklevel=3)
    return HOMES.get(name)


def listing(home_of: Mapping[str, str]) -> Callable[[], list[str]]:
    """The ``__dir__`` of such a module, by which ``help`` shows every name."""
    return lambda: sorted(home_of)
