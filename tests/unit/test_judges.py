"""Which tests need a judge: those called ``judge_*.py``, and no others."""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.house import ROOT, import_statements

TESTS = ROOT / "tests"
OF_TESTS = frozenset(TESTS.rglob("*.py"))
OTHERWISE = {
    "cyclonedx-python-lib": "cyclonedx",
    "packageurl-python": "packageurl",
    "pyopenssl": "OpenSSL",
    "scikit-learn": "sklearn",
}
"""Distributions whose modules have other names."""


def judges() -> set[str]:
    """The modules of pyproject.toml's extra ``judges``."""
    said = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["judges"]
    names = [re.split(r"[^\w-]", each)[0] for each in said]
    return {OTHERWISE.get(name, name.replace("-", "_")) for name in names}


JUDGES = judges()
DOORS = {"safetensors.torch": "torch", "edgepack.models.judge.difference_from_judge": "sentence_transformers"}
"""Behind which a judge is."""
BY_NAME = re.compile(r"(?:importorskip|import_module)\(\s*['\"]([\w.]+)")


@cache
def imported(file: Path) -> frozenset[str]:
    """What a file imports, at its top or inside functions, or skips without."""
    found: set[str] = set()
    for node, _ in import_statements(file):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif node.module:
            found.update((node.module, *(f"{node.module}.{alias.name}" for alias in node.names)))
    return frozenset(found.union(BY_NAME.findall(file.read_text(encoding="utf-8"))))


def reached(file: Path) -> Iterator[Path]:
    """A test file, the conftest.py of its folders, and all modules of tests that these import."""
    todo, seen = [file, *(folder / "conftest.py" for folder in file.parents)], set()
    while todo:
        each = todo.pop()
        if each in seen or each not in OF_TESTS:
            continue
        seen.add(each)
        yield each
        todo += _neighbours(each)


@cache
def _neighbours(file: Path) -> list[Path]:
    return [ROOT.joinpath(*name.split(".")).with_suffix(".py") for name in imported(file)]


def asked(file: Path) -> dict[str, str]:
    """Judge → by which file a test file comes to it."""
    return {
        judge: str(each.relative_to(ROOT))
        for each in reached(file)
        for name in imported(each)
        for judge in JUDGES & {DOORS.get(name, name.partition(".")[0])}
    }


def test_the_list_of_judges_is_read() -> None:
    assert {"torch", "sentence_transformers", "sklearn", "cyclonedx"} <= JUDGES


def test_no_test_of_the_first_tier_asks_a_judge() -> None:
    found = {str(file.relative_to(ROOT)): asked(file) for file in sorted(TESTS.rglob("test_*.py"))}
    assert len(found) > 250
    assert {file: why for file, why in found.items() if why} == {}, "call what needs a judge judge_*.py"


def test_a_test_of_the_judges_asks_one() -> None:
    found = [file for file in sorted(TESTS.rglob("judge_*.py")) if not asked(file)]
    assert found == [], "call what needs no judge test_*.py"
