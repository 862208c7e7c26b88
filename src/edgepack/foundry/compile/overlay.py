"""The overlay: files of ONNX Runtime in another form, which every unit of an archive is compiled with."""

from pathlib import Path

from edgepack.errors import ToolError
from edgepack.files.store import key_of, written_beside
from edgepack.foundry.patch import RuntimeRequest
from edgepack.foundry.release import Release
from edgepack.foundry.sources.tree import SourceTree
from edgepack.records.operators import Operators

_ANY = RuntimeRequest(kind="", arch="", needs=Operators(), possible=Operators())
"""The overlay is the same for every runtime."""


def write_overlay(release: Release, tree: SourceTree, folder: Path) -> Path:
    """Write the changed headers and the source that goes with them, to be found before upstream's.

    Returns the folder below ``folder`` that holds them, named by the digest of their contents.
    """
    origin = f"ONNX Runtime {release.version}"
    changed = {
        patch.file: patch.rewritten(own_file(tree, patch.file).read_text(), _ANY, origin=origin)
        for patch in release.overlay
    }
    place = folder / key_of(changed)[:16]
    for path, text in changed.items():
        if not (place / path).is_file() or (place / path).read_text() != text:
            with written_beside(place / path) as beside:
                beside.write_text(text)
    return place


def own_file(tree: SourceTree, file: str) -> Path:
    """A file of ONNX Runtime's own, as its sources include it. Raises ``ToolError``."""
    for folder in ("onnxruntime", "include/onnxruntime"):
        path = tree.onnxruntime / folder / file
        if path.is_file():
            return path
    raise ToolError(f"there is no {file} in the sources of ONNX Runtime {tree.catalogue.version}")
