"""The modules of this tree, their rooms, and who imports whom."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from edgepack.files.store import sha256_of
from tests.support.kept import kept

ROOT = Path(__file__).parents[2]


def modules() -> dict[str, Path]:
    found = {}
    for base in (ROOT / "src", ROOT / "plugins"):
        for file in sorted(base.rglob("*.py")):
            name = ".".join(file.relative_to(base).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = file
    return found


MODULES = modules()


def imports_of(module_name: str, *, among: Mapping[str, Path] = MODULES, for_types: bool = False) -> set[str]:
    """Modules of ours that one imports at its top or inside functions; ``for_types``: also those imported for types alone."""
    found: set[str] = set()
    file = among[module_name]
    package = module_name.split(".") if file.name == "__init__.py" else module_name.split(".")[:-1]
    for node, types_alone in import_statements(file):
        if types_alone and not for_types:
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
            continue
        start = ".".join([*package[: len(package) - node.level + 1], *([node.module] if node.module else [])])
        module = start if node.level else str(node.module)
        for alias in node.names:
            found.add(f"{module}.{alias.name}" if f"{module}.{alias.name}" in among else module)
    return found & among.keys()


Statement = ast.Import | ast.ImportFrom


def import_statements(file: Path) -> list[tuple[Statement, bool]]:
    """Each with whether it is for types alone."""
    return _statements_of_all()[file]


@cache
def _statements_of_all() -> dict[Path, list[tuple[Statement, bool]]]:
    files = sorted(
        file for base in ("src", "plugins", "tests", "benchmarks") for file in (ROOT / base).rglob("*.py")
    )
    inputs = {file.relative_to(ROOT).as_posix(): sha256_of(file) for file in [*files, Path(__file__)]}
    found = kept("imports", inputs, lambda: [_statements_of(file) for file in files])
    return dict(zip(files, found, strict=True))


def _statements_of(file: Path) -> list[tuple[Statement, bool]]:
    return [(node, types_alone) for node, types_alone in statements(file) if isinstance(node, Statement)]


def statements(file: Path) -> Iterator[tuple[ast.AST, bool]]:
    """All of a file, expressions passed over, each with whether it is for types alone."""
    todo: list[tuple[ast.AST, bool]] = [(ast.parse(file.read_text(encoding="utf-8")), False)]
    while todo:
        node, types_alone = todo.pop()
        yield node, types_alone
        types_alone |= isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, block, ())
            todo.extend((each, types_alone) for each in (inner if isinstance(inner, list) else ()))


def room_of(module: str) -> str:
    """The folder that a module lies in; what lies at the top is a room of its own."""
    folder = module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]
    return module if folder == "edgepack" else folder
