"""A delta of two bundles: each file kept, patched or whole, whichever is the least to send."""

import shutil
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgepack.api import BuildContext, Bundle
from edgepack.api.axes import TarEntry
from edgepack.api.kit import written_beside
from edgepack.bundles.manifest import MANIFEST, SIGNATURE, file_entry
from edgepack.files.frames import LARGE, frame
from edgepack.files.pack import write_tar
from edgepack_updates.steps import LIST, DeltaPlan, DeltaStep, write_plan
from edgepack_updates.zstd import compress

LINK = "link"
WORTHWHILE = 4
"""A patch that takes a smaller share of the file than one in so many is not compared with the file compressed whole."""


@dataclass(frozen=True, kw_only=True)
class Made:
    """A delta that is not yet in one file."""

    plan: DeltaPlan
    members: Mapping[str, Path]
    parts: Mapping[str, int]
    """Part of the bundle → bytes that its new files take in the delta."""

    @property
    def size(self) -> int:
        """Bytes of the delta's file."""
        blocks = [
            len(write_plan(self.plan).encode()),
            *(path.stat().st_size for path in self.members.values()),
        ]
        content = sum(
            tarfile.BLOCKSIZE + -(-size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE for size in blocks
        )
        return -(-(content + 2 * tarfile.BLOCKSIZE) // tarfile.RECORDSIZE) * tarfile.RECORDSIZE


def make_delta(
    old: Bundle, new: Bundle, folder: Path, *, thorough: bool = True, context: BuildContext
) -> Made:
    """Work the delta out; its members are written into ``folder``. Both bundles' files have been checked.

    Without ``thorough`` it is quickly made, to be weighed, and somewhat larger.
    """
    folder.mkdir(parents=True)
    before = {entry["path"]: entry for entry in _entries(old) if entry["path"] != SIGNATURE}
    entries = sorted(_entries(new), key=lambda entry: entry["mode"] == LINK)
    steps: list[DeltaStep] = []
    members: dict[str, Path] = {}
    parts = dict.fromkeys((str(entry["part"]) for entry in entries), 0)
    with context.progress("delta", sum(int(entry["size"]) for entry in entries), unit="B") as bar:
        for entry in entries:
            place = folder / f"{len(members) + 1:04}.zst"
            step = _step(entry, before, old, new, place, thorough=thorough, context=context)
            steps.append(step)
            if step.how in ("patch", "whole"):
                members[step.member] = folder / step.member
                parts[entry["part"]] += members[step.member].stat().st_size
            bar.advance(int(entry["size"]))
    plan = DeltaPlan(
        old=before[MANIFEST]["sha256"],
        new=next(entry["sha256"] for entry in entries if entry["path"] == MANIFEST),
        old_name=old.name,
        new_name=new.name,
        steps=tuple(steps),
    )
    return Made(plan=plan, members=members, parts=parts)


def write_delta(made: Made, destination: Path) -> None:
    """One plain tar, its list first: the same bytes for the same bundles. It is there when it is whole."""
    entries = [TarEntry(name=LIST, source=write_plan(made.plan).encode())]
    entries += [TarEntry(name=name, source=path) for name, path in made.members.items()]
    with written_beside(destination) as temporary, temporary.open("wb") as out:
        write_tar(out, entries, format=tarfile.USTAR_FORMAT)


def _entries(bundle: Bundle) -> Iterator[Mapping[str, Any]]:
    """All files of a bundle, as a manifest lists them: its own, the manifest, and the signature."""
    yield from bundle.manifest["files"]
    for name in (MANIFEST, SIGNATURE):
        if (bundle.directory / name).is_file():
            yield file_entry(bundle.directory / name, root=bundle.directory, part="manifest")


def _step(
    entry: Mapping[str, Any],
    before: Mapping[str, Mapping[str, Any]],
    old: Bundle,
    new: Bundle,
    place: Path,
    *,
    thorough: bool,
    context: BuildContext,
) -> DeltaStep:
    said = {name: entry[name] for name in ("mode", "sha256", "size", "path")}
    if entry["mode"] == LINK:
        return DeltaStep(how="link", **said, old=(new.directory / entry["path"]).readlink().as_posix())
    if (kept := _same(entry, before)) is not None:
        return DeltaStep(how="keep", **said, old=kept)
    source, base = new.directory / str(entry["path"]), _base(entry, before, old, new)
    patched = base is not None and compress(source, place, old=old.directory / base, thorough=thorough)
    if not patched or place.stat().st_size * WORTHWHILE > source.stat().st_size:
        whole = place.with_suffix(".whole")
        if (
            source.stat().st_size >= LARGE
        ):  # as archives have it, which is there already of what was made here
            shutil.copyfile(frame(source, store=context.store), whole)
        else:
            compress(source, whole)
        if not patched or whole.stat().st_size <= place.stat().st_size:
            shutil.move(whole, place)
            return DeltaStep(how="whole", **said, member=place.name)
        whole.unlink()
    return DeltaStep(how="patch", **said, old=str(base), member=place.name)


def _same(entry: Mapping[str, Any], before: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The path of the old file that has the very content, rather at the same place."""
    path, sha256 = str(entry["path"]), entry["sha256"]
    if path in before and before[path]["sha256"] == sha256 and before[path]["mode"] != LINK:
        return path
    found = (name for name, each in before.items() if each["sha256"] == sha256 and each["mode"] != LINK)
    return next(found, None)


def _base(
    entry: Mapping[str, Any], before: Mapping[str, Mapping[str, Any]], old: Bundle, new: Bundle
) -> str | None:
    """The old file that a new one is likely to be made of: of the same path, else of the same role, else of the same part."""
    files = {path: each for path, each in before.items() if each["mode"] != LINK and each["size"]}
    path = str(entry["path"])
    if path in files:
        return path
    for section, key in (
        ("model", "file"),
        ("model", "tokenizer"),
        ("runtime", "library"),
        ("runner", "program"),
    ):
        if (new.manifest[section] or {}).get(key) == path:
            role = str((old.manifest[section] or {}).get(key))
            return role if role in files else None
    alike = [name for name, each in files.items() if each["part"] == entry["part"]]
    return min(alike, key=lambda name: (abs(files[name]["size"] - entry["size"]), name), default=None)
