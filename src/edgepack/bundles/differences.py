"""The first difference of two builds: which file, where in it, and, for an archive, which member."""

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path

from edgepack.bundles.manifest import MANIFEST, mode_of
from edgepack.bundles.sbom import SBOM
from edgepack.files.archives import BadArchive, opened
from edgepack.files.store import sha256_of

CHUNK = 1 << 20
_ARCHIVES = (".tar.zst", ".zip", ".whl", ".deb", ".tgz")
_DERIVED = (MANIFEST, SBOM)
"""Files that hold the digests of others: where these differ, too, that is the cause."""


def first_difference(one: Path, other: Path) -> str | None:
    """In words, of two files or folders; ``None``: they are the same, with their names, bytes and modes."""
    if not one.is_dir():
        return _of_files(one, other, one.name)
    listed, beside = _paths(one), _paths(other)
    causes_first = sorted(listed.keys() | beside.keys(), key=lambda name: (Path(name).name in _DERIVED, name))
    for name in causes_first:
        if name not in listed or name not in beside:
            return f"{name} is in the {'first' if name in listed else 'second'} build only"
        if mode_of(listed[name]) != mode_of(beside[name]):
            return f"{name} has another mode: {mode_of(listed[name])} and {mode_of(beside[name])}"
        if difference := _of_files(listed[name], beside[name], name):
            return difference
    return None


def _paths(folder: Path) -> Mapping[str, Path]:
    return {
        path.relative_to(folder).as_posix(): path
        for path in folder.rglob("*")
        if path.is_symlink() or not path.is_dir()
    }


def _of_files(one: Path, other: Path, name: str) -> str | None:
    if one.is_symlink():
        same = one.readlink() == other.readlink()
        return None if same else f"{name} leads to {one.readlink()} and to {other.readlink()}"
    if not other.is_file():
        return f"{name} is in the first build only"
    if one.stat().st_size == other.stat().st_size and sha256_of(one) == sha256_of(other):
        return None
    place = f"{name} at byte {_offset(one, other):,}"
    member = _member(one, other) if name.endswith(_ARCHIVES) else None
    return f"{place}, in its member {member}" if member else place


def _offset(one: Path, other: Path) -> int:
    """Offset of the first byte that differs; the shorter file's length where one begins with the other."""
    at = 0
    with one.open("rb") as first, other.open("rb") as second:
        while True:
            left, right = first.read(CHUNK), second.read(CHUNK)
            if left != right or not left:
                return at + next(
                    (index for index, (a, b) in enumerate(zip(left, right, strict=False)) if a != b),
                    min(len(left), len(right)),
                )
            at += len(left)


def _member(one: Path, other: Path) -> str | None:
    """The first member that two archives do not have in common; ``None``: they differ in how they are packed alone."""
    try:
        for left, right in zip_longest(_members(one), _members(other)):
            if left != right:
                return (left or right)[0]
    except BadArchive:
        pass
    return None


def _members(archive: Path) -> Iterator[tuple[str, object]]:
    with opened(archive) as members:
        for member in members:
            content = b"".join(member.chunks()) if member.kind == "file" else member.link
            yield member.path.as_posix(), (member.kind, member.executable, content)
