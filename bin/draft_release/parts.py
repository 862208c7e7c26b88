"""The libraries that another release is built from, by upstream's list of them (cmake/deps.txt)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bin.draft_release.tree import Tree

DEPS = "cmake/deps.txt"


@dataclass(frozen=True, kw_only=True)
class Part:
    """A library that upstream takes another version of than before."""

    name: str
    before: str
    """Address; empty: it is new."""
    now: str
    """Address; empty: it is gone."""


def compare_parts(known: Tree, new: Tree) -> tuple[Part, ...]:
    """What changed between the two lists."""
    return tuple(_compare(read_deps(known), read_deps(new)))


def read_deps(tree: Tree) -> Mapping[str, str]:
    """Name → address."""
    lines = (tree.folder / DEPS).read_text(encoding="utf-8", errors="replace").splitlines()
    rows = (line.split(";") for line in lines if line.strip() and not line.startswith("#"))
    return {row[0].strip(): row[1].strip() for row in rows if len(row) >= 2}


def _compare(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[Part]:
    for name in sorted(before.keys() | now.keys()):
        if before.get(name) != now.get(name):
            yield Part(name=name, before=before.get(name, ""), now=now.get(name, ""))
