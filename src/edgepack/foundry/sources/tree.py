"""The source tree that ONNX Runtime's own CMake is pointed at: unpacked, patched, complete without a network."""

import json
import platform
import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edgepack import tools
from edgepack.context import BuildContext
from edgepack.errors import EdgepackError, MissingToolError, ToolError
from edgepack.fetch.unpack import unpack_download
from edgepack.files.store import digest_tree, disk_errors, key_of, sha256_of, written_beside
from edgepack.foundry.sources.pinned import Catalogue, HostTool, SourcePart, fetch_parts, fetch_tool

LAYOUT = "1"
"""Changes when the same archives are laid out otherwise."""
COMPLETE = ".complete"
"""In a tree that is laid out: path → SHA-256 of each file."""
HEADER = "include/onnxruntime/core/session/onnxruntime_c_api.h"
"""The C API's, in ONNX Runtime's folder."""


@dataclass(frozen=True, kw_only=True)
class SourceTree:
    """Folders ``onnxruntime``, ``abseil``, … side by side."""

    folder: Path
    catalogue: Catalogue
    """What it was made of."""
    key: str
    """Digest of the archives."""
    digests: Mapping[str, str]
    """Part → SHA-256 of its archive."""

    @property
    def parts(self) -> Mapping[str, SourcePart]:
        return self.catalogue.parts

    @property
    def onnxruntime(self) -> Path:
        return self.folder / "onnxruntime"

    @property
    def header(self) -> Path:
        """The C API's."""
        return self.onnxruntime / HEADER


def source_tree(catalogue: Catalogue, *, context: BuildContext) -> SourceTree:
    """The tree in the store, fetched and unpacked when it is not there yet."""
    archives = fetch_parts(catalogue, context=context)
    digests = {name: sha256_of(path) for name, path in archives.items()}
    inputs = tree_inputs(digests)
    folder = context.store.folder("source-tree", inputs)
    with context.store.lock(folder):
        if not _listed(folder):
            _lay_out(folder, catalogue.parts, archives, context)
    return SourceTree(folder=folder, catalogue=catalogue, key=key_of(inputs), digests=digests)


def require_whole(tree: SourceTree) -> None:
    """Compare each file with what was unpacked, before anything is compiled of it. Raises ``ToolError``; who asks next unpacks it anew."""
    listed = _listed(tree.folder)
    for path, sha256 in listed.items():
        file = tree.folder / path
        if not file.is_file() or sha256_of(file) != sha256:
            (tree.folder / COMPLETE).unlink()
            raise ToolError(
                f"in the cache, {file} is not as it was unpacked",
                hint="run it again: the sources are unpacked anew; the disk may be damaged",
            )


def _listed(folder: Path) -> dict[str, str]:
    try:
        found = json.loads((folder / COMPLETE).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def tree_inputs(digests: Mapping[str, str]) -> dict[str, str]:
    """Inputs of a tree's key: the SHA-256 of each part's archive."""
    return {"layout": LAYOUT, **digests}


def protoc(tool: HostTool, *, context: BuildContext) -> Path:
    """The protobuf compiler of exactly the right version: the one on PATH, or Debian's, unpacked into the store."""
    try:
        installed = tools.find("protoc")
        if context.run([installed, "--version"]).split()[-1] == tool.version:
            return installed
    except EdgepackError:
        pass
    if platform.machine() != tool.arch:
        raise MissingToolError(
            f"protoc {tool.version} is not installed",
            hint=f"put protoc of exactly version {tool.version} on PATH",
        )
    packages = fetch_tool(tool, context=context)

    def make(folder: Path) -> None:
        for package in packages:
            unpack_download(package, folder, skip=("usr/include", "usr/share"))

    inputs = {package.name: sha256_of(package) for package in packages}
    return _launcher(context.store.cached("protoc", inputs, make), tool, context)


def _lay_out(
    folder: Path, parts: Mapping[str, SourcePart], archives: Mapping[str, Path], context: BuildContext
) -> None:
    with disk_errors(folder), context.progress("unpack sources", len(parts), unit="archives") as bar:
        for name, part in parts.items():
            destination = folder / name
            shutil.rmtree(destination, ignore_errors=True)
            top = next((a.top for a in part.archives if a.file == archives[name].name), "")
            unpack_download(archives[name], destination, top=top, skip=part.skip, keep=part.keep)
            if part.patch:
                _patch(destination, folder / "onnxruntime" / part.patch, context)
            if part.interface:
                (destination / "CMakeLists.txt").write_text(_interface(name, part.interface))
            bar.advance()
        # protobuf 21 asks for utf8_range and does not use it.
        (folder / "utf8_range").mkdir(exist_ok=True)
        (folder / "utf8_range" / "CMakeLists.txt").write_text("")
        listing = {file.path: file.sha256 for file in digest_tree(folder) if file.path != COMPLETE}
        with written_beside(folder / COMPLETE) as beside:
            beside.write_text(json.dumps(listing))


def _patch(folder: Path, patch: Path, context: BuildContext) -> None:
    """Apply a patch, which upstream's CMake does after a download, and leaves out for a folder that is named to it."""
    program = tools.find("patch")
    context.run(
        [program, "-p1", "--binary", "--ignore-whitespace", "--no-backup-if-mismatch", "-s", "-i", patch],
        cwd=folder,
    )


def _interface(name: str, interface: Mapping[str, str]) -> str:
    target = f"edgepack_{name}"
    return (
        f"add_library({target} INTERFACE)\n"
        f"add_library({interface['target']} ALIAS {target})\n"
        f"target_include_directories({target} INTERFACE ${{CMAKE_CURRENT_SOURCE_DIR}}/{interface['include']})\n"
    )


def _launcher(folder: Path, tool: HostTool, context: BuildContext) -> Path:
    """A script that lets the program find the libraries that came with it."""
    script = context.work_dir / tool.name
    script.write_text(
        f'#!/bin/sh\nLD_LIBRARY_PATH="{folder / tool.libraries}" exec "{folder / tool.program}" "$@"\n'
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return script
