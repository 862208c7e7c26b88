"""The new bundle out of the old one and a delta: checked before and after, in its place in one step, taken up again after a kill."""

import hashlib
import os
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from edgepack.api import Bundle, BundleError
from edgepack.api.kit import (
    MANIFEST,
    OutputError,
    PublicKey,
    disk_errors,
    held_place,
    open_bundle,
    require_signed,
    sha256_of,
)
from edgepack_updates.exchange import exchange
from edgepack_updates.steps import LIST, Plan, Step, damaged, read_plan
from edgepack_updates.zstd import decompress

MOST = 16 << 20
"""Bytes that a delta's list may have."""
WORK = ".update"


@dataclass(frozen=True, kw_only=True)
class Applied:
    """What came of it."""

    bundle: Bundle
    already: bool = False
    """The bundle was the new one before."""


def apply_delta(
    delta: Path, old: Bundle, *, output: Path | None = None, key: PublicKey | None = None
) -> Applied:
    """Make the new bundle, in the place of the old one's folder, or as a new folder ``output``.

    ``old``'s files have been checked. Raises ``BundleError`` for a delta that is damaged or is for another bundle,
    ``SignatureError`` where the new bundle is not signed with ``key``, ``OutputError`` and ``DiskFullError``; the old bundle is as it
    was then. What a killed run has made is used by the next one.
    """
    # Where a link leads to the bundle, what it leads to is replaced.
    destination = output.absolute() if output else old.directory.resolve()
    with _opened(delta) as tar, held_place(destination, waiting=lambda: None), disk_errors(destination):
        plan = _plan(tar)
        found = sha256_of(old.directory / MANIFEST)
        if found == plan.new and output is None:
            _clear(destination)
            return Applied(bundle=old, already=True)
        if found != plan.old:
            raise BundleError(
                f"the delta is for another bundle than {old.name}: it applies to the {plan.old_name} whose manifest.json "
                f"has sha256 {plan.old[:12]}…, this one has {found[:12]}…",
                hint="apply the deltas in between first, or fetch the new bundle whole",
            )
        if output is not None and os.path.lexists(destination):
            raise OutputError(f"{destination} already exists", hint="choose another folder")
        return Applied(bundle=_make(tar, plan, old, destination, output is None, key))


def _make(
    tar: tarfile.TarFile, plan: Plan, old: Bundle, destination: Path, replace: bool, key: PublicKey | None
) -> Bundle:
    work = destination.with_name(f".{destination.name}-{plan.new[:16]}{WORK}")
    try:
        _fill(tar, plan, old.directory, work, linked=replace)
        made = _checked(work, plan, key)
        # A power cut after the exchange must find what is in the files.
        os.sync()
        if replace:
            exchange(work, destination)
        else:
            work.rename(destination)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    _clear(destination)
    return Bundle(directory=destination, manifest=made.manifest)


def _clear(destination: Path) -> None:
    """Remove what runs for this place have left, the bundle that was replaced among it."""
    for left in destination.parent.glob(f".{destination.name}-*{WORK}"):
        shutil.rmtree(left, ignore_errors=True)


def _fill(tar: tarfile.TarFile, plan: Plan, old: Path, work: Path, *, linked: bool) -> None:
    """Make every file that is not there already; each is under another name until it is whole. Links are made last."""
    work.mkdir(exist_ok=True)
    wanted = {step.path for step in plan.steps if step.how != "link"}
    for path in sorted(work.rglob("*"), reverse=True):
        if path.is_symlink() or (path.is_file() and path.relative_to(work).as_posix() not in wanted):
            path.unlink()
    for step in plan.steps:
        place = work / step.path
        place.parent.mkdir(parents=True, exist_ok=True)
        if step.how == "link":
            place.symlink_to(step.old)
        elif not _is_made(place, step):
            place.unlink(missing_ok=True)
            _make_file(tar, step, old, place, linked=linked)
    for folder in (work, *(path for path in work.rglob("*") if path.is_dir() and not path.is_symlink())):
        folder.chmod(0o755)
    inside = work.resolve()
    if out := [step.path for step in plan.steps if not (work / step.path).resolve().is_relative_to(inside)]:
        raise damaged(f"{out[0]} leads out of the bundle")


def _is_made(place: Path, step: Step) -> bool:
    if place.is_symlink() or not place.is_file() or place.stat().st_size != step.size:
        return False
    return oct(place.stat().st_mode & 0o777) == oct(int(step.mode, 8)) and sha256_of(place) == step.sha256


def _make_file(tar: tarfile.TarFile, step: Step, old: Path, place: Path, *, linked: bool) -> None:
    source, mode = old / step.old, int(step.mode, 8)
    if step.how == "keep" and linked and source.stat().st_mode & 0o777 == mode:
        # The old bundle goes as soon as the new one is there.
        with suppress(OSError):
            place.hardlink_to(source)
            return
    temporary = place.with_name(f".{place.name}.part")
    with temporary.open("wb") as out:
        if step.how == "keep":
            with source.open("rb") as content:
                shutil.copyfileobj(content, out, 1 << 20)
        else:
            with _content(tar, step.member) as frame:
                base = source if step.how == "patch" else None
                if not decompress(frame, out, old=base, most=step.size):
                    raise damaged(f"what is to become {step.path} cannot be unpacked")
    if (found := sha256_of(temporary)) != step.sha256:
        raise damaged(f"{step.path} becomes sha256 {found[:12]}…, not {step.sha256[:12]}…")
    temporary.chmod(mode)
    temporary.rename(place)


def _checked(work: Path, plan: Plan, key: PublicKey | None) -> Bundle:
    """The finished folder as a bundle, every file as its manifest lists it; signed, where that is asked for."""
    if hashlib.sha256((work / MANIFEST).read_bytes()).hexdigest() != plan.new:
        raise damaged("the bundle that it makes is not the one that it names")
    made = open_bundle(work)
    if key is not None:
        require_signed(made, key)
    return made


@contextmanager
def _opened(delta: Path) -> Iterator[tarfile.TarFile]:
    hint = "name a file that edgepack delta made"
    with ExitStack() as stack:
        try:
            tar = stack.enter_context(tarfile.open(delta, "r:"))
        except FileNotFoundError as error:
            raise BundleError(f"there is no {delta}", hint=hint) from error
        except (tarfile.TarError, OSError) as error:
            raise BundleError(f"{delta} is not a delta, or is damaged: {error}", hint=hint) from error
        yield tar


def _plan(tar: tarfile.TarFile) -> Plan:
    with _content(tar, LIST) as content:
        text = content.read(MOST)
    try:
        return read_plan(text.decode())
    except UnicodeDecodeError as error:
        raise damaged("its list of files is not text") from error


@contextmanager
def _content(tar: tarfile.TarFile, name: str) -> Iterator[IO[bytes]]:
    """A member, by its name. Raises ``BundleError`` where it is missing or cut off."""
    try:
        content = tar.extractfile(tar.getmember(name))
        assert content is not None
    except (KeyError, AssertionError, tarfile.TarError) as error:
        raise damaged(f"{name} is missing in it") from error
    with content:
        try:
            yield content
        except tarfile.TarError as error:
            raise damaged(f"{name} is cut off") from error
