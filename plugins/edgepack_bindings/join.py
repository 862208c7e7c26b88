"""Archives of one model for several processors made one: what ``edgepack join`` does."""

import re
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgepack.api import BuildContext, BundleError, UsageError
from edgepack.api.kit import open_bundle, unpack_bundle, written_beside
from edgepack.files.archives import ArchiveMember, BadArchive, opened
from edgepack.files.elf import architecture
from edgepack.files.pack import add_to_zip
from edgepack_bindings import android, jar
from edgepack_bindings.naming import LIBRARY
from edgepack_bindings.zips import info_of

NATIVE = re.compile(rf"(jni|META-INF/native)/([^/]+)/{re.escape(Path(LIBRARY).name)}")
"""Where an aar and a jar have the library for a processor."""
MODEL = "model/"
FORMS = "archives that `edgepack bundle --as aar` or `--as jar` made"


@dataclass(frozen=True, kw_only=True)
class Part:
    """One of the archives. Its library is that of its bundle, as the manifest lists it."""

    file: Path
    manifest: Mapping[str, Any]
    place: str
    """The library's name in the archive."""
    library: bytes


def join(files: Sequence[Path], destination: Path, *, context: BuildContext) -> tuple[str, ...]:
    """Write the first archive with the libraries of the others in it, too, and return the platforms.

    The bundle in it is the first one's. Raises ``UsageError`` for archives that do not belong together, ``BundleError`` for one
    that holds no bundle, or is damaged.
    """
    parts = [_opened(file, context=context) for file in files]
    known: set[str] = set()
    for part in parts:
        _require_same_model(parts[0], part)
        if part.place in known:
            raise UsageError(f"{part.file} is for {_platform(part)}, as one before it is")
        known.add(part.place)
    if len({place.partition("/")[0] for place in known}) > 1:
        raise UsageError(f"these are archives of different forms; name {FORMS}, all of one form")
    with written_beside(destination) as temporary:
        _write(parts, temporary)
    return tuple(map(_platform, parts))


def _opened(file: Path, *, context: BuildContext) -> Part:
    if not file.is_file():
        raise UsageError(f"there is no file {file}", hint=f"name {FORMS}")
    with tempfile.TemporaryDirectory(dir=context.work_dir) as folder:
        bundle = open_bundle(unpack_bundle(file, Path(folder) / "bundle"))
        library = bundle.directory / LIBRARY
        own, built_for = (library.read_bytes(), architecture(library)) if library.is_file() else (None, None)
    with _members(file) as members:
        found = [
            (str(each.path), b"".join(each.chunks())) for each in members if NATIVE.fullmatch(str(each.path))
        ]
    # A manifest says of one library what it is.
    place = next((place for place, _ in found), "")
    if found != [(place, own)] or place not in (android.library_in(bundle), jar.library_in(bundle)):
        raise UsageError(
            f"{file} has no library of its bundle beside it, or others besides", hint=f"name {FORMS}"
        )
    if built_for != (arch := bundle.manifest["target"]["platform"]["arch"]):
        raise BundleError(
            f"{file} has a library for {built_for}, and its manifest says {arch}",
            hint="build it again",
        )
    return Part(file=file, manifest=bundle.manifest, place=place, library=found[0][1])


@contextmanager
def _members(file: Path) -> Iterator[Iterator[ArchiveMember]]:
    """Those of an archive, within limits of their size. Raises ``BundleError`` where one is damaged."""
    try:
        with opened(file) as members:
            yield members
    except BadArchive as error:
        raise BundleError(f"{file} is damaged: {error}", hint=error.hint or "build it again") from error


def _require_same_model(first: Part, other: Part) -> None:
    if _model(first.manifest) != _model(other.manifest):
        raise UsageError(
            f"{other.file} holds another model than {first.file}, or is of another edgepack",
            hint="build both from the same model, recipe and edgepack",
        )


def _model(manifest: Mapping[str, Any]) -> object:
    """All that must be the same for one library to open the other's bundle with the same vectors."""
    files = {each["path"]: each["sha256"] for each in manifest["files"] if each["path"].startswith(MODEL)}
    facts = {key: value for key, value in manifest["model"].items() if key != "origin"}
    return manifest["edgepack"], facts, files


def _platform(part: Part) -> str:
    return part.place.split("/")[-2]


def _write(parts: Sequence[Part], destination: Path) -> None:
    """The first archive's members in their order; the other libraries stand behind its own."""
    first, *others = parts
    with _members(first.file) as members, zipfile.ZipFile(destination, "w") as out:
        for member in members:
            name = str(member.path)
            if member.kind != "file" or name in out.NameToInfo:
                raise BadArchive(f"it holds {name!r} twice, or not as a file")
            add_to_zip(out, info_of(name, executable=member.executable), b"".join(member.chunks()))
            for other in others if name == first.place else ():
                add_to_zip(out, info_of(other.place, executable=member.executable), other.library)
