"""Tests of what has changed: ``python -m tests.support.changed [COMMIT]`` prints the test files to run.

A test file is chosen when it, what it imports, or a conftest.py above it reaches a changed module, whether directly or
through other modules, or when it lies in the mirror of a changed room or plugin; a data file counts as each module of its folder. Tests on whole bundles reach everything through the
command that they start: of them, only those are chosen that have changed themselves. A change to what all tests rest on
(pyproject.toml, the Makefile, tests/conftest.py) chooses all.
"""

import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from tests.support.house import MODULES, ROOT, imports_of

ALWAYS = ("tests/unit/test_house.py", "tests/unit/test_words.py", "tests/unit/test_docs.py")
EVERYTHING = ("pyproject.toml", "Makefile", "tests/conftest.py", "requirements/")
READ_BY = {
    "targets/": "edgepack.targets",
    "docs/": "tests.unit.test_pages",
    "README.md": "tests.unit.test_pages",
    "tests/claims.toml": "tests.unit.test_claims",
    "tests/golden/": "tests.unit.test_api",
    "tests/js/": "tests.plugins.web.test_javascript",
}
"""Files that are no modules and lie beside none → a module that reads them."""


def changed_files(commit: str) -> list[str]:
    """What differs from a commit, and what git does not know yet; paths from the root."""
    known = _git("diff", "--name-only", commit)
    return [*known, *_git("ls-files", "--others", "--exclude-standard")]


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def chosen_by(changed: Iterable[str]) -> list[str]:
    """The test files that these changes can matter to, paths from the root."""
    changed = [*changed]
    every = sorted(path for path in _modules_of_tests().values() if path.name.startswith("test_"))
    if any(each.startswith(EVERYTHING) for each in changed):
        return [_name(path) for path in every]
    hit = {name for each in changed for name in _modules_at(ROOT / each)}
    mirrors = tuple(mirror for each in changed for mirror in _mirrors(each))
    chosen = [path for path in every if _reached(path) & hit or _name(path).startswith(mirrors)]
    return sorted({*ALWAYS, *(_name(path) for path in chosen if _is_chosen(path, changed))})


def _mirrors(changed: str) -> list[str]:
    """Where the tests of a room or of a plugin lie, also those that reach it through the host alone."""
    match changed.split("/"):
        case ["src", "edgepack", room, _, *_]:
            return [f"tests/unit/{room}/"]
        case ["plugins", plugin, _, *_]:
            name = plugin.removeprefix("edgepack_")
            return [f"tests/plugins/{name}/", f"tests/plugins/test_{name}"]
    return []


def _is_chosen(path: Path, changed: list[str]) -> bool:
    return _name(path) in changed or not _name(path).startswith("tests/e2e/")


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _modules_at(changed: Path) -> list[str]:
    """The module that a file is; for data, what reads it, or the modules of the nearest folder that has any."""
    modules = _every()
    readers = [module for start, module in READ_BY.items() if _name(changed).startswith(start)]
    if readers:
        return readers
    exactly = [name for name, path in modules.items() if path == changed]
    folder = changed.parent
    while not exactly and folder != ROOT:
        exactly = [name for name, path in modules.items() if path.parent == folder]
        folder = folder.parent
    return exactly


@cache
def _modules_of_tests() -> dict[str, Path]:
    files = sorted((ROOT / "tests").rglob("*.py"))
    return {
        ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
        for file in files
    }


@cache
def _every() -> Mapping[str, Path]:
    return {**MODULES, **_modules_of_tests()}


@cache
def _imports(name: str) -> frozenset[str]:
    return frozenset(imports_of(name, among=_every()))


def _reached(test: Path) -> set[str]:
    """All modules that a test file imports, and those that its fixtures do."""
    folders = [folder for folder in test.parents if folder.is_relative_to(ROOT / "tests")]
    starts = {test, *(folder / "conftest.py" for folder in folders[:-1])}
    todo = [name for name, path in _modules_of_tests().items() if path in starts]
    found: set[str] = set()
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo.extend(_imports(name))
    return found


if __name__ == "__main__":
    sys.stdout.writelines(
        f"{each}\n" for each in chosen_by(changed_files(sys.argv[1] if sys.argv[1:] else "HEAD"))
    )
