"""The order of the house: floors, strangers at the door, and a light start."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FLOORS = (
    ("records", "errors"),
    (
        *("store", "fetch", "network", "tools", "context", "console"),
        *("elf", "closure", "tarballs", "npm", "wheels"),
    ),
    ("models", "foundry", "runner", "targets"),
    ("recipes", "bundle", "report", "options", "plugins"),
    ("pipeline", "api", "libraries", "listing", "verification", "serve_web"),
    ("cli", "__main__"),
)
SHARED_BY_PLUGINS = "edgepack_cuda.nvidia"
"""What two plugins have in common and nobody else needs."""
HEAVY = {"onnx", "onnxruntime", "numpy", "tokenizers", "httpx", "torch", "PyInstaller", "zstandard", "brotli"}


def imports_of(file: Path) -> set[str]:
    """Modules that a file imports while it is itself imported (not inside functions or TYPE_CHECKING blocks)."""
    found: set[str] = set()
    todo: list[ast.AST] = list(ast.parse(file.read_text()).body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, (ast.Try, ast.With, ast.ClassDef)):
            todo.extend(node.body)
    return found


def floor_of(module: str) -> int | None:
    part = module.split(".")[1] if module.startswith("edgepack.") else None
    return next((level for level, names in enumerate(FLOORS) if part in names), None)


def test_a_floor_stands_only_on_floors_below_it() -> None:
    source = ROOT / "src" / "edgepack"
    for file in sorted(source.rglob("*.py")):
        module = ".".join(("edgepack", *file.relative_to(source).with_suffix("").parts))
        here = floor_of(module)
        if here is None:
            assert file.name == "__init__.py" or "testing" in file.parts, f"{file} is on no floor"
            continue
        for imported in imports_of(file):
            there = floor_of(imported)
            assert there is None or there <= here, f"{module} imports {imported}, which is above it"


@pytest.mark.parametrize("file", sorted((ROOT / "plugins").rglob("*.py")), ids=str)
def test_plugins_use_the_public_interface_only(file: Path) -> None:
    own = file.relative_to(ROOT / "plugins").parts[0]
    tree = ast.parse(file.read_text())
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        for name in names:
            if name.split(".")[0] == "edgepack":
                assert name in ("edgepack.api", "edgepack.testing"), f"{file} imports {name}"
            assert not name.startswith("edgepack_") or name.split(".")[0] == own or name == SHARED_BY_PLUGINS


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["bundle", "--help"], ["targets"], ["plugins"], ["completion", "bash"]],
    ids=" ".join,
)
def test_a_light_start(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "edgepack", *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    imported = {line.rpartition("|")[2].strip().split(".")[0] for line in done.stderr.splitlines()}
    assert "edgepack" in imported, "the measurement itself works"
    assert not imported & HEAVY


@pytest.mark.parametrize("arguments", [["--help"], ["bundle", "--help"], ["completion", "zsh"]], ids=" ".join)
def test_help_and_completion_load_no_plugin(arguments: list[str]) -> None:
    code = (
        "import sys, edgepack.cli\nsys.argv = ['edgepack', *sys.argv[1:]]\n"
        "try:\n    edgepack.cli.main()\nexcept SystemExit:\n    print('LOADED', 'edgepack_linux' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    assert "LOADED False" in done.stdout


@pytest.mark.parametrize("file", ["targets/linux-x86-min.toml", "tests/stranger/edgepack_kiosk/__init__.py"])
def test_the_readme_shows_files_as_they_are(file: str) -> None:
    assert (ROOT / file).read_text() in (ROOT / "README.md").read_text()
