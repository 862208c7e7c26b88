"""Draft what edgepack needs to build another release of ONNX Runtime. For edgepack's maintainers, from the root of its repository.

    python -m bin.draft_release --sources ./onnxruntime-1.22.0 -o ./room

Tries the patches of the newest release that edgepack knows on the sources of another one, and writes a room: a folder that
`edgepack runtime lib --release` builds with, with those patches alone that no runtime can be made without. What does not find its place is
said with the line that it found before, and the nearest one now; docs/upgrading-onnxruntime.md has the whole way.
"""

import argparse
import difflib
import json
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from edgepack.api.kit import host_context
from edgepack.bundles.place import placed_folder
from edgepack.context import BuildContext
from edgepack.errors import EdgepackError, UsageError
from edgepack.fetch.unpack import unpack_download
from edgepack.files.archives import SUFFIXES
from edgepack.files.pack import TarEntry, write_tarball
from edgepack.files.store import sha256_of, written_beside
from edgepack.foundry.patch import Patch
from edgepack.foundry.release import Release
from edgepack.foundry.releases.registry import RELEASE
from edgepack.foundry.releases.release_folder import ROOM, SCHEMA
from edgepack.foundry.sources.pinned import Archive, store_path
from edgepack.foundry.sources.tree import HEADER, source_tree

VERSION_FILE, DEPS = "VERSION_NUMBER", "cmake/deps.txt"
MARKS = (
    VERSION_FILE,
    "cmake/CMakeLists.txt",
    DEPS,
    HEADER,
    "onnxruntime/core/mlas/lib",
    "onnxruntime/contrib_ops/cpu",
)
"""What every source tree has."""
INCLUDED = ("onnxruntime", "include/onnxruntime")
"""The folders that files are named below, as ONNX Runtime's own sources include them."""
SOURCES = (".c", ".cc", ".cpp", ".h", ".hpp", ".inc", ".S", ".s")
PART = re.compile(r"^\[parts\.onnxruntime\]$.*?(?=^\[parts\.(?!onnxruntime))", re.M | re.S)


@dataclass(frozen=True, kw_only=True)
class Tree:
    """The files of ONNX Runtime itself."""

    folder: Path
    skip: Sequence[str] = ()
    """Folders that are not looked into."""

    @cached_property
    def version(self) -> str:
        return (self.folder / VERSION_FILE).read_text(encoding="utf-8", errors="replace").strip()

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """Source files by their names as others include them."""
        found: dict[str, str] = {}
        for root in (self.folder / below for below in INCLUDED):
            for path in sorted(root.rglob("*")):
                if path.suffix in SOURCES and path.is_file() and not self.is_skipped(path):
                    text = path.read_text(encoding="utf-8", errors="replace")
                    found.setdefault(path.relative_to(root).as_posix(), text)
        return found

    def is_skipped(self, path: Path) -> bool:
        return any(path.is_relative_to(self.folder / name) for name in (*self.skip, ".git"))


@dataclass(frozen=True, kw_only=True)
class Place:
    """One patch in another tree.

    ``fits``: all that it looks for is there. ``moved``: it is all in another file, and nowhere else. ``renamed``: it is there once words are
    taken for others. ``changed``: some of it is gone. ``gone``: the file is. ``generated``: the file is made when it is built, and seen only then.
    """

    patch: Patch
    state: Literal["fits", "moved", "renamed", "changed", "gone", "generated"]
    file: str
    """The file that it is for now, or was for."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Words of the known release → what they seem to be called now."""
    lost: tuple[tuple[str, str], ...] = ()
    """Lines that it found in the known release, and the nearest of its file now, if any is near."""

    @property
    def fits(self) -> bool:
        return self.state not in ("changed", "gone")


def bring(sources: Path, *, skip: Sequence[str] = (), work_dir: Path) -> Tree:
    """The tree in a folder or an archive, which is unpacked into ``work_dir``. Raises ``UsageError`` for what is no whole tree of one release."""
    folder = sources
    if sources.is_file() and sources.name.endswith(SUFFIXES):
        folder = work_dir / "brought"
        unpack_download(sources, folder)
        inner = list(folder.iterdir())
        folder = inner[0] if len(inner) == 1 else folder
    if lacking := [mark for mark in MARKS if not (folder / mark).exists()]:
        raise UsageError(
            f"{sources} is no whole source tree of ONNX Runtime: it lacks {', '.join(lacking)}",
            hint="name the folder, or the .tar.gz or .zip, that holds all of one release's sources",
        )
    tree = Tree(folder=folder, skip=skip)
    said = re.search(r"^#define ORT_API_VERSION (\d+)", (folder / HEADER).read_text(encoding="utf-8"), re.M)
    if not re.fullmatch(rf"\d+\.{said[1] if said else 'no API'}(\.\d+)*", tree.version):
        raise UsageError(
            f"{sources}: {VERSION_FILE} says {tree.version[:40]!r}, which {HEADER} does not",
            hint="unpack one release's archive into an empty folder",
        )
    return tree


def try_patch(patch: Patch, known: Tree, new: Tree) -> Place:
    """Find the place of a patch of the known release in another tree."""
    before, now = known.texts.get(patch.file), new.texts.get(patch.file)
    if before is None:
        return Place(patch=patch, state="generated", file=patch.file)
    if now is not None and finds_all(patch, now):
        return Place(patch=patch, state="fits", file=patch.file)
    others = [
        name
        for name, text in new.texts.items()
        if finds_all(patch, text) and not finds_all(patch, known.texts.get(name, ""))
    ]
    if len(others) == 1:
        return Place(patch=patch, state="moved", file=others[0])
    lost = tuple(_lost(patch, before, now or ""))
    words = _renamed(lost)
    if now is not None and words and finds_all(replace(patch, renamed=words), now):
        return Place(patch=patch, state="renamed", file=patch.file, renamed=words)
    return Place(patch=patch, state="gone" if now is None else "changed", file=patch.file, lost=lost)


def finds_all(patch: Patch, text: str) -> bool:
    return all(pattern.search(patch.spelled(text)) for pattern in patch.must_find)


def _lost(patch: Patch, before: str, now: str) -> Iterator[tuple[str, str]]:
    for pattern in patch.must_find:
        if (found := pattern.search(before)) and not pattern.search(now):
            was = next(
                line
                for line in before[before.rfind("\n", 0, found.start()) + 1 :].splitlines()
                if line.strip()
            )
            near = difflib.get_close_matches(was.strip(), [line.strip() for line in now.splitlines()], n=1)
            yield was.strip(), near[0] if near else ""


def _renamed(lost: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Words of which the nearest line has another in the place of each."""
    words: dict[str, str] = {}
    for was, near in lost:
        old, new = re.findall(r"\w+", was), re.findall(r"\w+", near)
        pairs = {(a, b) for a, b in zip(old, new, strict=False) if a != b}
        words |= dict(pairs) if len(old) == len(new) and len(pairs) == 1 else {}
    return words


def write_room(
    places: Sequence[Place], new: Tree, release: Release, folder: Path, *, context: BuildContext
) -> None:
    """``room.toml`` and ``data/`` of a release that is built like a known one; its sources go into the store, where builds look for them."""
    (folder / "data").mkdir()
    lines = [
        f"# ONNX Runtime {new.version}, built like {release.version}: docs/upgrading-onnxruntime.md says what comes next.",
        "",
        *_entries(schema=SCHEMA, version=new.version, like=release.version),
    ]
    for place in places:
        gives = f"gives {place.patch.gives}" if place.patch.gives else "no runtime can be made without it"
        lines += ["", f"# {gives}, {place.state}", f"[patches.{json.dumps(place.patch.name)}]"]
        lines += _entries(use=not place.patch.gives and place.fits, file=place.file)
        words = ", ".join(f"{json.dumps(word)} = {json.dumps(now)}" for word, now in place.renamed.items())
        lines += [f"renamed = {{ {words} }}"] if words else []
    (folder / ROOM).write_text("\n".join(lines) + "\n", encoding="utf-8")
    part = release.catalogue.parts["onnxruntime"]
    pinned = pack_tree(new, context)
    about = [
        "[parts.onnxruntime]",
        *_entries(version=new.version, license=part.license, upstream=part.upstream),
        *_entries(license_files=list(part.license_files), skip=list(part.skip)),
        "[[parts.onnxruntime.archives]]",
        *_entries(file=pinned.file, sha256=pinned.sha256, size=pinned.size, top=pinned.top),
    ]
    for name in ("sources.toml", "build.toml"):
        said = next(data / name for data in release.data if (data / name).is_file()).read_text(
            encoding="utf-8"
        )
        text = PART.sub(lambda _: "\n".join(about) + "\n\n", said).replace(release.version, new.version)
        (folder / "data" / name).write_text(text, encoding="utf-8")


def _entries(**values: object) -> list[str]:
    return [f"{key} = {json.dumps(value)}" for key, value in values.items()]


def pack_tree(tree: Tree, context: BuildContext) -> Archive:
    """The tree as one archive in the store, with the same bytes wherever it lies, and how it is pinned."""
    top = f"onnxruntime-{tree.version}"
    file = context.work_dir / f"{top}.tar.zst"
    files = [
        path for path in sorted(tree.folder.rglob("*")) if not path.is_dir() and not tree.is_skipped(path)
    ]
    with file.open("wb") as stream:
        entries = (
            TarEntry(
                name=f"{top}/{path.relative_to(tree.folder).as_posix()}",
                source=path,
                executable=bool(path.lstat().st_mode & 0o100),
            )
            for path in files
        )
        write_tarball(stream, entries, level=9, window_log=23)
    archive = Archive(file=file.name, sha256=sha256_of(file), size=file.stat().st_size, top=top)
    with written_beside(store_path(archive, context)) as beside:
        shutil.copyfile(file, beside)
    return archive


def draft(
    sources: Path, output: Path, *, release: Release = RELEASE, context: BuildContext
) -> tuple[list[Place], list[str]]:
    """Write the room of the sources' release into a new folder. What became of each patch, and the libraries that upstream takes otherwise now.

    Raises ``UsageError`` for sources that are not another release's, ``OutputError`` when ``output`` exists.
    """
    skip = release.catalogue.parts["onnxruntime"].skip
    with placed_folder(output, force=False) as folder:
        new = bring(sources, skip=skip, work_dir=context.work_dir)
        if new.version == release.version:
            raise UsageError(
                f"ONNX Runtime {new.version} is known to edgepack", hint="`edgepack runtime lib` builds it"
            )
        known = Tree(folder=source_tree(release.catalogue, context=context).onnxruntime, skip=skip)
        places = [try_patch(patch, known, new) for patch in (*release.overlay, *release.patches)]
        write_room(places, new, release, folder, context=context)
    before, now = ((tree.folder / DEPS).read_text(encoding="utf-8").splitlines() for tree in (known, new))
    return places, sorted(line for line in {*now} - {*before} if not line.startswith("#"))


def main(arguments: Sequence[str] | None = None) -> None:
    """Draft a room, and print what was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--sources", required=True, type=Path, help="source tree or archive of another release"
    )
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("dist/room"), help="new folder for the room"
    )
    parser.add_argument("--offline", action="store_true")
    asked = parser.parse_args(arguments)
    with host_context(offline=asked.offline) as context:
        places, libraries = draft(asked.sources, asked.output, context=context)
    sys.stdout.writelines(f"{line}\n" for line in _shown(places, libraries))


def _shown(places: Sequence[Place], libraries: Sequence[str]) -> Iterator[str]:
    for place in places:
        group = f", with {place.patch.group}" if place.patch.group else ""
        yield f"{place.state:10} {place.patch.gives or 'needed':7} {place.patch.name}{group}: {place.file}"
        for was, near in place.lost:
            yield f"    has no `{was}`" + (f"; near it: `{near}`" if near else "")
        yield from (f"    {word} is {now} now" for word, now in place.renamed.items())
    yield from (f"to be pinned in data/sources.toml: {line}" for line in libraries)


if __name__ == "__main__":
    try:
        main()
    except EdgepackError as error:
        sys.stderr.write(f"error: {error.message}\nhint: {error.hint}\n")
        sys.exit(error.exit_code)
