"""The known release's patches tried on another tree: which find their place, and what the others looked for."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from bin.draft_release.likeness import Lines, Near, Share, line_at, line_of, nearest
from bin.draft_release.tree import Tree

from edgepack.foundry.patch import Patch
from edgepack.foundry.release import Release

State = Literal["fits", "moved", "renamed", "changed", "gone", "generated"]
MOVED = 0.5
"""A file that holds at least this share of another's lines, and twice as many as the next, is where it went."""


@dataclass(frozen=True, kw_only=True)
class Missing:
    """A text that a patch looks for and does not find in its file."""

    pattern: str
    was: str
    """The line that it found in the known release."""
    line: int
    elsewhere: tuple[str, ...]
    """``FILE:LINE`` where it is now."""
    nearest: tuple[Near, ...]


@dataclass(frozen=True, kw_only=True)
class Place:
    """One patch in another tree.

    ``fits``: all that it looks for is there. ``moved``: it is all in another file, and nowhere else. ``renamed``: it is there once words are
    taken for others. ``changed``: some of it is gone. ``gone``: the file is. ``generated``: the file is made when it is built, and seen only then.
    """

    patch: str
    file: str
    gives: str
    """What runtimes lose without it, ``size`` or ``speed``; empty: none can be made."""
    group: str
    state: State
    now: str = ""
    """The file that it fits now; empty where it fits none."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Words of the known release → what they seem to be called now."""
    missing: tuple[Missing, ...] = ()
    holders: tuple[Share, ...] = ()
    """Of a file that is gone: those that hold its lines now."""

    @property
    def fits(self) -> bool:
        return self.state in ("fits", "moved", "renamed", "generated")


def try_patches(release: Release, known: Tree, new: Tree, lines: Lines) -> tuple[Place, ...]:
    """Every patch of a release, the overlay's first. ``lines``: the index of what is new or changed."""
    return tuple(_try(patch, known, new, lines) for patch in (*release.overlay, *release.patches))


def left_out(places: Iterable[Place]) -> frozenset[str]:
    """The patches that do not fit, and those that serve no one without them."""
    listed = list(places)
    groups = {place.group for place in listed if place.group and not place.fits}
    return frozenset(place.patch for place in listed if not place.fits or place.group in groups)


def _try(patch: Patch, known: Tree, new: Tree, lines: Lines) -> Place:
    def place(
        state: State,
        now: str = "",
        missing: Iterable[Missing] = (),
        holders: Iterable[Share] = (),
        renamed: Mapping[str, str] | None = None,
    ) -> Place:
        return Place(
            patch=patch.name,
            file=patch.file,
            gives=patch.gives,
            group=patch.group,
            state=state,
            now=now,
            renamed=renamed or {},
            missing=tuple(missing),
            holders=tuple(holders),
        )

    if patch.file not in known.files:
        return place("generated", patch.file)
    if patch.file in new.files and _finds_all(patch, new.text(patch.file)):
        return place("fits", patch.file)
    holders = [] if patch.file in new.files else lines.holders_of(known.text(patch.file))
    if now := _moved_to(patch, known, new, holders):
        return place("moved", now, holders=holders)
    found = list(_missing(patch, known, new, holders))
    if patch.file not in new.files:
        return place("gone", missing=found, holders=holders)
    words = _renamed(found, known.text(patch.file), new.text(patch.file))
    if words and _finds_all(replace(patch, renamed=words), new.text(patch.file)):
        return place("renamed", patch.file, missing=found, renamed=words)
    return place("changed", missing=found)


def _finds_all(patch: Patch, text: str) -> bool:
    spelled = patch.spelled(text)
    return all(pattern.search(spelled) for pattern in patch.must_find)


def _renamed(missing: Iterable[Missing], before: str, now: str) -> dict[str, str]:
    """Words of which the nearest line has another in the place of each, and neither text has both."""
    words: dict[str, str] = {}
    for each in missing:
        for near in each.nearest[:1]:
            old, new = re.findall(r"\w+", each.was), re.findall(r"\w+", near.text)
            pairs = {(a, b) for a, b in zip(old, new, strict=False) if a != b}
            if len(old) == len(new) and len(pairs) == 1:
                words |= {a: b for a, b in pairs if not _has_word(now, a) and not _has_word(before, b)}
    return words


def _has_word(text: str, word: str) -> bool:
    return re.search(rf"\b{re.escape(word)}\b", text) is not None


def _moved_to(patch: Patch, known: Tree, new: Tree, holders: list[Share]) -> str:
    """The one file that a patch fits now, or nothing: the heir of its file, or who alone has the words that it looks for."""
    if patch.file not in new.files:
        fullest, others = holders[:1], holders[1:2]
        heir = next((each for each in fullest if each.share >= MOVED), None)
        if heir and all(other.share * 2 <= heir.share for other in others):
            return heir.file if _finds_all(patch, new.text(heir.file)) else ""
    words = {_found_in_known(pattern, patch, known) for pattern in patch.must_find} - {""}
    if not words:
        return ""
    # What both trees have of these words elsewhere is not where the patch's file went.
    having = [
        name
        for name, text in new.texts()
        if all(word in text for word in words)
        and _finds_all(patch, text)
        and not (name in known.files and all(word in known.text(name) for word in words))
    ]
    return having[0] if len(having) == 1 else ""


def _found_in_known(pattern: re.Pattern[str], patch: Patch, known: Tree) -> str:
    text = known.text(patch.file)
    found = pattern.search(text)
    return line_at(text, found.start()) if found else ""


def _missing(patch: Patch, known: Tree, new: Tree, holders: list[Share]) -> Iterator[Missing]:
    before = known.text(patch.file)
    now = new.text(patch.file) if patch.file in new.files else ""
    near_files = [patch.file] if now else [each.file for each in holders]
    for pattern in patch.must_find:
        if now and pattern.search(now):
            continue
        found = pattern.search(before)
        was = line_at(before, found.start()) if found else ""
        yield Missing(
            pattern=pattern.pattern,
            was=was,
            line=line_of(before, found.start()) if found else 0,
            elsewhere=tuple(_elsewhere(pattern, was, known, new)),
            nearest=tuple(nearest(was, new, near_files)) if was else (),
        )


def _elsewhere(pattern: re.Pattern[str], was: str, known: Tree, new: Tree) -> Iterator[str]:
    """Where the very words are that were found, in files that did not have them before."""
    for name, text in new.texts():
        if was and was in text and not (name in known.files and was in known.text(name)):
            found = pattern.search(text)
            yield f"{name}:{line_of(text, found.start() if found else text.index(was))}"
