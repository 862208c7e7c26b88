"""Sentences of edgepack that say that something is well, found in its code: each needs a planted lie that must not get it."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.support.house import MODULES, ROOT

WORDS = re.compile(
    r"✓|\b(verified|proved|identical|up to date|same|can stay|signed|pulled|reproducible|passed|fits?|within the budget|ran within|"
    r"as the manifest|answered a request|from the store|checked|updated|whole|intact)\b"
)
"""What a result in green is made of."""
PROGRAM = ROOT / "src/edgepack/runner/native/csrc/program"
"""C++ of what a bundle's program prints."""
CXX = re.compile(r'//[^\n]*|"(?:[^"\\\n]|\\.)*"|;|\{\n')
"""A comment, a text, or the end of a statement."""
SHORT = {"passed", "verified", "same", "identical", "signed"}
"""Single words that a state or a verdict is called by."""
SAID_BY_A_CALL = ("option", "file_option", "example", "warn", "Spec", "command", "argument")
"""Help, warnings and listings."""
REFUSALS = ("hint", "help", "summary", "epilog")


def claims() -> Mapping[str, str]:
    """Each text outside of docstrings, errors, hints and help with one of ``WORDS`` → where it stands, ``FILE:LINE``; what is put into it is
    ``{}``."""
    found: dict[str, str] = {}
    for file in MODULES.values():
        name = file.relative_to(ROOT).as_posix()
        if name.startswith("plugins/template/"):
            continue
        for line, text in _texts(file):
            if WORDS.search(text) and (" " in text.strip() or "✓" in text or text in SHORT):
                found.setdefault(text, f"{name}:{line}")
    for file in sorted(PROGRAM.glob("*.cc")):
        for line, text in _printed(file):
            if WORDS.search(text):
                found.setdefault(text, f"{file.relative_to(ROOT).as_posix()}:{line}")
    return found


def _printed(file: Path) -> Iterator[tuple[int, str]]:
    """The words of each statement of C++ that is no refusal; ``{}`` is what stands between them."""
    content, start, words = file.read_text(encoding="utf-8"), 0, list[str]()
    for token in CXX.finditer(content):
        if (said := token[0]).startswith('"'):
            words.append(said[1:-1])
        elif not said.startswith("//"):
            refusal = "fail(" in content[start : token.start()] or (words and words[0].startswith("error:"))
            if not refusal:
                yield content.count("\n", 0, token.start()) + 1, "{}".join(words)
            start, words = token.end(), []


def named_tests(file: Path) -> set[str]:
    """Names of the tests of a file."""
    return {
        node.name
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def _texts(file: Path) -> Iterator[tuple[int, str]]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    left_out = {id(each) for node in ast.walk(tree) if _says_nothing_good(node) for each in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in left_out:
            continue
        if isinstance(node, ast.JoinedStr):
            left_out |= {id(each) for each in ast.walk(node)}
            parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def _says_nothing_good(node: ast.AST) -> bool:
    """A docstring, an error, a hint, help."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Call):
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        return name.endswith("Error") or name in SAID_BY_A_CALL
    return isinstance(node, ast.Raise) or (isinstance(node, ast.keyword) and node.arg in REFUSALS)
