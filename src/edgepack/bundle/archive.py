"""The bundle as one file: a tar under zstd, the same bytes for the same bundle."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath

from edgepack.bundle.manifest import MANIFEST, mode_of
from edgepack.bundle.place import placed_folder
from edgepack.context import BuildContext
from edgepack.errors import BundleError
from edgepack.files import unpack as layout
from edgepack.files.archives import BadArchive
from edgepack.files.frames import HUGE, LARGE, frame
from edgepack.files.pack import TarEntry, tar_pieces
from edgepack.files.store import written_beside
from edgepack.records.bundle import Bundle


def archive_of(directory: Path) -> Path:
    """Where the archive of the bundle in this folder lies."""
    return directory.with_name(directory.name + ".tar.zst")


def pack(bundle: Bundle, destination: Path, *, context: BuildContext) -> Bundle:
    """Write the bundle's archive and return the bundle with it.

    One folder, named as the bundle is, whatever the bundle's folder is called; sorted, large files last. Each of these
    is a frame of its own, and what lies before it is another: what an earlier build compressed is taken from the store.
    """
    parts = list(tar_pieces(_entries(bundle), large=LARGE))
    sizes = [part.stat().st_size if isinstance(part, Path) else len(part) for part in parts]
    with (
        written_beside(destination) as temporary,
        context.progress("compress", sum(sizes), unit="B") as bar,
        temporary.open("wb") as out,
        ThreadPoolExecutor(max_workers=os.cpu_count()) as pool,
    ):
        make = partial(frame, store=context.store, advance=bar.advance)
        # A huge frame takes all cores by itself, and much memory.
        jobs = [
            pool.submit(make, part) if size <= HUGE else None for part, size in zip(parts, sizes, strict=True)
        ]
        for part, job in zip(parts, jobs, strict=True):
            made = job.result() if job else make(part)
            with made.open("rb") as content:
                shutil.copyfileobj(content, out, 1 << 20)
    return replace(bundle, archive=destination)


def _entries(bundle: Bundle) -> list[TarEntry]:
    sizes = {str(file["path"]): int(file["size"]) for file in bundle.manifest["files"]}
    sizes[MANIFEST] = (bundle.directory / MANIFEST).stat().st_size
    folders = {parent.as_posix() for name in sizes for parent in Path(name).parents if parent != Path()}
    names = sorted({*sizes, *folders}, key=lambda name: (sizes.get(name, 0) >= LARGE, name.split("/")))
    return [
        TarEntry(
            name=f"{bundle.name}/{name}".rstrip("/"),
            source=bundle.directory / name,
            executable=mode_of(bundle.directory / name) == "0755",
        )
        for name in ("", *names)
    ]


def unpack_bundle(archive: Path, destination: Path) -> Path:
    """Unpack a bundle's archive into the folder ``destination``, which must not exist, and return it.

    Raises ``BundleError`` for a file that is no bundle's archive, is cut off or damaged, or would write outside its
    own folder; then nothing is left behind. Whether every file is right is ``open_bundle``'s to say.
    """
    with placed_folder(destination, force=False) as folder:
        try:
            layout.unpack(archive, folder, where=_without_top, kinds=("file", "link"), executables=True)
        except BadArchive as error:
            raise BundleError(
                f"{archive} is not a bundle's archive, or is damaged: {error}",
                hint=error.hint or "download it again, or make the bundle again",
            ) from error
        if not (folder / MANIFEST).is_file():
            raise BundleError(f"{archive} is not a bundle's archive: there is no {MANIFEST} in it")
    return destination


def _without_top(path: PurePosixPath) -> PurePosixPath:
    return PurePosixPath(*path.parts[1:])
