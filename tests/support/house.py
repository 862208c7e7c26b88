"""The modules of this tree, their rooms, and who imports whom."""

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path

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


@cache
def import_statements(file: Path) -> list[tuple[ast.Import | ast.ImportFrom, bool]]:
    """Each with whether it is for types alone. A file is read once for all who ask, and expressions are passed over."""
    found: list[tuple[ast.Import | ast.ImportFrom, bool]] = []
    todo: list[tuple[ast.AST, bool]] = [(node, False) for node in ast.parse(file.read_text()).body]
    while todo:
        node, types_alone = todo.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.append((node, types_alone))
            continue
        types_alone |= isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, block, ())
            todo.extend((each, types_alone) for each in (inner if isinstance(inner, list) else ()))
    return found


def room_of(module: str) -> str:
    """The folder that a module lies in; what lies at the top is a room of its own."""
    folder = module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]
    return module if folder == "edgepack" else folder
