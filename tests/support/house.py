"""The modules of this tree, their rooms, and who imports whom."""

import ast
from collections.abc import Mapping
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
    todo: list[ast.AST] = list(ast.parse(file.read_text()).body)
    while todo:
        node = todo.pop()
        if not for_types and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = ".".join(
                [*package[: len(package) - node.level + 1], *([node.module] if node.module else [])]
            )
            module = start if node.level else str(node.module)
            for alias in node.names:
                found.add(f"{module}.{alias.name}" if f"{module}.{alias.name}" in among else module)
        todo.extend(ast.iter_child_nodes(node))
    return found & among.keys()


def room_of(module: str) -> str:
    """The folder that a module lies in; what lies at the top is a room of its own."""
    folder = module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]
    return module if folder == "edgepack" else folder
