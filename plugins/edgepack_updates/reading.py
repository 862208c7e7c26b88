"""A delta's file, opened: its list, and its members by their names."""

import tarfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from edgepack.api import BundleError
from edgepack.files.archives import BadArchive, CheckedInfo
from edgepack.files.store import inflated
from edgepack_updates.steps import LIST, MOST_FILES, DeltaPlan, damaged, read_plan

MOST = 16 << 20
"""Bytes that a delta's list may have."""
_HINT = "name a file that edgepack delta made"


@dataclass(frozen=True, kw_only=True)
class Delta:
    """Delta: its plan, and its members."""

    tar: tarfile.TarFile
    members: Mapping[str, tarfile.TarInfo]
    plan: DeltaPlan

    @contextmanager
    def content(self, name: str) -> Iterator[IO[bytes]]:
        """A member. Raises ``BundleError`` where it is missing or cut off."""
        with _content(self.tar, self.members, name) as content:
            yield content


@contextmanager
def opened_delta(delta: Path) -> Iterator[Delta]:
    """Raises ``BundleError`` for what is no delta, or is damaged."""
    with ExitStack() as stack:
        try:
            if odd := inflated([delta]):
                raise damaged(odd[1])
            tar = stack.enter_context(tarfile.open(delta, "r:", tarinfo=CheckedInfo))
        except FileNotFoundError as error:
            raise BundleError(f"there is no {delta}", hint=_HINT) from error
        except (BadArchive, tarfile.TarError, OSError, ValueError) as error:
            raise BundleError(f"{delta} is not a delta, or is damaged: {error}", hint=_HINT) from error
        members = _members(tar)
        yield Delta(tar=tar, members=members, plan=_plan(tar, members))


def _members(tar: tarfile.TarFile) -> Mapping[str, tarfile.TarInfo]:
    """Its files by their names, read once: looking each up in a tar takes time by the square of their number."""
    found: dict[str, tarfile.TarInfo] = {}
    try:
        for member in tar:
            if not member.isreg() or member.name in found:
                raise damaged("it holds a file twice, or what is no file")
            if len(found) > MOST_FILES:
                raise damaged(f"it holds more than {MOST_FILES:,} files")
            found[member.name] = member
    except (BadArchive, tarfile.TarError, OSError, ValueError) as error:
        raise damaged("it is cut off, or is no tar") from error
    return found


def _plan(tar: tarfile.TarFile, members: Mapping[str, tarfile.TarInfo]) -> DeltaPlan:
    with _content(tar, members, LIST) as content:
        text = content.read(MOST)
    try:
        return read_plan(text.decode())
    except UnicodeDecodeError as error:
        raise damaged("its list of files is not text") from error


@contextmanager
def _content(tar: tarfile.TarFile, members: Mapping[str, tarfile.TarInfo], name: str) -> Iterator[IO[bytes]]:
    content = tar.extractfile(members[name]) if name in members else None
    if content is None:
        raise damaged(f"{name} is missing in it")
    with content:
        try:
            yield content
        except tarfile.TarError as error:
            raise damaged(f"{name} is cut off") from error
