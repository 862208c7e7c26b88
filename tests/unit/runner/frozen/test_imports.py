"""What gets frozen stands alone: the standard library, tokenizers, h11, and its own folder."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from edgepack.runner.freeze.pyinstaller import SOURCES

pytestmark = pytest.mark.tools("python")

ALLOWED = {*sys.stdlib_module_names, "tokenizers", "h11", "_sha2", "_sha256"}
"""The last two are the same module, before and since Python 3.12."""


def imports_of(source: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            depth = len(source.relative_to(SOURCES).parts)
            assert node.level <= depth, f"{source.name} reaches outside the program"
            if node.level == 0:
                found.add(str(node.module).split(".")[0])
    return found


def test_it_imports_nothing_else() -> None:
    sources = sorted(SOURCES.rglob("*.py"))
    assert len(sources) > 30
    for source in sources:
        assert imports_of(source) <= ALLOWED, source.name


def test_the_binding_imports_nothing_of_its_folder() -> None:
    assert imports_of(SOURCES / "model/ort.py") <= set(sys.stdlib_module_names)
    assert "from ." not in (SOURCES / "model/ort.py").read_text()


def test_the_version_loads_neither_model_nor_tokenizer(frozen_sample: Path) -> None:
    script = (
        "import sys; from edgepack.runner.frozen.cli import main; main(['--version'], sys.argv[1])\n"
        "print([name for name in ('ctypes', 'tokenizers', 'typing', 'pathlib', 'dataclasses') if name in sys.modules])"
    )
    path = str(SOURCES.parents[2])
    done = subprocess.run(
        [
            sys.executable,
            "-I",
            "-S",
            "-c",
            f"import sys; sys.path.insert(0, {path!r})\n{script}",
            frozen_sample,
        ],
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert done.stdout.splitlines() == ["embed 0 (sample)", "[]"]
