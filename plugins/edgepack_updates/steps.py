"""The list in a delta: which file of the new bundle is made of what, one a line, for programs and for a shell.

Columns are separated by tabs; ``-`` stands for nothing. ``delta.tsv`` is the first member of the delta, a plain tar::

    edgepack-delta  1
    old    SHA-256 of the old manifest.json    NAME
    new    SHA-256 of the new manifest.json    NAME
    HOW    MODE    SHA-256    SIZE    PATH    OLD PATH    MEMBER
    end

``keep``: the old file as it is. ``patch``: the member is what ``zstd --patch-from=OLD`` wrote. ``whole``: it is the file,
compressed by zstd. ``link``: a symbolic link to what stands in the place of OLD PATH; links come last, so that nothing is written
through one.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath

from edgepack.api import BundleError
from edgepack.bundles.manifest import MANIFEST
from edgepack.files.archives import BadArchive, Budget

LIST = "delta.tsv"
HEAD = ("edgepack-delta", "1")
NOTHING = "-"
SHA256 = re.compile(r"[0-9a-f]{64}")
MEMBER = re.compile(r"\d{4,}\.zst")
MODES = ("0644", "0755")
MOST_FILES = 20_000
LONGEST = 1000
"""Bytes of a path; 255 of each name in it."""


@dataclass(frozen=True, kw_only=True)
class DeltaStep:
    """How one file of the new bundle comes to be."""

    how: str
    """keep, patch, whole or link."""
    mode: str
    sha256: str
    """Of the new file; of a link, of the path that it is."""
    size: int
    path: str
    old: str = NOTHING
    """Of the file that is kept or patched; of a link, where it leads."""
    member: str = NOTHING


@dataclass(frozen=True, kw_only=True)
class DeltaPlan:
    old: str
    """SHA-256 of the old bundle's manifest.json."""
    new: str
    old_name: str
    new_name: str
    steps: tuple[DeltaStep, ...]
    """The new manifest.json is among them, and a signature."""


def write_plan(plan: DeltaPlan) -> str:
    """The text of ``delta.tsv``. Raises ``BundleError`` for more files than are read."""
    try:
        _require_few(plan.steps)
    except BadArchive as error:
        raise BundleError(
            f"a delta cannot make {plan.new_name}: {error}", hint="send the bundle whole"
        ) from error
    rows = [HEAD, ("old", plan.old, plan.old_name), ("new", plan.new, plan.new_name)]
    steps = [
        (step.how, step.mode, step.sha256, str(step.size), step.path, step.old, step.member)
        for step in plan.steps
    ]
    return "".join("\t".join(row) + "\n" for row in (*rows, *steps, ("end",)))


def read_plan(text: str) -> DeltaPlan:
    """Raises ``BundleError`` for a list that is cut off, or that would write outside of the new bundle."""
    rows = [line.split("\t") for line in text.split("\n")]
    if tuple(rows[0]) != HEAD:
        raise BundleError(
            "it is not a delta that this edgepack reads", hint="make it again with edgepack delta"
        )
    if rows[-2:] != [["end"], [""]] or len(rows) < 5:
        raise damaged("its list of files is cut off")
    old, new, *steps = rows[1:-2]
    if not (len(old) == len(new) == 3 and old[0] == "old" and new[0] == "new"):
        raise damaged("it does not say between which bundles it leads")
    if not (SHA256.fullmatch(old[1]) and SHA256.fullmatch(new[1])):
        raise damaged("it does not say between which bundles it leads")
    made = tuple(map(_step, steps))
    try:
        _require_few(made)
    except BadArchive as error:
        raise damaged(str(error)) from error
    parts = sorted(step.path.split("/") for step in made)
    if any(later[: len(one)] == one for one, later in pairwise(parts)):
        raise damaged("it names a file twice, or a file in a file")
    if [MANIFEST] not in parts:
        raise damaged(f"it makes no {MANIFEST}")
    if any(one.how == "link" != other.how for one, other in pairwise(made)):
        raise damaged("links come last")
    return DeltaPlan(old=old[1], new=new[1], old_name=old[2], new_name=new[2], steps=made)


def _require_few(steps: Sequence[DeltaStep]) -> None:
    """Raise ``BadArchive`` for more files and folders than a disk is asked to hold."""
    budget = Budget(bytes_left=0, entries_left=MOST_FILES, entries=MOST_FILES)
    for step in steps:
        budget.take_entry(PurePosixPath(step.path))


def _step(row: Sequence[str]) -> DeltaStep:
    if len(row) != 7 or not re.fullmatch(r"[0-9]{1,15}", row[3]):
        raise damaged("a line of its list is incomplete")
    step = DeltaStep(
        how=row[0], mode=row[1], sha256=row[2], size=int(row[3]), path=row[4], old=row[5], member=row[6]
    )
    known = {
        "keep": step.mode in MODES and _is_inside(step.old),
        "patch": step.mode in MODES and _is_inside(step.old) and MEMBER.fullmatch(step.member),
        "whole": step.mode in MODES and MEMBER.fullmatch(step.member),
        "link": step.mode == "link" and _is_inside(str(PurePosixPath(step.path).parent / step.old)),
    }
    if not known.get(step.how) or not _is_plain(step.path) or not SHA256.fullmatch(step.sha256):
        raise damaged(f"its list has a line that is not valid, for {step.path!r}")
    return step


def _is_inside(path: str) -> bool:
    """Whether a path stays below the folder; ``..`` may take back what was named before it (a link's)."""
    if not path.isprintable() or len(path.encode()) > LONGEST:
        return False
    depth = 0
    for part in path.split("/"):
        depth += {"..": -1, ".": 0}.get(part, 1)
        if depth < 0 or not part or len(part.encode()) > 255:
            return False
    return path != NOTHING


def _is_plain(path: str) -> bool:
    """Whether a path is inside and says so in one way alone: by ``d/./x`` a link ``d/x`` would not be seen in the way of ``d/x/y``."""
    return _is_inside(path) and not {".", ".."} & {*path.split("/")}


def damaged(what: str) -> BundleError:
    return BundleError(f"the delta is damaged: {what}", hint="download it again")
