"""What upstream's CMake made once, as a release's room brings it: an archive that it is for need not be configured.

It counts for exactly the sources, the toolchain and the CMake variables that it was made with; for all others CMake runs.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from edgepack.files.store import key_of, written_beside
from edgepack.foundry.compile.keys import archive_inputs
from edgepack.foundry.compile.plan import COMMANDS, CONFIGURED
from edgepack.foundry.release import Release
from edgepack.foundry.sources.tree import SourceTree
from edgepack.foundry.toolchain import Toolchain
from edgepack.foundry.units import BUILD, TREE

_HEADERS = (".h", ".inc", ".cc", ".c", ".cpp", ".def")
_LEVEL, _LARGEST = 19, 1 << 26


def configured_files(tree: SourceTree, build: Path) -> dict[str, Path | bytes]:
    """Files made by configuring that compilations and plans read, by their place in the build folder; folders as placeholders."""
    commands = (build / COMMANDS).read_text().replace(str(tree.folder), TREE).replace(str(build), BUILD)
    content: dict[str, Path | bytes] = {COMMANDS: commands.encode()}
    for path in build.rglob("*"):
        relative = path.relative_to(build)
        if path.suffix in _HEADERS and relative.parts[0] not in ("zig-cache", "CMakeFiles", "compilers"):
            content[relative.as_posix()] = path
    return content


def pack_configured(tree: SourceTree, build: Path, key: str) -> bytes:
    """One file of it for a release's room. ``key`` is ``configured_key``'s."""
    import zstandard

    files = {
        name: (source if isinstance(source, bytes) else source.read_bytes()).decode()
        for name, source in sorted(configured_files(tree, build).items())
    }
    text = json.dumps({"key": key, "files": files}, separators=(",", ":"), sort_keys=True)
    return zstandard.ZstdCompressor(level=_LEVEL).compress(text.encode())


def configured_key(release: Release, *, kind: str, toolchain: Toolchain) -> str:
    """Digest of all that decides what CMake makes."""
    archives = {
        f"{part.name} {archive.file}": archive.sha256
        for part in release.catalogue.parts.values()
        for archive in part.archives
    }
    inputs = archive_inputs(
        release, kind=kind, features=(), tree_key=key_of(archives), toolchain=toolchain.identity
    )
    return key_of({**inputs, "protoc": release.catalogue.protoc.version})


def lay_configured(
    release: Release, tree: SourceTree, build: Path, *, kind: str, toolchain: Toolchain
) -> bool:
    """Whether the release brings it, and it lies in ``build`` now. Hold the archive's lock."""
    table = shipped(release, kind=kind, platform=toolchain.platform)
    if table is None or table["key"] != configured_key(release, kind=kind, toolchain=toolchain):
        return False
    files: Mapping[str, str] = table["files"]  # type: ignore[assignment]
    for name, text in files.items():
        placed = text.replace(TREE, str(tree.folder)).replace(BUILD, str(build)) if name == COMMANDS else text
        with written_beside(build / name) as beside:
            beside.write_bytes(placed.encode())
    (build / CONFIGURED).write_text("")
    return True


def shipped(release: Release, *, kind: str, platform: str) -> Mapping[str, object] | None:
    """The file that a release has for a kind and a platform, read."""
    import zstandard

    file = release.configured_file(kind, platform)
    if file is None:
        return None
    data = zstandard.ZstdDecompressor().decompress(file.read_bytes(), max_output_size=_LARGEST)
    table: Mapping[str, object] = json.loads(data)
    return table
