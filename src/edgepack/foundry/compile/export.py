"""A kernel archive written into one file, which ``exchange`` reads."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from edgepack import __version__
from edgepack.context import BuildContext
from edgepack.errors import UsageError
from edgepack.files.pack import TarEntry, write_tarball
from edgepack.files.store import sha256_of, written_beside
from edgepack.foundry.compile.archive import KernelArchive
from edgepack.foundry.compile.exchange import FORMAT, LEVEL, MANIFEST, SCHEMA, Exchanged, exchanged
from edgepack.foundry.compile.keys import planned_file
from edgepack.foundry.compile.objects import record_of, sound_record
from edgepack.foundry.compile.plan import CONFIGURED
from edgepack.foundry.compile.shipped import configured_files
from edgepack.foundry.sources.pinned import fetch_parts


def export_archive(
    archive: KernelArchive,
    output: Path,
    *,
    features: tuple[str, ...],
    with_sources: bool,
    context: BuildContext,
) -> Exchanged:
    """Write what is in an archive into one file. The same content gives the same bytes.

    Raises ``UsageError`` for an archive without objects, ``OutputError`` or ``DiskFullError``.
    """
    with context.store.lock(archive.folder):
        content = dict(sorted({**_plan_of(archive), **_objects_of(archive)}.items()))
        if with_sources:
            found = fetch_parts(archive.release.catalogue, context=context)
            content |= {f"sources/{path.name}": path for path in sorted(found.values())}
        objects = [name for name in content if name.endswith(".o")]
        if not objects:
            raise UsageError(
                "nothing has been compiled yet for this kind of runtime",
                hint="--full compiles everything; `edgepack runtime lib` compiles what one model needs",
            )
        manifest = _manifest_of(archive, content, features)
        with written_beside(output) as temporary, temporary.open("wb") as stream:
            _write(stream, manifest, content, context)
    return exchanged(manifest)


def _plan_of(archive: KernelArchive) -> dict[str, Path | bytes]:
    """The plan, and what configuring made that compilations read; folders as placeholders."""
    planned = planned_file(archive.folder, archive.settings, room=archive.release.room)
    made = configured_files(archive.tree, archive.build)
    return {
        f"units/{planned.name}": planned,
        f"build/{CONFIGURED}": archive.build / CONFIGURED,
        **{f"build/{name}": source for name, source in made.items()},
    }


def _objects_of(archive: KernelArchive) -> dict[str, Path | bytes]:
    """Every sound object with its record; what an interruption or a fault of the disk left is not passed on."""
    content: dict[str, Path | bytes] = {}
    for path in archive.objects.rglob("*.o"):
        if sound_record(path) is not None:
            name = f"objects/{path.relative_to(archive.objects).as_posix()}"
            content |= {name: path, f"{name}.json": record_of(path)}
    return content


def _manifest_of(
    archive: KernelArchive, content: Mapping[str, Path | bytes], features: tuple[str, ...]
) -> dict[str, Any]:
    files = []
    for name, source in content.items():
        data = source if isinstance(source, bytes) else None
        entry: dict[str, Any] = {
            "path": name,
            "size": len(data) if data is not None else Path(str(source)).stat().st_size,
            "sha256": hashlib.sha256(data).hexdigest() if data is not None else sha256_of(Path(str(source))),
        }
        if name.endswith(".o"):
            entry["identity"] = json.loads(record_of(Path(str(source))).read_text())["identity"]
        files.append(entry)
    compiled = {name.removeprefix("objects/").removesuffix(".o") for name in content if name.endswith(".o")}
    return {
        "format": FORMAT,
        "schema": SCHEMA,
        "edgepack": __version__,
        "onnxruntime": archive.release.version,
        "kind": archive.kind,
        "features": list(features),
        "toolchain": archive.toolchain.identity,
        "key": archive.key,
        "sources": dict(sorted(archive.tree.digests.items())),
        "complete": compiled >= archive.units.keys(),
        "files": files,
    }


def _write(
    stream: IO[bytes], manifest: Mapping[str, Any], content: Mapping[str, Path | bytes], context: BuildContext
) -> None:
    total = sum(int(file["size"]) for file in manifest["files"])
    entries = [TarEntry(name=name, source=source) for name, source in content.items()]
    first = TarEntry(name=MANIFEST, source=json.dumps(manifest, indent=0).encode())
    with context.progress("compress", total, unit="B") as bar:
        write_tarball(stream, [first, *entries], level=LEVEL, window_log=24, advance=bar.advance)
