"""The new bundle out of the old one and a delta: checked before and after, in its place in one step, taken up again after a kill."""

import hashlib
import os
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from edgepack.api import Bundle, BundleError, UsageError
from edgepack.api.kit import (
    PublicKey,
    open_bundle,
    require_numbers,
    require_signed,
    require_version,
    sha256_of,
)
from edgepack.bundles.manifest import MANIFEST, SIGNATURE
from edgepack.bundles.place import held_place, left_beside
from edgepack.errors import OutputError, SignatureError
from edgepack.files.archives import MAX_UNPACKED
from edgepack.files.exchange import exchange
from edgepack.files.store import disk_errors
from edgepack_updates.reading import Delta, opened_delta
from edgepack_updates.steps import DeltaPlan, DeltaStep, damaged
from edgepack_updates.zstd import decompress

ALWAYS_ALLOWED, RATIO = 256 << 20, 100
"""What a delta may unpack to: so many bytes, or so many times as many as it and the old bundle have, as far as any archive may."""
WORK = ".update"
WORKS = r"-[0-9a-f]{16}\.update"
"""A pattern of what the folders of runs have behind the name of their bundle."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Conditions on the new bundle."""

    key: PublicKey | None = None
    """Signed with it."""
    name: str | None = None
    """Called that; ``None``: as the old one is."""
    least_version: str | None = None
    """Not older than that; ``None``: than the old one, where that says a version."""


@dataclass(frozen=True, kw_only=True)
class Applied:
    """Result of applying a delta."""

    bundle: Bundle
    already: bool = False
    """The bundle was the new one before."""


def apply_delta(
    delta: Path,
    old: Bundle,
    *,
    output: Path | None = None,
    wanted: Wanted = Wanted(),
    waiting: Callable[[str], None] = lambda said: None,
) -> Applied:
    """Make the new bundle, in the place of the old one's folder, or as a new folder ``output``.

    ``old``'s files have been checked. Raises ``BundleError`` for a delta that is damaged, is for another bundle or makes one of another
    name, ``SignatureError`` where the new bundle is older or is not signed as ``wanted`` says, ``OutputError`` and ``DiskFullError``;
    the old bundle is as it was then. What a killed run has made is used by the next one; one that still runs is waited for, and ``waiting`` told so.
    """
    # Where a link leads to the bundle, what it leads to is replaced.
    destination = output.absolute() if output else old.directory.resolve()
    said = f"another run is putting {destination} in its place: waiting until it is done"
    with (
        opened_delta(delta) as given,
        held_place(destination, waiting=partial(waiting, said)),
        disk_errors(destination),
    ):
        plan = given.plan
        found = sha256_of(old.directory / MANIFEST)
        if found == plan.new and output is None and _is_signed_as(plan, old):
            _require(old, old, wanted)
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
        _require_sizes(plan, delta, old)
        making = _Making(delta=given, old=old.directory, linked=output is None)
        return Applied(bundle=_make(making, old, destination, wanted))


def _is_signed_as(plan: DeltaPlan, bundle: Bundle) -> bool:
    """Whether a bundle has the signature that a delta makes, or none as that makes none: no manifest lists it."""
    file = bundle.directory / SIGNATURE
    said = next((step.sha256 for step in plan.steps if step.path == SIGNATURE), None)
    return said == (sha256_of(file) if file.is_file() else None)


@dataclass(frozen=True, kw_only=True)
class _Making:
    """Sources that files are made of."""

    delta: Delta
    old: Path
    linked: bool
    """Kept files are hard links: the old bundle goes as soon as the new one is there."""


def _make(making: _Making, old: Bundle, destination: Path, wanted: Wanted) -> Bundle:
    work = destination.with_name(f".{destination.name}-{making.delta.plan.new[:16]}{WORK}")
    _require_ours(work)
    try:
        _fill(making, work)
        made = _checked(work, making.delta.plan)
        _require(made, old, wanted)
        # A power cut after the exchange must find what is in the files.
        os.sync()
        if not making.linked:
            work.rename(destination)
        elif not exchange(work, destination):
            raise OutputError(
                f"the file system of {destination} cannot exchange two folders in one step",
                hint="--output makes the new bundle beside the old one; then let a symbolic link lead to it",
            )
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    _clear(destination)
    return Bundle(directory=destination, manifest=made.manifest)


def _require_ours(work: Path) -> None:
    """Make the folder, or take up what a run of this user's has left. Raises ``OutputError`` for what others may have laid there."""
    with suppress(FileExistsError):
        work.mkdir(0o700)
    found = work.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise OutputError(f"{work} is not a folder that this user alone may write", hint="remove it")


def _require(made: Bundle, old: Bundle, wanted: Wanted) -> None:
    """Raise ``SignatureError`` or ``BundleError`` for a bundle that is not what is wanted."""
    if wanted.key is not None:
        require_signed(made, wanted.key)
    if made.name != (name := wanted.name or old.name):
        raise BundleError(
            f"the delta makes {made.name}, not {name}", hint=f"if that is wanted: --name {made.name}"
        )
    least = wanted.least_version or version_of(old)
    if least is None:
        return
    try:
        require_version(made, least)
    except SignatureError as error:
        if wanted.least_version is None and (version := version_of(made)) is not None:
            raise SignatureError(error.message, hint=f"if that is wanted: --min-version {version}") from error
        raise


def version_of(bundle: Bundle) -> str | None:
    """The version that a bundle says, where it can be compared."""
    try:
        return require_numbers(str(bundle.manifest.get("version", "")))
    except UsageError:
        return None


def _require_sizes(plan: DeltaPlan, delta: Path, old: Bundle) -> None:
    """Raise ``BundleError`` for what would fill the disk."""
    given = delta.stat().st_size + sum(int(file["size"]) for file in old.manifest["files"])
    if sum(step.size for step in plan.steps) > min(MAX_UNPACKED, max(ALWAYS_ALLOWED, RATIO * given)):
        raise damaged("it unpacks to far more than its size lets expect")


def _clear(destination: Path) -> None:
    """Remove what runs for this place have left, the bundle that was replaced among it."""
    for left in left_beside(destination, WORKS):
        shutil.rmtree(left, ignore_errors=True)


def _fill(making: _Making, work: Path) -> None:
    """Make every file that is not there already; each is under another name until it is whole. Links are made last."""
    steps = making.delta.plan.steps
    wanted = {step.path for step in steps if step.how != "link"}
    for path in sorted(work.rglob("*"), reverse=True):
        if path.is_symlink() or (path.is_file() and path.relative_to(work).as_posix() not in wanted):
            path.unlink()
    for step in steps:
        place = work / step.path
        place.parent.mkdir(parents=True, exist_ok=True)
        if step.how == "link":
            place.symlink_to(step.old)
        elif not _is_made(place, step):
            place.unlink(missing_ok=True)
            _make_file(making, step, place)
    for folder in (work, *(path for path in work.rglob("*") if path.is_dir() and not path.is_symlink())):
        folder.chmod(0o755)
    inside = work.resolve()
    for step in steps:
        try:
            leads = (work / step.path).resolve()
        except (OSError, RuntimeError) as error:  # a loop is a RuntimeError before Python 3.13
            raise damaged(f"{step.path} leads nowhere") from error
        if not leads.is_relative_to(inside):
            raise damaged(f"{step.path} leads out of the bundle")


def _is_made(place: Path, step: DeltaStep) -> bool:
    if place.is_symlink() or not place.is_file() or place.stat().st_size != step.size:
        return False
    return oct(place.stat().st_mode & 0o777) == oct(int(step.mode, 8)) and sha256_of(place) == step.sha256


def _make_file(making: _Making, step: DeltaStep, place: Path) -> None:
    source, mode = making.old / step.old, int(step.mode, 8)
    if step.how != "whole" and not source.is_file():
        raise damaged(f"{step.path} is to be made of {step.old}, which the old bundle does not have")
    if step.how == "keep" and source.stat().st_size != step.size:
        raise damaged(f"{step.old} is not what is to become {step.path}")
    if step.how == "keep" and making.linked and source.stat().st_mode & 0o777 == mode:
        with suppress(OSError):
            place.hardlink_to(source)
            return
    temporary = place.with_name(f".{place.name}.part")
    with temporary.open("wb") as out:
        if step.how == "keep":
            with source.open("rb") as content:
                shutil.copyfileobj(content, out, 1 << 20)
        else:
            with making.delta.content(step.member) as frame:
                base = source if step.how == "patch" else None
                if not decompress(frame, out, old=base, most=step.size):
                    raise damaged(f"what is to become {step.path} cannot be unpacked")
    if (found := sha256_of(temporary)) != step.sha256:
        raise damaged(f"{step.path} becomes sha256 {found[:12]}…, not {step.sha256[:12]}…")
    temporary.chmod(mode)
    temporary.rename(place)


def _checked(work: Path, plan: DeltaPlan) -> Bundle:
    """The finished folder as a bundle, every file as its manifest lists it."""
    if hashlib.sha256((work / MANIFEST).read_bytes()).hexdigest() != plan.new:
        raise damaged("the bundle that it makes is not the one that it names")
    return open_bundle(work)
