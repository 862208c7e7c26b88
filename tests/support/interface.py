"""What the pages say of what plugins may import: names, signatures, fields, and the strings that belong to them."""

import ast
import dataclasses
import hashlib
import inspect
import itertools
import re
import sys
import textwrap
import typing
from collections.abc import Callable, Container, Iterable, Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

INTERFACES = ("edgepack.api", "edgepack.api.axes", "edgepack.api.graphs", "edgepack.api.kit")
"""What plugins may import."""
WIDTH = 100
"""Of a signature on one line."""


def interface_snapshot() -> str:
    """Every name for plugins, and a digest of what their authors rely on: signatures, and fields of records."""
    return "".join(
        f"{interface}.{name} {_digest(name, getattr(import_module(interface), name))}\n"
        for interface in INTERFACES
        for name in sorted(import_module(interface).__all__)
    )


def _digest(name: str, value: Any) -> str:
    return hashlib.sha256("\n".join(_described(name, value)).encode()).hexdigest()[:12]


def _described(name: str, value: Any) -> Iterator[str]:
    if not inspect.isclass(value):
        yield f"{name}{_signature(value)}" if inspect.isfunction(value) else f"{name} = {_shown(value)}"
        return
    bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
    yield f"class {name}({bases})" if bases else f"class {name}"
    fields = (
        {each.name: each for each in dataclasses.fields(value)} if dataclasses.is_dataclass(value) else {}
    )
    if fields:
        yield from (f"    {each.name}: {_type(each.type)}{_default(each)}" for each in fields.values())
    elif "__init__" in vars(value) and not getattr(value, "_is_protocol", False):
        yield f"    __init__{_signature(vars(value)['__init__'])}"
    for member, function in sorted(vars(value).items()):
        if not member.startswith("_") and member not in fields and (described := _member(member, function)):
            yield f"    {described}"


def _member(name: str, member: Any) -> str | None:
    if isinstance(member, property):
        return f"{name}: {_signature(typing.cast(Callable[..., Any], member.fget)).return_annotation}"
    if isinstance(member, classmethod | staticmethod):
        member = member.__func__
    return f"{name}{_signature(member)}" if inspect.isfunction(member) else None


class _Words(str):
    """A text that is shown without quotes."""

    __repr__ = str.__str__


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    whole = inspect.signature(function)
    parameters = [each.replace(annotation=_type(each.annotation)) for each in whole.parameters.values()]
    return whole.replace(parameters=parameters, return_annotation=_type(whole.return_annotation))


def _type(annotation: Any) -> Any:
    """An annotation in words, without the modules that its names are in."""
    if annotation is inspect.Signature.empty:
        return annotation
    said = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return _Words(re.sub(r"~|\b(?:\w+\.)+(?=\w)", "", said))


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        return f" = {_shown(field.default)}"
    return "" if field.default_factory is dataclasses.MISSING else " = ..."


def _shown(value: object) -> str:
    """A value, the same in every process: sets in order, functions by their names, other objects by their class."""
    if isinstance(value, frozenset):
        return f"frozenset({sorted(value)})"
    if inspect.isfunction(value):
        return value.__qualname__
    return type(value).__name__ if " at 0x" in repr(value) else repr(value)


def sentence(value: object) -> str:
    """The first sentence of a docstring, in a table's row."""
    text = " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())
    return re.split(r"(?<=[^.]..\.)\s", text)[0].replace("``", "`").replace("|", "\\|")


def interface_page() -> str:
    """All names for plugins, with the types that their signatures name; those of the kit are too many."""
    public = {name for each in INTERFACES for name in import_module(each).__all__}
    said = "They come out of fields and functions; no plugin imports them.\n"
    parts = []
    for interface in INTERFACES:
        module = import_module(interface)
        parts.append(f"## {interface}\n{api_reference(module)}")
        if types := types_named(module, public) if interface != INTERFACES[-1] else "":
            parts.append(f"### Types that these name\n\n{said}{types}")
    return "\n".join(parts)


def api_reference(module: ModuleType) -> str:
    """All of a module's names, each with its signature and what is said of it; of records each field."""
    return "".join(f"\n### `{name}`\n\n{_entry(module, name)}" for name in sorted(module.__all__))


def types_named(module: ModuleType, public: Container[str]) -> str:
    """Classes of edgepack's own that signatures and fields of a module name, and that no plugin imports."""
    found: dict[str, type] = {}
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            home = vars(sys.modules[value.__module__])
            words = re.findall(r"\b[A-Z]\w+", " ".join(_described(name, value)))
            kinds = {word: home.get(word) for word in words if word not in public}
            found |= {word: kind for word, kind in kinds.items() if inspect.isclass(kind) and _is_ours(kind)}
    return "".join(f"\n#### `{name}`\n\n{_said_of(name, found[name])}" for name in sorted(found))


def records_reference(kinds: Iterable[type]) -> str:
    """Classes with what is said of them, and of each field."""
    return "".join(f"\n### `{kind.__name__}`\n\n{_said_of(kind.__name__, kind)}" for kind in kinds)


def classes_in(module: ModuleType) -> list[type]:
    """Classes that a module defines."""
    return [
        each for each in vars(module).values() if inspect.isclass(each) and each.__module__ == module.__name__
    ]


def _is_ours(kind: type) -> bool:
    return kind.__module__.startswith("edgepack.")


def _entry(module: ModuleType, name: str) -> str:
    value = getattr(module, name)
    if inspect.isfunction(value):
        return f"{_code(f'{name}{_signature(value)}')}\n{_text(value)}\n"
    if not inspect.isclass(value):
        said = _strings(_parsed(import_module(module.HOMES[name]))).get(name, "")
        return f"{_code(f'{name} = {_shown(value)}')}\n{_marked(said)}\n".rstrip() + "\n"
    return _said_of(name, value)


def _said_of(name: str, value: type) -> str:
    described = list(_described(name, value))
    members = [f"- {each}\n" for each in _members(value, described[1:])]
    return f"{_code(described[0])}\n{_text(value)}\n" + ("\n" if members else "") + "".join(members)


def _members(kind: type, lines: list[str]) -> Iterator[str]:
    """Fields and methods, in the snapshot's words, with their strings."""
    strings: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if _is_ours(each):
            strings |= _strings(_parsed(each).body[0])
    for line in map(str.strip, lines):
        name = re.match(r"\w+", line)[0]  # type: ignore[index]
        member = inspect.getattr_static(kind, name, None)
        written = member.__doc__ if inspect.isroutine(member) or isinstance(member, property) else None
        said = strings.get(name) or inspect.cleandoc(written or "")
        yield f"`{line}`" + (f": {_marked(' '.join(said.split()))}" if said else "")


def _parsed(source: Any) -> ast.Module:
    return ast.parse(textwrap.dedent(inspect.getsource(source)))


def _strings(body: ast.AST) -> dict[str, str]:
    """Name → the string under its assignment, of a module, a class, or what its ``__init__`` assigns."""
    found = {}
    statements = getattr(body, "body", [])
    for one, following in itertools.pairwise(statements):
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            targets = one.targets if isinstance(one, ast.Assign) else [getattr(one, "target", None)]
            name = getattr(targets[0], "id", None) or getattr(targets[0], "attr", None)
            if name and isinstance(following.value.value, str):
                found[name] = inspect.cleandoc(following.value.value)
    for each in statements:
        if isinstance(each, ast.FunctionDef) and each.name == "__init__":
            found |= _strings(each)
    return found


def _text(value: object) -> str:
    return _marked(inspect.getdoc(value) or "")


def _marked(text: str) -> str:
    """reStructuredText's literals as Markdown's."""
    return text.replace("``", "`")


def _code(line: str) -> str:
    """A signature, a parameter a line where it is long."""
    if len(line) > WIDTH and "(" in line:
        head, parameters, result = re.fullmatch(r"(\w+)\((.*)\)( -> .*)?", line).groups()  # type: ignore[union-attr]
        line = f"{head}(\n" + "".join(f"    {each},\n" for each in _parts(parameters)) + f"){result or ''}"
    return f"```text\n{line}\n```\n"


def _parts(parameters: str) -> Iterator[str]:
    """Split at the commas that are in no bracket."""
    depth, part = 0, ""
    for letter in f"{parameters}, ":
        depth += (letter in "[(") - (letter in "])")
        if letter == "," and not depth:
            yield part.strip()
            part = ""
        else:
            part += letter
