"""An archive of unknown soundness laid out on disk: inside one folder and nowhere else."""

import errno
import os
import stat
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from edgepack.files.archives import ArchiveMember, BadArchive, Budget, Kind, inside, opened, outside
from edgepack.files.store import disk_errors

FILES: tuple[Kind, ...] = ("file",)
Where = Callable[[PurePosixPath], "PurePosixPath | None"]
"""Where a member of this path goes below the folder, or None for one that is not wanted."""

_MISPLACED = (errno.EEXIST, errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)


def unpack(
    archive: Path,
    folder: Path,
    *,
    where: Where = lambda path: path,
    kinds: Collection[Kind] = FILES,
    executables: bool = False,
    onto: bool = False,
    budget: Budget | None = None,
) -> None:
    """Lay the wanted members out below a folder, which is made; folders are made as files need them.

    ``kinds`` of members other than these (and folders) are refused; no link may lead out of the folder. Modes are 0644,
    and 0755 for folders, and for programs where ``executables`` are kept. What an earlier archive left is replaced only with ``onto``.
    Raises ``BadArchive``, ``OutputError`` or ``DiskFullError``; what was laid out until then stays.
    """
    with disk_errors(folder), opened(archive, budget=budget) as members:
        folder.mkdir(parents=True, exist_ok=True)
        layout = _Layout(root=Path(os.path.realpath(folder)), where=where, executables=executables, onto=onto)
        for member in members:
            place = where(member.path)
            if place is None or member.kind == "folder":
                continue
            if member.kind not in kinds:
                raise BadArchive(
                    f"it holds a link or device: {str(member.path)!r}",
                    hint="only plain files are taken" if kinds == FILES else "do not trust this archive",
                )
            layout.lay(member, place)
        layout.check_links()
        layout.settle_folders()


@dataclass(frozen=True, kw_only=True)
class _Layout:
    """The folder while it is filled. Folders in it are never removed, links may be replaced (``onto``)."""

    root: Path
    where: Where
    executables: bool
    onto: bool
    laid: set[PurePosixPath] = field(default_factory=set)
    links: list[Path] = field(default_factory=list)
    real_folders: set[Path] = field(default_factory=set)
    """Without a link on the way to them; so they stay."""

    def lay(self, member: ArchiveMember, path: PurePosixPath) -> None:
        if not path.parts:
            raise BadArchive(f"it holds {str(member.path)!r} where it cannot be")
        if path in self.laid:
            raise BadArchive(f"it holds {str(member.path)!r} twice")
        self.laid.add(path)
        place = self.root / path
        try:
            self._require_inside(place.parent, member)
            place.parent.mkdir(parents=True, exist_ok=True)
            if self.onto:
                place.unlink(missing_ok=True)
            if member.kind == "link":
                self._link(member, place)
            elif member.kind == "hard link":
                self._hard_link(member, place)
            else:
                self._write(member, place)
        except OSError as error:
            if error.errno not in _MISPLACED:
                raise
            if error.errno in (errno.EEXIST, errno.EISDIR, errno.ENOTDIR):
                raise BadArchive(f"it holds {str(member.path)!r} twice, or below a file") from error
            raise BadArchive(f"it holds {str(member.path)!r} where it cannot be") from error

    def check_links(self) -> None:
        """A link that led inside when it was made may lead elsewhere by one that was made later."""
        for place in self.links:
            if not self._holds(os.path.realpath(place)):
                raise outside(place.name)

    def settle_folders(self) -> None:
        """0755, whatever the umask made of those that lead to what was laid out."""
        for folder in {parent for path in self.laid for parent in path.parents}:
            if not (self.root / folder).is_symlink():
                (self.root / folder).chmod(0o755)

    def _holds(self, place: str) -> bool:
        return Path(place).is_relative_to(self.root)

    def _require_inside(self, folder: Path, member: ArchiveMember) -> None:
        if folder in self.real_folders:
            return
        real = os.path.realpath(folder)
        if not self._holds(real):
            raise outside(str(member.path))
        if real == str(folder):
            self.real_folders.add(folder)

    def _link(self, member: ArchiveMember, place: Path) -> None:
        if Path(member.link).is_absolute() or not self._holds(os.path.realpath(place.parent / member.link)):
            raise BadArchive(
                f"it holds a link that leads out of it: {place.name} -> {member.link}",
                hint="do not trust this archive",
            )
        place.symlink_to(member.link)
        self.links.append(place)

    def _hard_link(self, member: ArchiveMember, place: Path) -> None:
        path = self.where(inside(member.link))
        if path is None or path not in self.laid:
            raise BadArchive(f"it links {str(member.path)!r} to {member.link!r}, which is no file of it")
        original = self.root / path
        self._require_inside(original.parent, member)
        if not stat.S_ISREG(original.lstat().st_mode):
            raise BadArchive(f"it links {str(member.path)!r} to {member.link!r}, which is no file")
        place.hardlink_to(original)

    def _write(self, member: ArchiveMember, place: Path) -> None:
        with place.open("xb") as out:
            for chunk in member.chunks():
                out.write(chunk)
        place.chmod(0o755 if self.executables and member.executable else 0o644)
