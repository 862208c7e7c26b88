"""A bundle that lies on a device: sent into a new folder, compared with its manifest, and removed again."""

import hashlib
import re
import secrets
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from edgepack.bundles.archive import bundle_entries
from edgepack.bundles.manifest import LINK
from edgepack.context import BuildContext
from edgepack.device.session import Answer, Session
from edgepack.device.shell import NO_PLACE, NO_ROOM
from edgepack.errors import BundleError, DeviceError, DiskFullError, EdgepackError
from edgepack.files.archives import BadArchive, CheckedInfo
from edgepack.files.pack import write_tar
from edgepack.records.bundle import Bundle
from edgepack.tables import megabytes

LEAST, SLOWEST = 60, 64 << 10
"""Seconds, and bytes a second besides: what takes longer to send or to compare is given up."""
READ_BACK = "read back"


@dataclass(frozen=True, kw_only=True)
class Placed:
    """A bundle in a folder of a device."""

    session: Session
    directory: Path
    """The bundle's here."""
    folder: str
    files_by: str
    """What compared its files with the manifest."""


@contextmanager
def placed(bundle: Bundle, session: Session, *, context: BuildContext) -> Iterator[Placed]:
    """Send a bundle, compare its files there, and remove it when the block ends, however it ends.

    Raises ``DeviceError``, ``DiskFullError`` where the disk there is full, ``BundleError`` where files arrive as others.
    """
    size = sum(int(file["size"]) for file in bundle.manifest["files"])
    name = f"edgepack-{secrets.token_hex(8)}"
    folder = _made(session, name, size)
    try:
        _send(bundle, session, folder, size, context)
        files_by = _compare(bundle, session, folder, size)
        yield Placed(session=session, directory=bundle.directory, folder=folder, files_by=files_by)
    finally:
        _remove(session, folder, context)


def _made(session: Session, name: str, size: int) -> str:
    said = session.ask(session.shell.place(name, size), "a folder was made there")
    folder = said.text.strip()
    if said.code == NO_ROOM:
        raise DiskFullError(
            f"{session.at.id} has no folder with room for {megabytes(size)} MB",
            hint="make room there, or set TMPDIR there to a folder of a larger disk",
        )
    if said.code == NO_PLACE or not _is_ours(folder, name):
        raise DeviceError(
            f"{session.at.id} has no folder that can be written and whose programs run",
            hint="set TMPDIR there to one",
        )
    return folder


def _is_ours(folder: str, name: str) -> bool:
    """Whether a device answered with a folder of the name that it was given: what is removed at the end."""
    absolute = re.match(r"/|[A-Za-z]:\\", folder) is not None
    return absolute and len(folder) <= 500 and folder.isprintable() and re.split(r"[/\\]", folder)[-1] == name


def _send(bundle: Bundle, session: Session, folder: str, size: int, context: BuildContext) -> None:
    tar = context.work_dir / f"{Path(folder).name[-16:]}.tar"
    try:
        with tar.open("wb") as stream:
            # Without the folder itself, whose mode lets nobody else in.
            write_tar(stream, bundle_entries(bundle, top=".")[1:])
        with context.progress(f"send {megabytes(size)} MB to {session.at.id}"):
            said = session.ask(
                session.shell.unpack(folder), "the bundle was sent", input=tar, seconds=LEAST + size / SLOWEST
            )
    finally:
        tar.unlink(missing_ok=True)
    if said.code != 0:
        raise _not_unpacked(session, said)


def _not_unpacked(session: Session, said: Answer) -> EdgepackError:
    if re.search(r"no space left|disk full|not enough space|quota", said.messages, re.IGNORECASE):
        return DiskFullError(
            f"{session.at.id} has no space left on its disk",
            hint="make room there, or set TMPDIR there to a folder of a larger disk",
        )
    return DeviceError(
        f"{session.at.id} did not take the bundle: {said.last_words or f'tar ended with {said.code}'}",
        hint="it needs tar, as POSIX systems and Windows 10 have it",
    )


def _compare(bundle: Bundle, session: Session, folder: str, size: int) -> str:
    """Compare the placed files with the bundle's; the name of the tool that did. Raises ``BundleError`` for the first that differs.

    It finds what went wrong on the way, or on a worn disk; a device that lies it does not find.
    """
    wanted = {
        str(file["path"]): str(file["sha256"]) for file in bundle.manifest["files"] if file["mode"] != LINK
    }
    names, shell = list(wanted), session.shell
    answers = [
        session.ask(each, "its files were compared", seconds=LEAST + size / SLOWEST)
        for each in shell.digests(folder, names)
    ]
    found: Mapping[str, str] = shell.read_digests([each.text for each in answers], names)
    by = "certutil" if shell.windows else "sha256sum"
    if not found:
        found, by = _read_back(session, folder, size), READ_BACK
    for name, digest in wanted.items():
        if found.get(name) != digest:
            raise BundleError(
                f"{session.at.id}: {name} did not arrive as it was sent",
                hint="its disk or memory may be damaged: try another folder (TMPDIR there), then another card",
            )
    return by


def _read_back(session: Session, folder: str, size: int) -> dict[str, str]:
    said = session.ask(
        session.shell.read_back(folder),
        "its files were read back",
        seconds=LEAST + size / SLOWEST,
        most=2 * size + (1 << 20),
    )
    found: dict[str, str] = {}
    try:
        with tarfile.open(fileobj=BytesIO(said.output), mode="r:", tarinfo=CheckedInfo) as tar:
            for member in tar:
                # A few bytes may stand for a file with holes of any size; no file of a bundle has any.
                whole = member.isreg() and not member.issparse() and member.size <= len(said.output)
                stream = tar.extractfile(member) if whole else None
                if stream is not None:
                    found[member.name.removeprefix("./")] = hashlib.sha256(stream.read()).hexdigest()
    except (BadArchive, tarfile.TarError, ValueError, OSError, EOFError, RecursionError):
        return {}
    return found


def _remove(session: Session, folder: str, context: BuildContext) -> None:
    try:
        done = session.ask(session.shell.remove(folder), "the bundle was removed")
    except EdgepackError as error:
        context.warn(f"{folder} may still lie on {session.at.id}: {error.message}")
        return
    if done.code != 0:
        context.warn(f"{folder} still lies on {session.at.id}")
