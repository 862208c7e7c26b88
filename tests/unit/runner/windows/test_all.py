"""Which tests there are for the program for Windows."""

import ast
from pathlib import Path

from tests.support.windows_sample import NOT_UNDER_WINE

HERE = Path(__file__).parent
WITHOUT = {
    "test_embedder.py": "of libraries for Linux, and of batches, whose code is the same there",
    "test_embed_program.py": "of scripts in a program's place; test_verifier.py asks the program for Windows",
    "test_integrations.py": "of the Python package that is laid beside a program for Linux",
}


def functions(file: Path) -> set[str]:
    return {each.name for each in ast.parse(file.read_text()).body if isinstance(each, ast.FunctionDef)}


def test_each_file_that_runs_a_bundles_program_is_run_on_windows_too() -> None:
    running = {
        file.name
        for file in HERE.parent.glob("test_*.py")
        if {"tests.support.sample_program", "tests.support.embed_serve"} & imported(file)
        or "native_sample" in file.read_text()
    }
    assert running - WITHOUT.keys() - {file.name for file in HERE.glob("test_*.py")} == set()
    assert WITHOUT.keys() <= running


def imported(file: Path) -> set[str | None]:
    return {each.module for each in ast.walk(ast.parse(file.read_text())) if isinstance(each, ast.ImportFrom)}


def test_what_is_left_out_is_there_to_be_left_out() -> None:
    known = set().union(*(functions(file) for file in HERE.parent.glob("test_*.py")))
    assert {name for name in NOT_UNDER_WINE if name.partition("[")[0] not in known} == set()
