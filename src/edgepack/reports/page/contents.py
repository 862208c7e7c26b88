"""What a bundle's bytes are, down to the model's tensors and the runtime's objects: a tree whose parts sum to it."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgepack.bundles.manifest import ENCODED, LINK, MANIFEST
from edgepack.errors import EdgepackError
from edgepack.foundry.explain.sizes import EVERY, SEVERAL, Explanation, MemberRow, short_name
from edgepack.models.ort.tensors import ONNX, ORT, Tensor, is_ort, tensors_in, tensors_of
from edgepack.records.bundle import Bundle

SMALL = 0.0004
"""Of a file: parts below this share are shown together."""
MANY = 5
"""More operators than this are counted, not named."""
_PIECE = re.compile(r"-(\d+)\.[^/]*$")


@dataclass(frozen=True, kw_only=True)
class Node:
    """Some of a bundle's bytes."""

    name: str
    bytes: int
    """Those of its parts, where it has any."""
    what: str = ""
    parts: tuple["Node", ...] = ()


def contents_of(bundle: Bundle, explained: Callable[[Path], Explanation | None]) -> Node:
    """The bundle's files by part, without compressed copies; ``explained`` takes a library or program apart, if it can.

    Of a file that cannot be read its bytes are all that is said.
    """
    parts: dict[str, list[Node]] = defaultdict(list)
    for file in bundle.manifest["files"]:
        if file["mode"] != LINK and file["part"] != ENCODED:
            parts[file["part"]].append(_file(bundle.directory / file["path"], file["path"], explained))
    parts["manifest"].append(_leaf(MANIFEST, (bundle.directory / MANIFEST).stat().st_size))
    if pieces := _in_pieces(bundle.directory, parts["model"]):
        parts["model"] = [pieces]
    return _group(bundle.name, [_part(name, files) for name, files in parts.items()])


def tensor_parts(tensors: Sequence[Tensor], size: int) -> tuple[Node, ...]:
    """A model's file of ``size`` bytes by the words of its tensors' names, and what is no tensor."""
    leaves = [
        (_words(each.name), _leaf(each.name, each.bytes, f"{each.type} [{', '.join(map(str, each.shape))}]"))
        for each in tensors
        if each.bytes
    ]
    rest = size - sum(leaf.bytes for _, leaf in leaves)
    graph = [_leaf("graph, names and padding", rest)] if rest else []
    return _merged([*_by_words(leaves, ""), *graph], size * SMALL)


def object_parts(found: Explanation) -> tuple[Node, ...]:
    """A library or program: its objects by the operator that asks for them; by sections, where only these are known."""
    if not found.members:
        return _merged([_leaf(row.name, row.bytes) for row in found.sections], found.bytes * SMALL)
    least = found.bytes * SMALL
    by_operator: dict[str, list[MemberRow]] = defaultdict(list)
    for member in found.members:
        several = len(member.operators) > 1
        by_operator[SEVERAL if several else member.operators[0] if member.operators else EVERY].append(member)
    every = by_operator.pop(EVERY, [])
    areas = {member.area for member in every}
    shared = [_objects(area, [each for each in every if each.area == area], least) for area in areas]
    groups = [_objects(name, members, least) for name, members in by_operator.items()]
    groups += [replace(_group(EVERY, shared), what="what every model needs")] if shared else []
    rest = found.bytes - sum(group.bytes for group in groups)
    return _merged([*groups, *([_leaf("headers and alignment", rest)] if rest else [])], least)


def _file(path: Path, place: str, explained: Callable[[Path], Explanation | None]) -> Node:
    size = path.stat().st_size
    try:
        if path.suffix in (ORT, ONNX):
            return Node(name=place, bytes=size, parts=tensor_parts(tensors_of(path), size))
        found = explained(path)
    except EdgepackError as error:
        return _leaf(place, size, error.message)
    return Node(name=place, bytes=size, parts=object_parts(found) if found else ())


def _in_pieces(folder: Path, files: Sequence[Node]) -> Node | None:
    """A model in ORT format that lies in several files, numbered as ``model-1.DIGEST.bin``."""
    numbers = {int(found[1]): file.name for file in files if (found := _PIECE.search(file.name))}
    if len(numbers) < 2 or len(numbers) < len(files):
        return None
    content = b"".join((folder / name).read_bytes() for _, name in sorted(numbers.items()))
    try:
        parts = tensor_parts(list(tensors_in(content)), len(content)) if is_ort(content) else ()
    # What readers of damaged files raise has no class in common.
    except Exception:
        return None
    return (
        Node(name="model", bytes=len(content), what=f"in {len(files)} files", parts=parts) if parts else None
    )


def _part(name: str, files: Sequence[Node]) -> Node:
    """A single file is shown as the part itself."""
    if len(files) == 1:
        return replace(files[0], name=name, what=files[0].what or files[0].name)
    return _group(name, _merged(files, sum(file.bytes for file in files) * SMALL))


def _words(name: str) -> list[str]:
    """``encoder.layer.0.output`` → ``encoder``, ``layer.0``, ``output``: a number goes with the word before it."""
    return re.findall(r"[^./]+(?:[./]\d+(?=[./]))*", name) or [name]


def _by_words(leaves: Sequence[tuple[list[str], Node]], before: str) -> list[Node]:
    groups: dict[str, list[tuple[list[str], Node]]] = defaultdict(list)
    for words, leaf in leaves:
        groups[words[0]].append((words[1:], leaf))
    nodes = []
    for word, inside in groups.items():
        name = f"{before}{word}"
        deeper = [(words, leaf) for words, leaf in inside if words]
        ends = [replace(leaf, name=name) for words, leaf in inside if not words]
        if not ends and len({words[0] for words, _ in deeper}) == 1:
            nodes += _by_words(deeper, f"{name}.")
            continue
        nodes += [*ends, *([_group(name, _by_words(deeper, ""))] if deeper else [])]
    return nodes


def _objects(name: str, members: Iterable[MemberRow], least: float) -> Node:
    leaves = [_leaf(short_name(each.name), each.bytes, _for(each.operators)) for each in members]
    return _group(name, _merged(leaves, least))


def _for(operators: Sequence[str]) -> str:
    if len(operators) < 2:
        return ""
    return f"for {len(operators)} operators" if len(operators) > MANY else f"for {', '.join(operators)}"


def _merged(nodes: Iterable[Node], least: float) -> tuple[Node, ...]:
    """The largest first, those below ``least`` as one."""
    ordered = sorted((_trimmed(node, least) for node in nodes), key=lambda node: (-node.bytes, node.name))
    small = [node for node in ordered if node.bytes < least]
    if len(small) < 2:
        return tuple(ordered)
    together = _leaf(f"{len(small)} smaller ones", sum(node.bytes for node in small))
    return tuple(sorted([*ordered[: -len(small)], together], key=lambda node: -node.bytes))


def _trimmed(node: Node, least: float) -> Node:
    return replace(node, parts=_merged(node.parts, least)) if node.parts else node


def _leaf(name: str, size: int, what: str = "") -> Node:
    return Node(name=name, bytes=size, what=what)


def _group(name: str, parts: Iterable[Node]) -> Node:
    ordered = tuple(sorted(parts, key=lambda node: (-node.bytes, node.name)))
    return Node(name=name, bytes=sum(part.bytes for part in ordered), parts=ordered)
