"""Archives of one model for several processors made one: what ``edgepack join`` does."""

import copy
import re
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgepack.api import BuildContext, UsageError
from edgepack.api.kit import open_bundle, unpack_bundle, written_beside
from edgepack.files.pack import add_to_zip
from edgepack_bindings.naming import LIBRARY

NATIVE = re.compile(rf"(jni|META-INF/native)/([^/]+)/{re.escape(Path(LIBRARY).name)}")
"""Where an aar and a jar have the library for a processor."""
MODEL = "model/"
FORMS = "archives that `edgepack bundle --as aar` or `--as jar` made"


@dataclass(frozen=True, kw_only=True)
class Part:
    """One of the archives."""

    file: Path
    manifest: Mapping[str, Any]
    libraries: Mapping[str, bytes]
    """Name in the archive → content."""


def join(files: Sequence[Path], destination: Path, *, context: BuildContext) -> tuple[str, ...]:
    """Write the first archive with the libraries of the others in it, too, and return the platforms.

    The bundle in it is the first one's. Raises ``UsageError`` for archives that do not belong together, ``BundleError`` for one
    that holds no bundle.
    """
    parts = [_opened(file, context=context) for file in files]
    libraries: dict[str, bytes] = {}
    for part in parts:
        _require_same_model(parts[0], part)
        for name, content in part.libraries.items():
            if name in libraries:
                raise UsageError(f"{part.file} is for {_platform(name)}, as one before it is")
            libraries[name] = content
    if len({name.partition("/")[0] for name in libraries}) > 1:
        raise UsageError(f"these are archives of different forms; name {FORMS}, all of one form")
    with written_beside(destination) as temporary:
        _write(parts[0], libraries, temporary)
    return tuple(map(_platform, libraries))


def _opened(file: Path, *, context: BuildContext) -> Part:
    if not file.is_file():
        raise UsageError(f"there is no file {file}", hint=f"name {FORMS}")
    with tempfile.TemporaryDirectory(dir=context.work_dir) as folder:
        bundle = open_bundle(unpack_bundle(file, Path(folder) / "bundle"))
        library = bundle.directory / LIBRARY
        own = library.read_bytes() if library.is_file() else None
    libraries = {}
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            libraries = {name: archive.read(name) for name in archive.namelist() if NATIVE.fullmatch(name)}
    if own not in libraries.values():
        raise UsageError(f"{file} has no library of its bundle beside it", hint=f"name {FORMS}")
    return Part(file=file, manifest=bundle.manifest, libraries=libraries)


def _require_same_model(first: Part, other: Part) -> None:
    if _model(first.manifest) != _model(other.manifest):
        raise UsageError(
            f"{other.file} holds another model than {first.file}, or is of another edgepack",
            hint="build both from the same model, recipe and edgepack",
        )


def _model(manifest: Mapping[str, Any]) -> object:
    """All that must be the same for one library to open the other's bundle with the same vectors."""
    files = {each["path"]: each["sha256"] for each in manifest["files"] if each["path"].startswith(MODEL)}
    return manifest["edgepack"], manifest["model"].get("embedder"), files


def _platform(name: str) -> str:
    return name.split("/")[-2]


def _write(first: Part, libraries: Mapping[str, bytes], destination: Path) -> None:
    """Members keep their order and date; a library stands where the first archive has its own."""
    rest = {name: content for name, content in libraries.items() if name not in first.libraries}
    with zipfile.ZipFile(first.file) as source, zipfile.ZipFile(destination, "w") as out:
        for member in source.infolist():
            add_to_zip(out, copy.copy(member), source.read(member))
            while rest and member.filename in first.libraries:
                name = next(iter(rest))
                beside = copy.copy(member)
                beside.filename = name
                add_to_zip(out, beside, rest.pop(name))
