"""A drafted room's files: the patches that it uses, its pinned sources, and how it is compiled."""

import json
import re
from pathlib import Path

from bin.draft_release.survey import Survey
from bin.draft_release.tree import Tree

from edgepack.files.pack import TarEntry, write_tarball
from edgepack.files.store import sha256_of, written_beside
from edgepack.foundry.release import Release
from edgepack.foundry.releases.release_folder import ROOM, SCHEMA
from edgepack.foundry.sources.pinned import Archive

_PART = re.compile(r"^\[parts\.onnxruntime\]$.*?(?=^\[parts\.(?!onnxruntime))", re.M | re.S)
_SKIPPED = (".git",)
"""Never part of a release's sources."""


def pack_tree(tree: Tree, version: str, folder: Path) -> tuple[Path, Archive]:
    """The tree as one archive in ``folder``, with the same bytes wherever it lies, and how it is pinned."""
    top = f"onnxruntime-{version}"
    file = folder / f"{top}.tar.zst"
    skip = (*tree.skip, *_SKIPPED)

    def is_wanted(path: Path) -> bool:
        inner = path.relative_to(tree.folder)
        return not path.is_dir() and not any(inner.is_relative_to(name) for name in skip)

    files = sorted(path for path in tree.folder.rglob("*") if is_wanted(path))
    entries = (
        TarEntry(
            name=f"{top}/{path.relative_to(tree.folder).as_posix()}",
            source=path,
            executable=bool(path.lstat().st_mode & 0o100),
        )
        for path in files
    )
    with written_beside(file) as beside, beside.open("wb") as stream:
        write_tarball(stream, entries, level=9, window_log=23)
    return file, Archive(file=file.name, sha256=sha256_of(file), size=file.stat().st_size, top=top)


def write_room(survey: Survey, release: Release, archive: Archive, folder: Path) -> None:
    """``room.toml`` and ``data/`` of a release that is built like another; ``archive`` is that of its sources."""
    (folder / "data").mkdir()
    (folder / ROOM).write_text(_room(survey), encoding="utf-8")
    sources = _file(release, "sources.toml").replace(
        f'version = "{survey.like}"', f'version = "{survey.version}"', 1
    )
    sources = _PART.sub(lambda _: _part(survey, release, archive), sources)
    (folder / "data/sources.toml").write_text(sources.replace(survey.like, survey.version), encoding="utf-8")
    settings = _file(release, "build.toml").replace(survey.like, survey.version)
    (folder / "data/build.toml").write_text(settings, encoding="utf-8")


def _file(release: Release, name: str) -> str:
    return next(folder / name for folder in release.data if (folder / name).is_file()).read_text(
        encoding="utf-8"
    )


def _room(survey: Survey) -> str:
    lines = [
        f"# ONNX Runtime {survey.version}, built like {survey.like}. UPGRADE.md says what is to be mended.",
        "",
        f"schema = {SCHEMA}",
        f"version = {json.dumps(survey.version)}",
        f"like = {json.dumps(survey.like)}",
    ]
    for place in survey.places:
        gives = f"gives {place.gives}" if place.gives else "no runtime can be made without it"
        why = "" if place.fits else f", {place.state}"
        lines += [
            "",
            f"# {gives}{why}",
            f"[patches.{json.dumps(place.patch)}]",
            f"use = {json.dumps(place.patch in survey.used)}",
            f"file = {json.dumps(place.now or place.file)}",
        ]
        if place.renamed:
            words = ", ".join(
                f"{json.dumps(word)} = {json.dumps(now)}" for word, now in place.renamed.items()
            )
            lines.append(f"renamed = {{ {words} }}")
    return "\n".join(lines) + "\n"


def _part(survey: Survey, release: Release, archive: Archive) -> str:
    part = release.catalogue.parts["onnxruntime"]
    rows = {
        "version": survey.version,
        "license": part.license,
        "upstream": part.upstream,
        "license_files": list(part.license_files),
        "skip": list(part.skip),
    }
    pinned = {"file": archive.file, "sha256": archive.sha256, "size": archive.size, "top": archive.top}
    return "\n".join(
        [
            "[parts.onnxruntime]",
            *(f"{key} = {json.dumps(value)}" for key, value in rows.items()),
            "[[parts.onnxruntime.archives]]",
            *(f"{key} = {json.dumps(value)}" for key, value in pinned.items()),
            "\n",
        ]
    )
