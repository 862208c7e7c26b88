"""Where the sources come from: what ``EDGEPACK_SOURCES`` names, the store, the upstream release, Debian. All pinned by SHA-256."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

from edgepack.context import BuildContext
from edgepack.errors import DownloadError, HashMismatchError, MissingToolError, UsageError
from edgepack.fetch.debian import HINT, Package, fetch_packages
from edgepack.files.folder import expanded
from edgepack.files.store import copy_at_most, key_of, sha256_of, written_beside
from edgepack.toml_schema import load_toml, read_table

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Archive:
    """One archive, by its content, and where it can be had."""

    file: str
    sha256: str
    size: int | None = None
    """Bytes, where they are known."""
    top: str = ""
    """The folder inside the archive that holds everything."""
    url: str | None = None
    debian: Package | None = None


@dataclass(frozen=True, kw_only=True)
class SourcePart:
    """ONNX Runtime itself, or one of the libraries that are compiled into it."""

    name: str
    version: str
    license: str
    upstream: str
    archives: tuple[Archive, ...]
    """Any one of them will do."""
    license_files: tuple[str, ...] = ()
    fetchcontent: str | None = None
    """The name under which upstream's CMake asks for it."""
    patch: str | None = None
    """A patch in ONNX Runtime's tree that upstream applies to it."""
    interface: Mapping[str, str] | None = None
    """For header-only parts: the CMake target that upstream links, and the include folder."""
    skip: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class HostTool:
    """A program for the building machine that comes in packages."""

    name: str
    version: str
    arch: str
    program: str
    libraries: str
    packages: tuple[Archive, ...]
    """All of them are needed."""


@dataclass(frozen=True, kw_only=True)
class Catalogue:
    """Sources of one release of ONNX Runtime."""

    version: str
    parts: Mapping[str, SourcePart]
    protoc: HostTool


def read_catalogue(file: Traversable) -> Catalogue:
    """The pinned sources of a release, from its data file."""
    data = load_toml(file)
    return Catalogue(
        version=data["version"],
        parts={name: _read(SourcePart, name, table) for name, table in data["parts"].items()},
        protoc=_read(HostTool, "protoc", data["tools"]["protoc"]),
    )


def fetch_parts(catalogue: Catalogue, *, context: BuildContext) -> Mapping[str, Path]:
    """Get every archive of a release into the store; part → archive in the store.

    ``EDGEPACK_SOURCES`` is a folder with archives, or one archive, to be looked through first.
    Raises ``DownloadError``, ``HashMismatchError`` or ``MissingToolError``.
    """
    parts = catalogue.parts.values()
    found = fetch_archives([part.archives for part in parts], context=context)
    return {part.name: path for part, path in zip(parts, found, strict=True)}


def fetch_tool(tool: HostTool, *, context: BuildContext) -> list[Path]:
    """All packages of a tool, in the store."""
    return fetch_archives([(package,) for package in tool.packages], context=context)


def fetch_archives(wanted: Iterable[tuple[Archive, ...]], *, context: BuildContext) -> list[Path]:
    """For each tuple of alternatives the path in the store of one of them."""
    choices = list(wanted)
    named = _named()
    found: dict[int, Path] = {}
    for index, archives in enumerate(choices):
        if path := _at_hand(archives, named, context):
            found[index] = path
    lacking = [index for index in range(len(choices)) if index not in found]
    if lacking and context.offline:
        raise DownloadError(
            f"{', '.join(choices[index][0].file for index in lacking)} not in the cache, and --offline forbids downloads",
            hint=f"run without --offline once (edgepack fetch), or {HINT}",
        )
    _from_upstream({index: choices[index] for index in lacking}, found, context)
    lacking = [index for index in lacking if index not in found]
    if lacking:
        _from_debian({index: choices[index] for index in lacking}, found, context)
    return [found[index] for index in range(len(choices))]


def store_path(archive: Archive, context: BuildContext) -> Path:
    """Path in the store of an archive, whether it is there or not."""
    return context.store.root / "sources" / key_of({"sha256": archive.sha256}) / archive.file


def _at_hand(archives: tuple[Archive, ...], named: list[Path], context: BuildContext) -> Path | None:
    """The archive among the user's files, or in the store."""
    for archive in archives:
        for file in named:
            if file.name == archive.file:
                _check(file, archive)
                return _keep(file, archive, context)
    for archive in archives:
        stored = store_path(archive, context)
        if stored.is_file() and sha256_of(stored) == archive.sha256:
            return stored
    return None


def _from_upstream(
    lacking: Mapping[int, tuple[Archive, ...]], found: dict[int, Path], context: BuildContext
) -> None:
    for index, archives in lacking.items():
        for archive in archives:
            if archive.url is None:
                continue
            try:
                file = context.download(archive.url, sha256=archive.sha256)
            except DownloadError:
                return  # No way to upstream from here: Debian's mirror is asked for this one and the others.
            found[index] = _keep(file, archive, context)
            break


def _from_debian(
    lacking: Mapping[int, tuple[Archive, ...]], found: dict[int, Path], context: BuildContext
) -> None:
    folder = context.work_dir / "debian-packages"
    packages = [archive.debian for archives in lacking.values() for archive in archives if archive.debian]
    with context.progress("fetch sources", len(packages), unit="archives") as bar:
        try:
            fetch_packages(packages, folder, context=context)
        except MissingToolError as error:
            names = ", ".join(archives[0].file for archives in lacking.values())
            raise MissingToolError(f"{error.message}: {names}", hint=error.hint) from error
        for index, archives in lacking.items():
            found[index] = _fetched(archives, folder, context)
            bar.advance()


def _fetched(archives: tuple[Archive, ...], folder: Path, context: BuildContext) -> Path:
    for archive in archives:
        if archive.debian is None:
            continue
        file = folder / archive.file
        if file.is_file():
            _check(file, archive)
            return _keep(file, archive, context)
    wanted = archives[0]
    raise DownloadError(
        f"{wanted.file} (sha256 {wanted.sha256[:16]}…) is not available, neither upstream nor from the Debian mirror",
        hint=HINT,
    )


def _check(file: Path, archive: Archive) -> None:
    actual = sha256_of(file)
    if actual != archive.sha256:
        raise HashMismatchError(
            f"{file} is not the {archive.file} that is pinned: sha256 {actual}, expected {archive.sha256}",
            hint="remove the file, or replace it with the released one",
        )


def _keep(file: Path, archive: Archive, context: BuildContext) -> Path:
    """A copy in the store."""
    stored = store_path(archive, context)
    if not (stored.is_file() and sha256_of(stored) == archive.sha256):
        with written_beside(stored) as beside:
            copy_at_most(file, beside, file.stat().st_size)
            _check(beside, archive)  # another file may be there by now
    return stored


def _named() -> list[Path]:
    if not (variable := os.environ.get("EDGEPACK_SOURCES")):
        return []
    sources = expanded(variable)
    if sources.is_file():
        return [sources]
    if not sources.is_dir():
        raise UsageError(f"there is no folder or archive {sources} with sources")
    return sorted(path for path in sources.rglob("*") if path.is_file())


def read_archive(table: Mapping[str, Any]) -> Archive:
    """An archive as a data file names it."""
    return read_table(Archive, table, how={"debian": _package})


def _read(kind: type[T], name: str, table: Mapping[str, Any]) -> T:
    how = {"archives": _archives, "packages": _archives}
    return read_table(kind, {"name": name, **table}, where=name, how=how)


def _archives(tables: Iterable[Mapping[str, Any]]) -> tuple[Archive, ...]:
    return tuple(map(read_archive, tables))


def _package(table: Mapping[str, str]) -> Package:
    kind = "source" if "source" in table else "deb"
    return read_table(Package, {"suite": table["suite"], "kind": kind, "name": table[kind]})
