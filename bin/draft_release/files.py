"""The files of the known release's plan in another tree: gone, split, new; and what else the room names."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

from bin.draft_release.likeness import Lines, Share
from bin.draft_release.tree import Tree

OWN = "onnxruntime/onnxruntime/"
"""What comes before the names of ONNX Runtime's own files in a plan, after the target."""
_COMPILED = (".c", ".cc", ".cpp", ".S", ".s")


@dataclass(frozen=True, kw_only=True)
class Gone:
    """A file of the plan that is not there any more."""

    file: str
    holders: tuple[Share, ...]
    """The files that hold its lines now; one with all: it was moved; several: it was split."""


@dataclass(frozen=True, kw_only=True)
class Files:
    """What became of the sources that the known release is compiled from."""

    plan: int
    same: int
    """Files of the plan that are the same to the letter."""
    gone: tuple[Gone, ...] = ()
    new: tuple[str, ...] = ()
    """Sources in folders of the plan that the known release has not."""
    rules: tuple[str, ...] = ()
    """Patterns of build.toml that match nothing any more."""


def plan_files(units: Collection[str]) -> frozenset[str]:
    """Of a plan's units ONNX Runtime's own sources, as they are included."""
    return frozenset(name.partition(f"/{OWN}")[2] for name in units if f"/{OWN}" in name)


def changed_files(known: Tree, new: Tree) -> list[str]:
    """The new tree's files that the known one has not, or has otherwise."""
    return [name for name, text in new.texts() if name not in known.files or known.text(name) != text]


def compare_files(
    units: Collection[str], known: Tree, new: Tree, *, settings: Mapping[str, Any], lines: Lines
) -> Files:
    """``units``: of the known release's plan; ``settings``: how it is compiled."""
    plan = plan_files(units) & known.files.keys()
    gone = sorted(plan - new.files.keys())
    folders = {str(PurePosixPath(name).parent) for name in plan}
    added = [
        name
        for name in new.files
        if name not in known.files and name.endswith(_COMPILED) and str(PurePosixPath(name).parent) in folders
    ]
    return Files(
        plan=len(plan),
        same=sum(known.text(name) == new.text(name) for name in plan - set(gone)),
        gone=tuple(Gone(file=name, holders=tuple(lines.holders_of(known.text(name)))) for name in gone),
        new=tuple(added),
        rules=tuple(_dead_rules(units, set(gone), settings)),
    )


def _dead_rules(units: Collection[str], gone: Collection[str], settings: Mapping[str, Any]) -> Iterator[str]:
    """Patterns that matched units of the plan, all of which are gone."""
    patterns = [rule["match"] for rule in settings["units"]["flags"]] + list(settings["units"]["exporting"])
    for pattern in dict.fromkeys(patterns):
        matched = [name for name in units if fnmatchcase(name, pattern)]
        if matched and all(name.partition(f"/{OWN}")[2] in gone for name in matched):
            yield pattern
