"""What a build made, and the names that it has in the output."""

import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from edgepack.bundles.archive import archive_of
from edgepack.bundles.packages import require_unchanged
from edgepack.bundles.place import require_new
from edgepack.bundles.provenance import provenance_file
from edgepack.errors import OutputError, PluginError
from edgepack.files.store import sha256_of
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.records.report import Report
from edgepack.records.target import Target
from edgepack.signing.keys import PrivateKey
from edgepack.signing.signatures import sign_file, signature_of
from edgepack.toml_schema import parse_foreign, read_foreign
from edgepack.verifier.trusted_bundles import remember

REPORT = ".report.json"
MOST = 16 << 20
"""Bytes that a report may have; edgepack's own have some thousands."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Result of a build: the bundle, its report, and the files that were written."""

    bundle: Bundle
    report: Report
    report_file: Path
    target: Target

    @property
    def sent(self) -> tuple[Path, ...]:
        """Archive, packages, and what says where they come from."""
        archive = archive_of(self.bundle.directory)
        packages = (archive.with_name(package.file) for package in self.report.packages)
        return (archive, provenance_file(self.bundle.directory), *packages)


def report_file_of(directory: Path) -> Path:
    """Path of a bundle's report: beside the bundle, so that it is no part of what devices get."""
    return directory.with_name(directory.name + REPORT)


def files_beside(directory: Path) -> tuple[Path, ...]:
    """Archive, provenance and report: what lies beside every bundle. Packages come to that."""
    return archive_of(directory), provenance_file(directory), report_file_of(directory)


def require_no_other(files: Iterable[Path], *, force: bool) -> None:
    """Raise ``OutputError`` where one of the files, or its signature, is there and may not be replaced."""
    for path in files:
        require_new(path, force=force)
        require_new(signature_of(path), force=force)


def require_own(packages: Iterable[Path], directory: Path) -> None:
    """Raise ``OutputError`` where a package that is to be replaced belongs to another bundle, whose report beside it names it."""
    there = {file.name for file in packages if os.path.lexists(file)}
    if not there:
        return
    for report in sorted(directory.parent.glob(f"*{REPORT}")):
        both = there & _packages_named(report) if report != report_file_of(directory) else set()
        if both:
            raise OutputError(
                f"{directory.with_name(min(both))} is that of {report.name.removesuffix(REPORT)}, so it is not replaced",
                hint="give one of the two another output folder",
            )


def _packages_named(report: Path) -> set[str]:
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {each["file"] for each in parse_foreign(read_foreign(report, most=MOST)).get("packages", ())}
    return set()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def withdrawn(files: Iterable[Path], directory: Path) -> Iterator[None]:
    """Put aside what lies beside a bundle that is about to be replaced, and back where the block fails and that bundle is still there.

    After a kill, too, none of it is beside another bundle; the next build removes it (``placed_beside``).
    """
    before = _identity(directory)
    aside: list[tuple[Path, Path]] = []
    try:
        for path in (each for file in files for each in (file, signature_of(file))):
            if path.is_symlink() or path.is_file():
                aside.append((path, path.with_name(f".{path.name}-{secrets.token_hex(4)}")))
                path.rename(aside[-1][1])
        yield
    except BaseException:
        for path, place in aside:
            if os.path.lexists(place):
                place.rename(path) if _identity(directory) == before else place.unlink()
        raise
    for _, place in aside:
        place.unlink(missing_ok=True)


def hand_over(outcome: Outcome, key: PrivateKey | None, context: HostContext) -> None:
    """Sign what is sent, remember the bundle as made here, and tell plugins of it. Raises ``PluginError`` for one that changes it."""
    if key is not None:
        for file in (*outcome.sent, outcome.report_file):
            sign_file(file, key)
    remember(outcome.report.digest, report=sha256_of(outcome.report_file), store=context.store)
    for plugin, tell in context.plugins().told_when_written():
        with _unchanged_by(plugin, outcome):
            tell(outcome.bundle, outcome.report)


@contextmanager
def _unchanged_by(plugin: str, outcome: Outcome) -> Iterator[None]:
    """Guard around a plugin's hook: a file that the hook changed loses its name. Raises ``PluginError``."""
    before = {file: sha256_of(file) for file in (outcome.report_file, *outcome.sent)}
    try:
        yield
    finally:
        changed = [file for file, digest in before.items() if file.is_file() and sha256_of(file) != digest]
        words = f"{changed[0].name} is another file now" if changed else ""
        try:
            require_unchanged(outcome.bundle, plugin, "edgepack_bundle_written")
        except PluginError as error:
            changed.append(outcome.bundle.directory)
            words = error.message.partition("edgepack_bundle_written: ")[2]
        if changed:
            aside = ", ".join(path.name for path in _set_aside(changed, plugin)) or "nothing"
            raise PluginError(
                f"plugin {plugin} changed the bundle in edgepack_bundle_written: {words}",
                hint=f"do not ship it (it is now {aside}): build it again without that plugin (EDGEPACK_DISABLE_PLUGINS)",
            )


def _set_aside(changed: Sequence[Path], plugin: str) -> Iterator[Path]:
    """Move changed files away, under names that say so: nobody takes them for what was verified."""
    for path in changed:
        names = (path.with_name(f"{path.name}.changed-by-{plugin}{at or ''}") for at in count())
        aside = next(name for name in names if not os.path.lexists(name))
        if os.path.lexists(path):
            path.rename(aside)
            yield aside
