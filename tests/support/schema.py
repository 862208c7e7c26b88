"""What a JSON document says against a schema, for the few keywords that docs/schemas uses."""

import re
from collections.abc import Iterator
from typing import Any

KINDS: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}
KNOWN = {
    *("$schema", "title", "description", "type", "enum", "const", "pattern", "minimum"),
    *("properties", "required", "additionalProperties", "items"),
}


def against(schema: Any, value: Any, where: str = "") -> Iterator[str]:
    """Each place where the value is not as the schema says, with what is wrong."""
    assert schema.keys() <= KNOWN, schema.keys() - KNOWN
    kinds = schema.get("type", list(KINDS))
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not any(_is(kind, value) for kind in kinds):
        yield f"{where}: {value!r} is no {' or '.join(kinds)}"
        return
    if value not in schema.get("enum", [value]) or value != schema.get("const", value):
        yield f"{where}: {value!r} is another value"
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        yield f"{where}: {value!r} has another form"
    if _is("number", value) and value < schema.get("minimum", value):
        yield f"{where}: {value!r} is too small"
    if isinstance(value, list) and "items" in schema:
        for at, each in enumerate(value):
            yield from against(schema["items"], each, f"{where}[{at}]")
    if isinstance(value, dict):
        yield from _table(schema, value, where)


def _table(schema: Any, value: dict[str, Any], where: str) -> Iterator[str]:
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", {})
    yield from (f"{where}: {key} is missing" for key in schema.get("required", ()) if key not in value)
    for key, each in value.items():
        known = properties.get(key, others)
        if known is False:
            yield f"{where}: {key} is not in the schema"
        else:
            yield from against(known, each, f"{where}.{key}")


def _is(kind: str, value: Any) -> bool:
    return isinstance(value, KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))
