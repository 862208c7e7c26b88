"""Where a text of one tree is in another: the same words elsewhere, the nearest line, the files that hold most of its lines."""

import difflib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bin.draft_release.tree import Tree

LEAST_SHARE = 0.1
"""Of its lines; files with fewer of them are no candidates."""
_TELLING = 16
"""Letters; shorter lines are in every file."""
_SHOWN = 120


@dataclass(frozen=True, kw_only=True)
class Near:
    """A line that may be what was looked for."""

    file: str
    line: int
    text: str
    likeness: float
    """From 0 to 1."""


@dataclass(frozen=True, kw_only=True)
class Share:
    """A file that holds lines of another."""

    file: str
    share: float
    """Of the other's telling lines, from 0 to 1."""


def line_at(text: str, position: int) -> str:
    """The line that a position is in, or the next that says something, as it is shown."""
    start = text.rfind("\n", 0, position) + 1
    line = next((line.strip() for line in text[start:].splitlines() if line.strip()), "")
    return line[:_SHOWN]


def line_of(text: str, position: int) -> int:
    """The number of the line, from 1 on."""
    return text.count("\n", 0, position) + 1


def nearest(wanted: str, tree: Tree, files: Iterable[str], *, most: int = 3) -> list[Near]:
    """The lines of these files that are most like one line, the nearest first."""
    found: list[Near] = []
    for name in files:
        places: dict[str, int] = {}
        for number, line in enumerate(tree.text(name).splitlines(), 1):
            places.setdefault(line.strip()[:_SHOWN], number)
        for line in difflib.get_close_matches(wanted, places, n=most, cutoff=0.6):
            likeness = difflib.SequenceMatcher(None, line, wanted).ratio()
            found.append(Near(file=name, line=places[line], text=line, likeness=round(likeness, 2)))
    return sorted(found, key=lambda near: -near.likeness)[:most]


def telling_lines(text: str) -> frozenset[str]:
    """The lines that tell a file from others: no braces, no includes, no licences."""
    lines = (line.strip() for line in text.splitlines())
    return frozenset(
        line
        for line in lines
        if len(line) >= _TELLING and not re.match(r"#\s*include|//|\*|namespace\b", line)
    )


@dataclass(frozen=True, kw_only=True)
class Lines:
    """Which files hold which lines."""

    holders: Mapping[str, frozenset[str]]

    def holders_of(self, text: str, *, most: int = 3) -> list[Share]:
        """The files that hold most of a text's lines, the fullest first."""
        lines = telling_lines(text)
        counts = Counter(name for line in lines for name in self.holders.get(line, ()))
        shares = [Share(file=name, share=round(count / len(lines), 2)) for name, count in counts.items()]
        wanted = [share for share in shares if share.share >= LEAST_SHARE]
        return sorted(wanted, key=lambda share: (-share.share, share.file))[:most]


def lines_of(tree: Tree, names: Iterable[str]) -> Lines:
    """The index of these files."""
    holders: dict[str, set[str]] = defaultdict(set)
    for name in names:
        for line in telling_lines(tree.text(name)):
            holders[line].add(name)
    return Lines(holders={line: frozenset(names) for line, names in holders.items()})
