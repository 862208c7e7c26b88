"""The kernels that another release registers, against those of the known one."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from bin.draft_release.places import Place
from bin.draft_release.tree import Tree

from edgepack.foundry.release import KernelRow, Release


@dataclass(frozen=True, kw_only=True)
class Kernels:
    """What is new, gone and otherwise registered, by operator: ``DOMAIN:NAME VERSIONS [TYPES]``."""

    known: int
    """Kernels of the known release."""
    now: int
    unread: int
    """Rows of a form that is not known."""
    not_read: tuple[str, ...] = ()
    """Registration sources that were not found: their kernels count as neither new nor gone."""
    new: tuple[str, ...] = ()
    """Operators that had no kernel."""
    gone: tuple[str, ...] = ()
    """Operators that have none any more."""
    changed: tuple[str, ...] = ()
    """``OPERATOR: + ROW, - ROW``."""


def compare_kernels(release: Release, known: Tree, new: Tree, places: Iterable[Place]) -> Kernels:
    """Read the registration sources of both trees, those of the new one where they are now."""
    roots = {patch.name for patch in release.patches if patch.root}
    before: set[KernelRow] = set()
    after: set[KernelRow] = set()
    unread, not_read = 0, []
    for place in places:
        if place.patch in roots:
            if not place.now:
                not_read.append(place.file)
                continue
            before |= release.rows(known.text(place.file))[0]
            found, lost = release.rows(new.text(place.now))
            after |= found
            unread += lost
    had, has = _by_operator(before), _by_operator(after)
    return Kernels(
        known=len(before),
        now=len(after),
        unread=unread,
        not_read=tuple(not_read),
        new=tuple(_lines(has, has.keys() - had.keys())),
        gone=tuple(_lines(had, had.keys() - has.keys())),
        changed=tuple(
            f"{operator}: {', '.join(_difference(had[operator], has[operator]))}"
            for operator in sorted(had.keys() & has.keys())
            if had[operator] != has[operator]
        ),
    )


def _by_operator(rows: Iterable[KernelRow]) -> dict[str, set[KernelRow]]:
    found: dict[str, set[KernelRow]] = defaultdict(set)
    for row in rows:
        found[f"{row.domain}:{row.name}"].add(row)
    return found


def _lines(rows: dict[str, set[KernelRow]], operators: Iterable[str]) -> list[str]:
    return [f"{operator} {', '.join(_versions(rows[operator]))}" for operator in sorted(operators)]


def _difference(before: set[KernelRow], after: set[KernelRow]) -> list[str]:
    return [
        *(f"+ {row}" for row in _versions(after - before)),
        *(f"- {row}" for row in _versions(before - after)),
    ]


def _versions(rows: Iterable[KernelRow]) -> list[str]:
    """``7-12 float/double``: rows that differ in their types alone are one."""
    types: dict[tuple[int, int | None], set[str]] = defaultdict(set)
    for row in rows:
        types[row.start, row.end].add(" ".join(row.types))
    ordered = sorted(types.items(), key=lambda item: (item[0][0], item[0][1] or 0))
    return [
        " ".join(filter(None, (f"{start}-{end}" if end else f"{start}", "/".join(sorted(names)))))
        for (start, end), names in ordered
    ]
