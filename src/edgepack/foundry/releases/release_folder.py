"""A release whose room is a folder of data: built like one that edgepack knows, with those of its patches that fit.

``bin/draft_release.py`` of the repository writes such folders. In ``room.toml`` each patch of the known release has a table: whether
it is used, the file that it is for, and what that calls the words that the patch knows; in ``data/`` is what a release's data folder has, for all that is not there
the known release's serves.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgepack.errors import UsageError
from edgepack.foundry.patch import Patch
from edgepack.foundry.release import Release
from edgepack.foundry.releases.registry import find_release
from edgepack.terminal_text import did_you_mean
from edgepack.toml_schema import Malformed, load_toml

ROOM = "room.toml"
SCHEMA = 1
_DRAFT = "docs/upgrading-onnxruntime.md says how one is made"


def read_room(folder: Path) -> Release:
    """The release of a room.

    Raises ``UsageError`` for a folder that is no room, or names what the known release has not.
    """
    file = folder / ROOM
    if not file.is_file():
        raise UsageError(f"{folder} is no room of a release: it has no {ROOM}", hint=_DRAFT)
    try:
        said = load_toml(file)
        version, like, patches = str(said["version"]), str(said["like"]), dict(said["patches"])
    except (Malformed, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{file} cannot be read: {error}", hint=_DRAFT) from error
    if said.get("schema") != SCHEMA:
        raise UsageError(
            f"{file} has schema {said.get('schema')}, expected {SCHEMA}",
            hint=_DRAFT,
        )
    known = find_release(like)
    names = [patch.name for patch in (*known.overlay, *known.patches)]
    for name in patches:
        if name not in names:
            raise UsageError(
                f"{file}: {like} has no patch {name!r}{did_you_mean(name, names)}",
                hint=f"it has {', '.join(names)}",
            )
    return replace(
        known,
        version=version,
        data=(folder / "data", *known.data),
        overlay=_used(known.overlay, patches, file),
        patches=_used(known.patches, patches, file),
        table=known.table.placed(lambda patch: _placed(patch, patches)),
        room=_digest(folder),
    )


def _used(known: tuple[Patch, ...], said: Mapping[str, Any], file: Path) -> tuple[Patch, ...]:
    used = []
    for patch in known:
        if said.get(patch.name, {}).get("use") is True:
            used.append(_placed(patch, said))
        elif not patch.gives:
            raise UsageError(
                f"{file} leaves out {patch.name!r}, which no runtime can be made without",
                hint="mend what it does not find, and set `use = true`",
            )
    return tuple(used)


def _placed(patch: Patch, said: Mapping[str, Any]) -> Patch:
    """The patch for the file, and the words, that the room names."""
    table = said.get(patch.name, {})
    file, units = str(table.get("file", patch.file)), patch.units
    if units.endswith(patch.file):
        units = units.removesuffix(patch.file) + file
    words = {str(word): str(now) for word, now in table.get("renamed", {}).items()}
    return replace(patch, file=file, units=units, renamed=words)


def _digest(folder: Path) -> str:
    """Digest of all that the folder says."""
    digest = hashlib.sha256()
    for path in sorted((folder / ROOM, *(folder / "data").rglob("*"))):
        if path.is_file():
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
