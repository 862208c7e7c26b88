"""The bundle as one file: a tar under zstd, the same bytes for the same bundle."""

import io
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath

from edgepack.bundles.manifest import MANIFEST, SIGNATURE, mode_of
from edgepack.bundles.place import placed_folder
from edgepack.context import BuildContext
from edgepack.errors import BundleError
from edgepack.files import unpack as layout
from edgepack.files.archives import (
    COMPRESSIONS,
    PROGRAMS,
    ArchiveMember,
    BadArchive,
    Budget,
    is_plain_zip,
    is_zip,
    opened,
    plain_tar,
)
from edgepack.files.frames import HUGE, LARGE, frame
from edgepack.files.pack import TarEntry, tar_pieces
from edgepack.files.store import written_beside
from edgepack.records.bundle import Bundle

ZIPS = (b"PK\3\4", b"\x7fELF")
"""What a zip begins with that has nothing before its files but the bundle's program, which the manifest lists."""
TAR, TAR_AT = b"ustar", 257
"""What archives begin with, whatever their names are."""
DEPTH = 2
"""Archives in which a bundle's folder or archive may lie: the layer of an image; an update's payload, in an archive of its own."""

SHOWN = 3
"""Names of what lies beside a bundle."""

TEXTS = (".txt", ".json")
"""What the names of texts end with."""


def archive_of(directory: Path) -> Path:
    """Path of the archive of the bundle in this folder."""
    return directory.with_name(directory.name + ".tar.zst")


def with_archive(bundle: Bundle) -> Bundle:
    """With the archive beside its folder, where that has the same manifest: after an update it may be the older bundle's."""
    archive = archive_of(bundle.directory)
    try:
        with opened(archive) as members:
            found = next(member for member in members if member.path.name == MANIFEST)
            same = _is_manifest_of(bundle, found)
    except (BadArchive, StopIteration):
        same = False
    return replace(bundle, archive=archive if same else None)


def holds_only(archive: Path, bundle: Bundle) -> bool:
    """Whether an archive holds this very bundle, signed or not, and nothing else: it can be packed again and nothing is lost."""
    wanted = {PurePosixPath(entry.name).parts[1:] for entry in bundle_entries(bundle, top=bundle.name)}
    same = False
    try:
        with opened(archive) as members:
            for member in members:
                inside = member.path.parts[1:]
                if inside not in {*wanted, (SIGNATURE,)} or not (inside or member.kind == "folder"):
                    return False
                same = same or (inside == (MANIFEST,) and _is_manifest_of(bundle, member))
    except BadArchive:
        return False
    return same


def _is_manifest_of(bundle: Bundle, member: ArchiveMember) -> bool:
    manifest = (bundle.directory / MANIFEST).read_bytes()
    return member.size == len(manifest) and b"".join(member.chunks()) == manifest


def pack(bundle: Bundle, destination: Path, *, context: BuildContext) -> Bundle:
    """Write the bundle's archive and return the bundle with it.

    One folder, named as the bundle is, whatever the bundle's folder is called; sorted, large files last. Each of these
    is a frame of its own, and what lies before it is another: what an earlier build compressed is taken from the store.
    """
    parts = list(tar_pieces(bundle_entries(bundle, top=bundle.name), large=LARGE))
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


def bundle_entries(bundle: Bundle, *, top: str) -> list[TarEntry]:
    """The bundle's folder under the name ``top``, its signature too: folders and texts sorted, then other files, large files last."""
    sizes = {str(file["path"]): int(file["size"]) for file in bundle.manifest["files"]}
    own = [MANIFEST, *([SIGNATURE] if (bundle.directory / SIGNATURE).is_file() else [])]
    sizes |= {name: (bundle.directory / name).stat().st_size for name in own}
    folders = {parent.as_posix() for name in sizes for parent in Path(name).parents if parent != Path()}

    def place(name: str) -> tuple[bool, bool, list[str]]:
        # Texts beside texts, and code beside tables: a kilobyte less for each bundle.
        text = name in folders or name.endswith(TEXTS)
        return sizes.get(name, 0) >= LARGE, not text, name.split("/")

    names = sorted({*sizes, *folders}, key=place)
    return [
        TarEntry(
            name=f"{top}/{name}".rstrip("/"),
            source=bundle.directory / name,
            executable=mode_of(bundle.directory / name) == "0755",
        )
        for name in ("", *names)
    ]


def unpack_bundle(archive: Path, destination: Path, *, most: int | None = None) -> Path:
    """Unpack the bundle in an archive or package into the folder ``destination``, which must not exist, and return it.

    The bundle is the topmost folder with a manifest: of a ``.tar.zst`` the only one, of a package one that is somewhere in it, or in
    an archive that it holds, such as a layer of an image, or one in that, such as an update's payload.
    Raises ``BundleError`` for a file that holds no bundle, is cut off or damaged, or would write outside its
    own folder; then nothing is left behind. Likewise where it unpacks to more than ``most`` bytes, or to so many that it
    looks like a bomb. Whether every file is right is ``open_bundle``'s to say.
    """
    with (
        placed_folder(destination, force=False) as folder,
        tempfile.TemporaryDirectory(prefix=".layer-", dir=destination.parent) as beside,
    ):
        budget = Budget.of(archive, most=most) if archive.is_file() else None
        with _named(archive):
            holder, top = _found_in(archive, Path(beside), most)
            _lay_out(holder, folder, top, budget)
    return destination


def lies_beside(archive: Path, folder: Path, *, most: int | None = None) -> str | None:
    """Something that an archive or package holds beside its bundle, if there is anything: a file, or what holds the bundle's own archive.

    ``folder`` is where the bundle was unpacked. Raises ``BundleError`` where there is nothing, but other programs may unpack another bundle.
    """
    with archive.open("rb") as file:
        head = file.read(4)
    if head.startswith(b"#!") or (is_zip(archive) and head not in ZIPS):
        return "a program before its files"
    with _named(archive):
        top = _top(archive, Budget.of(archive, most=most))
        with opened(archive, budget=Budget.of(archive, most=most)) as found:
            members = list(found)
        paths = [member.path for member in members if member.kind != "folder"]
        others = [path for path in paths if top is None or not path.is_relative_to(top)]
        if top is not None and (
            over := next((path for path in others if _lies_over(path, top, folder)), None)
        ):
            raise BadArchive(
                f"it holds {str(over)!r}, which may be laid over the bundle", hint="do not trust this package"
            )
        if archive.name.lower().endswith(".deb"):
            # It is run as root where the package is installed.
            others.insert(0, PurePosixPath("control.tar"))
        beside = ", ".join(map(str, others[:SHOWN])) or None
        if more := len(others[SHOWN:]):
            beside = f"{beside} and {more} more"
        if beside is None and not (
            is_plain_zip(archive)
            if is_zip(archive) or head.startswith(tuple(PROGRAMS))
            else top is not None and _is_packed(archive, members, top, folder)
        ):
            raise BadArchive(
                "it is packed otherwise than edgepack does it, and other programs may unpack other files",
                hint="unpack it, and name the folder that it gives",
            )
    return beside


def _lies_over(path: PurePosixPath, top: PurePosixPath, folder: Path) -> bool:
    """Whether a path ends as that of a file of the bundle does, with the bundle's folder: pip and npm lay files out by the ends of paths."""
    ends = (path.parts[at + 1 :] for at, part in enumerate(path.parts) if part == top.name)
    return any(end and os.path.lexists(folder.joinpath(*end)) for end in ends)


def _is_packed(archive: Path, members: Sequence[ArchiveMember], top: PurePosixPath, folder: Path) -> bool:
    """Whether a tar has the bytes that edgepack makes of its members, which lie in ``folder``; programs agree on what these unpack to."""
    entries = [
        TarEntry(name=str(member.path), source=folder / place, executable=member.executable)
        for member in members
        if (place := _below(top, member.path)) is not None and os.path.lexists(folder / place)
    ]
    if len(entries) < len(members):
        return False
    with plain_tar(archive) as plain:
        for piece in tar_pieces(entries, large=LARGE):
            with piece.open("rb") if isinstance(piece, Path) else io.BytesIO(piece) as content:
                while wanted := content.read(1 << 16):
                    if plain.read(len(wanted)) != wanted:
                        return False
        return not plain.read(1)


def unpack_layers(layers: Sequence[Path], folder: Path) -> None:
    """Lay a bundle, of whose files each archive holds some, out in ``folder``.

    The bundle lies where one of them has the manifest; what is beside it is left out. Raises ``BundleError`` as ``unpack_bundle`` does,
    also where two archives hold the same file. Whether every file is there and right is ``open_bundle``'s to say.
    """
    tops, look, lay = [], Budget.of(*layers), Budget.of(*layers)
    for archive in layers:
        with _named(archive):
            tops.append(_top(archive, look))
    top = next((found for found in tops if found is not None), None)
    if top is None:
        raise BundleError(f"there is no {MANIFEST} in it", hint="it is not a bundle that edgepack packed")
    for archive in layers:
        with _named(archive):
            _lay_out(archive, folder, top, lay)


@contextmanager
def _named(archive: Path) -> Iterator[None]:
    """Say of which archive it is that something is wrong."""
    try:
        yield
    except BadArchive as error:
        raise BundleError(
            f"{archive} is not a bundle's archive, or is damaged: {error}",
            hint=error.hint or "download it again, or rebuild the bundle",
        ) from error


def _lay_out(archive: Path, folder: Path, top: PurePosixPath, budget: Budget | None) -> None:
    """Lay out what lies below ``top``: files, executable ones among them, and links."""
    below = partial(_below, top)
    layout.unpack(archive, folder, where=below, kinds=("file", "link"), executables=True, budget=budget)


def _found_in(archive: Path, folder: Path, most: int | None) -> tuple[Path, PurePosixPath]:
    """The archive that holds the bundle, which may be one inside of this one, and the bundle's folder in it."""
    budgets = [(Budget.of(archive, most=most), Budget.of(archive, most=most)) for _ in range(DEPTH + 1)]

    def search(place: Path, depth: int) -> tuple[Path, PurePosixPath]:
        look, keep = budgets[depth]
        if (top := _top(place, look)) is not None:
            return place, top
        layer = folder / f"layer-{depth}"
        with opened(place, budget=keep) as members:
            for member in members:
                if depth < DEPTH and member.kind == "file" and _keep(member, layer):
                    with suppress(BadArchive):
                        return search(layer, depth + 1)
        raise BadArchive(
            f"there is no {MANIFEST} in it",
            hint="a bundle's folder lies in it as it is, or in an archive inside of it (the layer of an image)",
        )

    return search(archive, 0)


def _top(archive: Path, budget: Budget) -> PurePosixPath | None:
    """The folder in an archive that is the bundle's, if there is one. Raises ``BadArchive``."""
    with opened(archive, budget=budget) as members:
        found = [member.path.parent for member in members if member.path.name == MANIFEST]
    return min(found, key=lambda path: (len(path.parts), path)) if found else None


def _keep(member: ArchiveMember, place: Path) -> bool:
    """Write a member that begins as an archive to a file; whether it does."""
    chunks = member.chunks()
    head = next(chunks, b"")
    if not (head.startswith(tuple(COMPRESSIONS)) or head[TAR_AT:].startswith(TAR)):
        return False
    with place.open("wb") as out:
        out.write(head)
        out.writelines(chunks)
    return True


def _below(top: PurePosixPath, path: PurePosixPath) -> PurePosixPath | None:
    return path.relative_to(top) if path.is_relative_to(top) else None
