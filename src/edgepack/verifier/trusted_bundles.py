"""Which bundles were made on this machine: their programs are its own, and run without being asked for."""

import os
from contextlib import suppress
from typing import Final, Literal

from edgepack.bundles.manifest import digest
from edgepack.context import BuildContext
from edgepack.files.owners import is_ours
from edgepack.files.store import Store
from edgepack.records.bundle import Bundle
from edgepack.verifier.confined.found import find_sandbox
from edgepack.verifier.run import BundleRunner

FOLDER = "made-here"
"""A file for each bundle, named by its digest; in it a line for each report of it that was written here: the report's SHA-256."""
FROM_STORE: Final = "from-store"
"""Reports that came from a store whose secret is known here."""
DEVICE_RECORDS: Final = "device-records"
"""Records of devices that were written here, and proofs on devices (``proof_at``)."""
PROJECT_BUILDS: Final = "project-builds"
"""What is remembered of a project's bundle beside it (``project/state_file.py``): anybody may write such a file."""
Kind = Literal["from-store", "device-records", "project-builds"]
"""Of what has an empty file each, named by its SHA-256."""


def remember(digest: str, *, report: str = "", store: Store) -> None:
    """Keep the digest of a bundle that was made here, and the SHA-256 of its report.

    A cache that cannot be written forgets it: nothing else fails.
    """
    with suppress(OSError):
        new = report and report not in reports_of(digest, store=store)
        _keep(store, FOLDER, digest, line=f"{report}\n" if new else "")


def reports_of(digest: str, *, store: Store) -> frozenset[str]:
    """The SHA-256 of each report of a bundle that was written here; of older bundles none is known."""
    if not is_made_here(digest, store=store):
        return frozenset()
    with suppress(OSError, ValueError):
        return frozenset((store.root / FOLDER / digest).read_text(encoding="ascii").split())
    return frozenset()


def keep(kind: Kind, sha256: str, *, store: Store) -> None:
    """Keep that this counts here, as ``remember`` does of a bundle."""
    with suppress(OSError):
        _keep(store, kind, sha256)


def is_kept(kind: Kind, sha256: str, *, store: Store) -> bool:
    """Whether this user or root has kept it."""
    file = store.root / kind / sha256
    return file.is_file() and is_ours(file, below=store.root)


def _keep(store: Store, folder: str, name: str, *, line: str = "") -> None:
    """Write a file that nobody else may write, whatever the umask. In a folder where others may lay links, nothing is written: what
    they may have written does not count."""
    kept = store.root / folder
    store.root.mkdir(parents=True, exist_ok=True)
    kept.mkdir(mode=0o755, exist_ok=True)
    if not kept.is_symlink() and kept.stat().st_uid == os.geteuid():
        kept.chmod(0o755)
    if not is_ours(kept, below=store.root):
        return
    descriptor = os.open(kept / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o644)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        if os.fstat(descriptor).st_uid == os.geteuid():
            os.fchmod(descriptor, 0o644)
        file.write(line)


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
        if sandbox is not None:
            context.note(f"in a sandbox ({sandbox.kind})")
        else:  # said before it runs: what has done its work may fail, and notes are of what ended well
            tried = (
                "user namespaces do not work"
                if os.geteuid() == 0
                else "neither user namespaces nor bwrap works"
            )
            context.warn(f"{bundle.name} runs WITHOUT A SANDBOX, with all your rights: {tried} here")
    return BundleRunner(context=context, trusted=trusted)
