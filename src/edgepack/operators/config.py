"""Which operator kernels, with which types: ONNX Runtime's ``required_operators_and_types.config``, read and written.

A line is ``domain;opset[,opset…];Op[{types}],Op…``; upstream describes it in its *reduced operator config file*
reference. Types are JSON: ``{"inputs":{"0":["float"]},"outputs":{…}}``, or ``{"custom":[[…],…]}`` for a few operators.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from edgepack.errors import ModelError, UsageError
from edgepack.operators.types import upstream, usage_manager
from edgepack.records.operators import Operator, Operators

GLOBAL_TYPES = "!globally_allowed_types;"
ALL_WHEN_NONE = "!no_ops_specified_means_all_ops_are_required"
_NAMED_AT_MOST = 12
OVERLAP, LEAST, MOST, WORD, DEEPEST = 32, 1 << 20, 1 << 30, 64, 32
"""How many times a model's bytes its names and what has them may take together, at least and at most, how many each takes beside its letters, and
how deep graphs may lie in one another."""

Key = tuple[str, int, str]


def parse_config(text: str) -> Operators:
    """The operators of a config file. An operator that is named more than once gets the types of all its entries.

    (Upstream's own parser keeps only the last entry's types: microsoft/onnxruntime#16742.)
    Raises ``UsageError`` naming the line that is invalid.
    """
    kernels: list[Operator] = []
    allowed: frozenset[str] = frozenset()
    all_when_none = False
    for number, line in enumerate((line.strip() for line in text.splitlines()), start=1):
        if not line or line.startswith("#"):
            continue
        if line.startswith(GLOBAL_TYPES):
            allowed |= _names(line[len(GLOBAL_TYPES) :])
        elif line == ALL_WHEN_NONE:
            all_when_none = True
        else:
            kernels.extend(_line(line, number))
    if all_when_none and not kernels:
        raise UsageError(
            "the operator config requires every operator", hint="list the operators that are needed"
        )
    if allowed and any(kernel.types for kernel in kernels):
        raise UsageError("an operator config cannot have both globally allowed types and types by operator")
    return Operators(kernels=_merged(kernels), globally_allowed_types=allowed)


def format_config(operators: Operators) -> str:
    """The config file's text, sorted: the same operators always give the same text."""
    lines: list[str] = []
    if operators.globally_allowed_types:
        lines.append(GLOBAL_TYPES + ",".join(sorted(operators.globally_allowed_types)))
    by_version: dict[tuple[str, int], list[str]] = defaultdict(list)
    for kernel in sorted(_merged(operators.kernels)):
        by_version[kernel.domain, kernel.since].append(kernel.name + kernel.types)
    lines += [f"{domain};{since};{','.join(entries)}" for (domain, since), entries in by_version.items()]
    return "".join(f"{line}\n" for line in lines)


def union(sets: Iterable[Operators]) -> Operators:
    """Operators that serve every one of the sets: all kernels, each with all the types that any set needs."""
    members = list(sets)
    restricted = [member.globally_allowed_types for member in members if member.kernels]
    if restricted and all(restricted):
        kernels = [kernel for member in members for kernel in member.kernels]
        return Operators(kernels=_merged(kernels), globally_allowed_types=frozenset().union(*restricted))
    # Global types cannot stand beside types by operator: what they restricted then gets all types, which serves too.
    return Operators(
        kernels=_merged(
            Operator(domain=kernel.domain, since=kernel.since, name=kernel.name)
            if member.globally_allowed_types
            else kernel
            for member in members
            for kernel in member.kernels
        )
    )


def required(needs: Operators | None) -> Operators:
    """Operators that a model needs; ``ModelError`` where they are not known."""
    if needs is None:
        raise ModelError(
            "a runtime cannot be reduced to a model with unknown operators",
            hint="name them in PreparedModel.needs; a runtime with all operators has provides=None",
        )
    return needs


def missing_operators(needs: Operators, provides: Operators) -> tuple[Operator, ...]:
    """Operators that are needed and not provided, sorted; an operator that lacks some of its types counts as missing."""
    provided: dict[Key, str] = {_key(kernel): kernel.types for kernel in _merged(provides.kernels)}
    allowed = provides.globally_allowed_types
    return tuple(
        kernel
        for kernel in sorted(_merged(needs.kernels))
        if _key(kernel) not in provided
        or not _covers(kernel.types, provided[_key(kernel)])
        or (allowed and not _only(kernel.types, allowed, needs.globally_allowed_types))
    )


def unmet(needs: Operators, provides: Operators) -> tuple[str, ...]:
    """Sentence about the operators that the model needs and the runtime lacks; or nothing."""
    lacking = missing_operators(needs, provides)
    if not lacking:
        return ()
    named = ", ".join(
        f"{kernel.domain}:{kernel.name}({kernel.since}){kernel.types}" for kernel in lacking[:_NAMED_AT_MOST]
    )
    more = f" and {len(lacking) - _NAMED_AT_MOST} more" if len(lacking) > _NAMED_AT_MOST else ""
    return (f"the runtime lacks {len(lacking)} operator kernel(s) that the model needs: {named}{more}",)


def operators_of_ort_model(path: Path) -> Operators:
    """The operators that an ``.ort`` file asks for, with types, subgraphs included. Raises ``ModelError``."""
    required: dict[str, dict[int, set[str]]] = {}
    usage = usage_manager(exact=True)
    reader = upstream("ort_model_processor")
    try:
        processor = reader.OrtFormatModelProcessor(str(path), required, usage)
        _require_a_tree(
            processor._model.Graph(), reader.fbs.AttributeType.AttributeType, size=path.stat().st_size
        )
        processor.process()
    except FileNotFoundError as error:
        raise ModelError(f"there is no model file {path}") from error
    except Exception as error:  # upstream's reader raises whatever its flatbuffers code runs into
        raise ModelError(
            f"{path.name} is not a model in ORT format, or is damaged", hint="convert the model again"
        ) from error
    return Operators(
        kernels=frozenset(
            Operator(
                domain=domain,
                since=since,
                name=name,
                types=canonical_types(usage.get_config_entry(domain, name) or ""),
            )
            for domain, by_version in required.items()
            for since, names in by_version.items()
            for name in names
        )
    )


def _require_a_tree(graph: Any, kinds: Any, *, size: int) -> None:
    """Raise ``ValueError`` where graphs, nodes or names stand in several places of one another, so that a small file takes years to read."""
    left, waiting = min(OVERLAP * size + LEAST, MOST), [(graph, 0)]
    seen: set[int] = set()

    def take(*names: bytes | None) -> None:
        nonlocal left
        left -= sum(WORD + len(name or b"") for name in names)
        if left < 0:
            raise ValueError("what it holds is together far longer than it is")

    while waiting:
        graph, depth = waiting.pop()
        if graph._tab.Pos in seen or depth > DEEPEST:
            raise ValueError("a graph stands in two places, or too deep in others")
        seen.add(graph._tab.Pos)
        for at in range(graph.NodeArgsLength()):
            take(graph.NodeArgs(at).Name())
        for node in (graph.Nodes(at) for at in range(graph.NodesLength())):
            take(node.OpType(), node.Domain())
            for at in range(node.InputsLength()):
                take(node.Inputs(at))
            for at in range(node.OutputsLength()):
                take(node.Outputs(at))
            for attribute in (node.Attributes(at) for at in range(node.AttributesLength())):
                take(None)
                if attribute.Type() == kinds.GRAPH:
                    waiting.append((attribute.G(), depth + 1))
                elif attribute.Type() == kinds.GRAPHS:
                    for at in range(attribute.GraphsLength()):
                        take(None)
                        waiting.append((attribute.Graphs(at), depth + 1))


def canonical_types(types: str) -> str:
    """Type restrictions as JSON with sorted keys and lists and no spaces, so that equal restrictions are equal texts."""
    return _dump(json.loads(types)) if types else ""


def types_by_operator(operators: Operators) -> dict[tuple[str, str], str]:
    """(domain, name) → types over all versions: ONNX Runtime's type control knows no versions. Empty: all types."""
    merged: dict[tuple[str, str], str] = {}
    for kernel in sorted(operators.kernels):
        key = kernel.domain, kernel.name
        merged[key] = _merge_types(merged[key], kernel.types) if key in merged else kernel.types
    return merged


def _line(line: str, number: int) -> Iterator[Operator]:
    try:
        domain, versions, entries = (part.strip() for part in line.split(";"))
        opsets = [int(version) for version in versions.split(",")]
        named = list(_entries(entries))
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"line {number} of the operator config is invalid: {line[:80]}",
            hint='a line is domain;opset;Op,Op{"inputs":{"0":["float"]}},…',
        ) from error
    for since in opsets:
        for name, types in named:
            yield Operator(domain=domain, since=since, name=name, types=types)


def _entries(text: str) -> Iterator[tuple[str, str]]:
    """``Op,Op{json},Op`` as (name, canonical types)."""
    decoder = json.JSONDecoder()
    position = 0
    while position < len(text):
        end = min(
            (found for found in (text.find(",", position), text.find("{", position)) if found >= 0),
            default=len(text),
        )
        name = text[position:end].strip()
        types = ""
        if end < len(text) and text[end] == "{":
            value, end = decoder.raw_decode(text, end)
            if not _is_types(value):
                raise ValueError(text)
            types = _dump(value)
            while end < len(text) and text[end].isspace():
                end += 1
        if end < len(text) and text[end] != ",":
            raise ValueError(text)
        if name:
            yield name, types
        elif types:
            raise ValueError(text)
        position = end + 1


def _is_types(value: Any) -> bool:
    """Types by number under ``inputs`` and ``outputs``, a list under anything else."""
    return isinstance(value, dict) and all(
        all(
            isinstance(types, list) and all(isinstance(one, str) for one in types) for types in below.values()
        )
        if isinstance(below, dict) and where in ("inputs", "outputs")
        else isinstance(below, list) and where not in ("inputs", "outputs")
        for where, below in value.items()
    )


def _names(text: str) -> frozenset[str]:
    return frozenset(name.strip() for name in text.split(",") if name.strip())


def _key(kernel: Operator) -> Key:
    return kernel.domain, kernel.since, kernel.name


def _merged(kernels: Iterable[Operator]) -> frozenset[Operator]:
    """One record an operator and version, with the types of all its records."""
    types: dict[Key, str] = {}
    for kernel in sorted(kernels):
        key = _key(kernel)
        types[key] = _merge_types(types[key], kernel.types) if key in types else canonical_types(kernel.types)
    return frozenset(
        Operator(domain=domain, since=since, name=name, types=text)
        for (domain, since, name), text in types.items()
    )


def _merge_types(first: str, second: str) -> str:
    """Restrictions that allow what either allows. What only one of them restricts is not restricted."""
    if not first or not second:
        return ""
    a, b = json.loads(first), json.loads(second)
    merged: dict[str, Any] = {}
    for where in a.keys() & b.keys():
        if isinstance(a[where], dict):
            merged[where] = {
                index: a[where][index] + b[where][index] for index in a[where].keys() & b[where].keys()
            }
        else:
            merged[where] = a[where] + b[where]
    return _dump(merged)


def _dump(types: Any) -> str:
    slim: dict[str, Any] = {}
    for where, value in types.items():
        if isinstance(value, dict):
            value = {index: sorted(set(names)) for index, names in value.items() if names}
        elif value:
            value = sorted({json.dumps(item): item for item in value}.values())
        if value:
            slim[where] = value
    return json.dumps(slim, sort_keys=True, separators=(",", ":")) if slim else ""


def _covers(needed: str, provided: str) -> bool:
    """Whether everything that ``needed`` may ask for is within ``provided``."""
    if not provided or needed == provided:
        return True
    return bool(needed) and _merge_types(needed, provided) == provided and _restricts(needed, provided)


def _restricts(needed: str, provided: str) -> bool:
    """Whether ``needed`` says something about everything that ``provided`` restricts."""
    a, b = json.loads(needed), json.loads(provided)
    return all(
        where in a and (not isinstance(b[where], dict) or b[where].keys() <= a[where].keys()) for where in b
    )


def _only(types: str, allowed: frozenset[str], needed_globally: frozenset[str]) -> bool:
    """Whether nothing but globally allowed types is asked for."""
    if not types:
        return bool(needed_globally) and needed_globally <= allowed
    return _scalars(json.loads(types)) <= allowed


def _scalars(value: Any) -> set[str]:
    if isinstance(value, str):
        return {value}
    return set().union(
        *(_scalars(item) for item in (value.values() if isinstance(value, dict) else value)), set()
    )
