"""Files of what was approved, beside what comes out now."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/golden"


def matches_golden(name: str, text: str, *, update: bool) -> None:
    """The text is that of ``tests/golden/NAME``; with ``update`` it becomes it."""
    file = GOLDEN / name
    if update:
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), f"{file} is another: --update-golden writes it anew"


def matches_block(page: str, name: str, text: str, *, update: bool) -> None:
    """The text stands in ``docs/PAGE`` between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``."""
    file = ROOT / "docs" / page
    document = file.read_text(encoding="utf-8")
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
    assert document.count(begin) == 1, f"{file} has no {begin}"
    if update:
        document = re.sub(f"{begin}.*?{end}", lambda _: begin + text + end, document, flags=re.DOTALL)
        file.write_text(document, encoding="utf-8")
    block = document.partition(begin)[2].partition(end)[0]
    assert text == block, f"{file} says otherwise: --update-golden writes it anew"


def in_rows(document: Mapping[str, Any]) -> str:
    """JSON to look over: each key, and each element of a list, on a line of its own."""
    lines = []
    for key, value in document.items():
        rows = [f"    {json.dumps(each)}" for each in value] if isinstance(value, list) else []
        joined = ",\n".join(rows)
        shown = f"[\n{joined}\n  ]" if rows else json.dumps(value)
        lines.append(f"  {json.dumps(key)}: {shown}")
    return "{\n" + ",\n".join(lines) + "\n}\n"
