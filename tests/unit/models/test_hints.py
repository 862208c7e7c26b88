"""What is said of a model that cannot be used: two lines, what is wrong and what to do."""

import ast
from pathlib import Path

import pytest

import edgepack.models

FOLDER = Path(edgepack.models.__file__).parent
INSIDE = ("canonical.py", "flat.py", "tensors.py")
"""Of files in ORT format that ONNX Runtime has just written, or whose readers say more."""


@pytest.mark.parametrize(
    "file", sorted(FOLDER.rglob("*.py")), ids=lambda file: file.relative_to(FOLDER).as_posix()
)
def test_every_refusal_has_a_hint(file: Path) -> None:
    calls = [
        node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)
    ]
    bare = [
        f"line {call.lineno}"
        for call in calls
        if isinstance(call.func, ast.Name)
        and call.func.id in ("ModelError", "UnsupportedModelError")
        and not any(keyword.arg == "hint" for keyword in call.keywords)
    ]
    assert bare == [] or file.name in INSIDE
