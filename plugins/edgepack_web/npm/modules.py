"""JavaScript modules as they travel: several as one file, without comments."""

import re
from collections.abc import Mapping
from pathlib import Path

_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w.-]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?function|class|const)", re.MULTILINE)
_COMMENT_LINE = re.compile(r"^[ \t]*//.*\n", re.MULTILINE)
_COMMENT_BLOCK = re.compile(r"^[ \t]*/\*\*.*?\*/[ \t]*\n", re.MULTILINE | re.DOTALL)


ON_ENGINE = {"session.mjs": "plan.mjs", "compiled.mjs": "plan.mjs"}
"""In the place of what is for ONNX Runtime."""


def joined(entry: Path, instead: Mapping[str, str] | None = None) -> str:
    """A module and those that it imports from beside it, each once, as one that imports nothing; it exports what it did. ``instead``:
    names of modules, and those that are taken in their place.

    One file is what a worker from another origin needs: it starts from a blob, which nothing lies beside.
    Two modules must not use one name at their top; Node is asked whether the result is sound when the bundle is tried.
    """
    texts: dict[str, str] = {}
    _collect(entry, texts, instead or {})
    texts[entry.name] = _IMPORT.sub("", entry.read_text(encoding="utf-8"))
    return without_comments("".join(texts.values()))


def _collect(module: Path, texts: dict[str, str], instead: Mapping[str, str]) -> None:
    source = module.read_text(encoding="utf-8")
    for imported in _IMPORT.findall(source):
        name = instead.get(imported, imported)
        if name not in texts:
            _collect(module.with_name(name), texts, instead)
    texts[module.name] = _EXPORT.sub("", _IMPORT.sub("", source))


def without_comments(source: str) -> str:
    """The text without lines that are comments, blank lines and indentation; nothing within a line changes.

    Template literals over several lines would: there are none in these modules.
    """
    bare = _COMMENT_LINE.sub("", _COMMENT_BLOCK.sub("", source))
    return "\n".join(line.strip() for line in bare.splitlines() if line.strip()) + "\n"
