"""Models that come as an archive, unpacked without trusting it."""

from pathlib import Path

from edgepack.errors import ModelError
from edgepack.files import unpack as layout
from edgepack.files.archives import BadArchive, Budget

MAX_FILES = 20_000


def unpack_model(archive: Path, folder: Path) -> None:
    """Unpack an archive (``SUFFIXES``) into a folder; a model in a zip inside it too, into a folder beside that zip.

    Only regular files are made, with ordinary permissions. Raises ``ModelError`` for an archive that is damaged, grows
    beyond measure, or holds a link or a path that leads out of the folder.
    """
    budget = Budget.of(archive, entries=MAX_FILES)
    _unpack_one(archive, folder, budget)
    if next(folder.rglob("tokenizer.json"), None) is not None:
        return
    for inner in sorted(path for path in folder.rglob("*.zip") if path.is_file()):
        _unpack_one(inner, inner.with_name(f"{inner.stem}.unpacked"), budget)
        inner.unlink()


def _unpack_one(archive: Path, folder: Path, budget: Budget) -> None:
    try:
        layout.unpack(archive, folder, budget=budget)
    except BadArchive as error:
        raise ModelError(
            f"{archive.name} cannot be unpacked: {error}",
            hint=error.hint or "it is damaged, or not the archive that its name says",
        ) from error
