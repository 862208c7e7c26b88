"""JSON schemas of ``docs/schemas`` as tables: each key with its type and what is said of it."""

from collections.abc import Iterable, Iterator
from typing import Any


def schema_tables(schema: dict[str, Any]) -> str:
    """A table of the keys at the top, then one for each object below; a key's name leads to its own."""
    top = [row for row in _keys(schema, "") if not row[0]]
    deep = [(key, each) for _, key, each, _ in top if next(_keys(each, ""), None)]
    tables = (f"\n## `{key}`\n\n{each['description']}\n\n{_table(_keys(each, ''))}" for key, each in deep)
    return f"\n{_table(top)}" + "".join(tables)


def undescribed(schema: dict[str, Any]) -> list[str]:
    """Keys of which a schema says nothing."""
    return [f"{where}{key}" for where, key, each, _ in _keys(schema, "") if not each.get("description")]


def _table(rows: Iterable[tuple[str, str, dict[str, Any], bool]]) -> str:
    lines = (
        f"| `{where}{key}` | {_kind(each)}{'' if always else ', optional'} | {_said(each)} |\n"
        for where, key, each, always in rows
    )
    return "| key | type | |\n|---|---|---|\n" + "".join(lines)


def _keys(schema: dict[str, Any], where: str) -> Iterator[tuple[str, str, dict[str, Any], bool]]:
    """Path of the object, key, its schema, and whether it is always there; a list's elements are those of its key."""
    schema = schema.get("items", schema)
    for key, each in schema.get("properties", {}).items():
        yield where, key, each, key in schema.get("required", ())
        yield from _keys(each, f"{where}{key}.")
    if isinstance(named := schema.get("additionalProperties"), dict):
        yield where, "NAME", named, False
        yield from _keys(named, f"{where}NAME.")


def _kind(schema: dict[str, Any]) -> str:
    if "const" in schema or "enum" in schema:
        return " \\| ".join(f"`{each}`" for each in schema.get("enum", [schema.get("const")]))
    kinds = schema.get("type", "any")
    kinds = [kinds] if isinstance(kinds, str) else kinds
    said = [f"list of {_kind(schema['items'])}s" if each == "array" else each for each in kinds]
    return " or ".join(said)


def _said(schema: dict[str, Any]) -> str:
    return str(schema.get("description", "")).replace("|", "\\|")
