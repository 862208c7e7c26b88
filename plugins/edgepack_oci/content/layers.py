"""The layers of a bundle: one for each part that others may share, the same bytes for the same files; in the store."""

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from edgepack.api import BuildContext, Bundle
from edgepack.api.axes import TarEntry, bundle_entries, write_tgz
from edgepack_oci.content.documents import FILEPATH, IMAGE_LAYER, PART, TITLE, Descriptor

HOME = "models"
"""The bundle's folder in an image: where KServe, and all that mounts models from images, looks for them."""
WEIGHTS, TOKENIZER, CODE, DOCUMENTS, MANIFEST = "weights", "tokenizer", "code", "licenses", "manifest"
LIBC = "libc"
_OF_PART = {"model": WEIGHTS, "tokenizer": TOKENIZER, "licenses": DOCUMENTS, "golden": MANIFEST}
_MEDIA_TYPES = {
    WEIGHTS: "application/vnd.cncf.model.weight.v1.tar+gzip",
    TOKENIZER: "application/vnd.cncf.model.weight.config.v1.tar+gzip",
    CODE: "application/vnd.cncf.model.code.v1.tar+gzip",
    DOCUMENTS: "application/vnd.cncf.model.doc.v1.tar+gzip",
    MANIFEST: "application/vnd.cncf.model.weight.config.v1.tar+gzip",
}
"""Of ModelPack. The last is what changes with every build, so that the others need not be sent again."""
_BLOB, _SUMS = "layer.tar.gz", "sums.json"


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A compressed tar in the store."""

    part: str
    file: Path
    digest: str
    """``sha256:…`` of the file."""
    diff_id: str
    """``sha256:…`` of the tar."""
    size: int
    """Bytes of the file."""

    @property
    def of_image(self) -> Descriptor:
        return self._descriptor(IMAGE_LAYER, {PART: self.part})

    @property
    def of_modelpack(self) -> Descriptor:
        said = {PART: self.part, TITLE: f"{self.part}.tar.gz", FILEPATH: HOME}
        return self._descriptor(_MEDIA_TYPES[self.part], said)

    def _descriptor(self, media_type: str, annotations: Mapping[str, str]) -> Descriptor:
        return Descriptor(media_type=media_type, digest=self.digest, size=self.size, annotations=annotations)


def bundle_layers(bundle: Bundle, *, context: BuildContext) -> list[Layer]:
    """The bundle's files below ``models/``, weights first; every layer has the folders that lead to its files."""
    parts = {str(file["path"]): str(file["part"]) for file in bundle.manifest["files"]}
    entries = {entry.name: entry for entry in bundle_entries(bundle, top=HOME)}
    groups: dict[str, list[TarEntry]] = {part: [] for part in _MEDIA_TYPES}
    for name, entry in sorted(entries.items()):
        path = name.removeprefix(f"{HOME}/")
        if entry.source != bundle.directory and not _is_folder(entry):
            groups[_OF_PART.get(parts[path], CODE) if path in parts else MANIFEST].append(entry)
    return [
        make_layer(part, [*_folders(files, entries), *files], context=context)
        for part, files in groups.items()
        if files
    ]


def make_layer(part: str, entries: Sequence[TarEntry], *, context: BuildContext) -> Layer:
    """One layer, from the store where it was made before of the same content."""

    def make(folder: Path) -> None:
        with (folder / _BLOB).open("wb") as out:
            diff_id = write_tgz(out, entries)
        with (folder / _BLOB).open("rb") as made:
            content = hashlib.file_digest(made, "sha256").hexdigest()
        (folder / _SUMS).write_text(
            json.dumps({"digest": f"sha256:{content}", "diff_id": f"sha256:{diff_id}"})
        )

    said = json.dumps([_identity(entry) for entry in entries])
    key = {
        "entries": hashlib.sha256(said.encode()).hexdigest(),
        "zlib": zlib.ZLIB_RUNTIME_VERSION,
        "schema": "2",
    }
    files = {
        entry.name: entry.source
        for entry in entries
        if isinstance(entry.source, Path) and _identity(entry)[1] == "file"
    }
    made = context.store.cached("oci-layer", key, make, files=files)
    sums = json.loads((made / _SUMS).read_text())
    file = made / _BLOB
    return Layer(part=part, file=file, size=file.stat().st_size, **sums)


def _is_folder(entry: TarEntry) -> bool:
    return isinstance(entry.source, Path) and entry.source.is_dir() and not entry.source.is_symlink()


def _folders(files: Sequence[TarEntry], entries: Mapping[str, TarEntry]) -> list[TarEntry]:
    leading = {str(parent) for entry in files for parent in PurePosixPath(entry.name).parents}
    return [entries[name] for name in sorted(leading & entries.keys())]


def _identity(entry: TarEntry) -> list[object]:
    """All of an entry that is written but the content of a file."""
    source = entry.source
    if entry.link:
        return [entry.name, "link", entry.link]
    if isinstance(source, bytes):
        return [entry.name, "file", entry.executable, hashlib.sha256(source).hexdigest()]
    if source.is_symlink():
        return [entry.name, "link", source.readlink().as_posix()]
    if source.is_dir():
        return [entry.name, "folder"]
    return [entry.name, "file", entry.executable]
