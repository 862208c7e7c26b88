"""Which bundles were made on this machine: their programs are its own, and run without being asked for."""

import os
from contextlib import suppress
from pathlib import Path

from edgepack.bundles.manifest import digest
from edgepack.context import BuildContext
from edgepack.files.owners import is_ours
from edgepack.files.store import Store
from edgepack.records.bundle import Bundle
from edgepack.verifier.confined.found import find_sandbox
from edgepack.verifier.run import BundleRunner

FOLDER = "made-here"
"""A file for each bundle, named by its digest; in it a line for each report of it that was written here: the report's SHA-256."""
FROM_STORE = "from-store"
"""An empty file for each report that came from a store whose secret is known here, named by the report's SHA-256."""
DEVICE_RECORDS = "device-records"
"""An empty file for each record of devices that was written here, and for each proof on one, named by its SHA-256."""


def remember(digest: str, *, report: str = "", store: Store) -> None:
    """Keep the digest of a bundle that was made here, and the SHA-256 of its report.

    A cache that cannot be written forgets it: nothing else fails.
    """
    with suppress(OSError):
        known = reports_of(digest, store=store)
        with _kept(store, FOLDER, digest).open("a", encoding="ascii") as kept:
            if report and report not in known:
                kept.write(f"{report}\n")


def reports_of(digest: str, *, store: Store) -> frozenset[str]:
    """The SHA-256 of each report of a bundle that was written here; of older bundles none is known."""
    if not is_made_here(digest, store=store):
        return frozenset()
    with suppress(OSError, ValueError):
        return frozenset((store.root / FOLDER / digest).read_text(encoding="ascii").split())
    return frozenset()


def remember_from_store(report: str, *, store: Store) -> None:
    """Keep the SHA-256 of a report that came from a store whose secret is known here."""
    with suppress(OSError):
        _kept(store, FROM_STORE, report)


def is_from_store(report: str, *, store: Store) -> bool:
    """Whether a report of this SHA-256 did."""
    file = store.root / FROM_STORE / report
    return file.is_file() and is_ours(file, below=store.root)


def remember_device_record(sha256: str, *, store: Store) -> None:
    """Keep the SHA-256 of a record of devices that was written here, or of a proof (``proof_at``)."""
    with suppress(OSError):
        _kept(store, DEVICE_RECORDS, sha256)


def is_own_device_record(sha256: str, *, store: Store) -> bool:
    """Whether a record of this SHA-256 was."""
    file = store.root / DEVICE_RECORDS / sha256
    return file.is_file() and is_ours(file, below=store.root)


def _kept(store: Store, folder: str, name: str) -> Path:
    """A file that nobody else may write, whatever the umask: what others may have written does not count."""
    file = store.root / folder / name
    store.root.mkdir(parents=True, exist_ok=True)
    file.parent.mkdir(mode=0o755, exist_ok=True)
    os.close(os.open(file, os.O_WRONLY | os.O_CREAT, 0o644))
    if file.parent.stat().st_uid == os.geteuid():
        file.parent.chmod(0o755)
    if file.stat().st_uid == os.geteuid():
        file.chmod(0o644)
    return file


def is_made_here(digest: str, *, store: Store) -> bool:
    """Whether a bundle of this digest was, by this user or root: what others may have written into the cache does not count."""
    file = store.root / FOLDER / digest
    return file.is_file() and is_ours(file, below=store.root)


def may_run(bundle: Bundle, *, asked: bool, context: BuildContext) -> bool:
    """Whether a bundle's program may be run: it was made here, or the user asked for it.

    The bundle's files have to be checked before (``open_bundle``): the digest says what they are then.
    """
    return asked or is_made_here(digest(bundle), store=context.store)


def runner_for(bundle: Bundle, context: BuildContext) -> BundleRunner:
    """Within limits, and in a sandbox where this host has one. What devices have beside the bundle is shown where it was made here."""
    trusted = may_run(bundle, asked=False, context=context)
    sandbox = find_sandbox()
    if not trusted:
        context.note(
            f"in a sandbox ({sandbox.kind})"
            if sandbox
            else "WITHOUT A SANDBOX: neither user namespaces nor bwrap works here"
        )
    return BundleRunner(context=context, trusted=trusted)
