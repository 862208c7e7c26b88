"""Which bundles were made on this machine: their programs are its own, and run without being asked for."""

from contextlib import suppress

from edgepack.bundles.manifest import digest
from edgepack.context import BuildContext
from edgepack.files.store import Store
from edgepack.records.bundle import Bundle
from edgepack.verifier.confined.found import find_sandbox
from edgepack.verifier.run import BundleRunner

FOLDER = "made-here"


def remember(digest: str, *, store: Store) -> None:
    """Keep the digest of a bundle that was made here. A cache that cannot be written forgets it: nothing else fails."""
    with suppress(OSError):
        (store.root / FOLDER).mkdir(parents=True, exist_ok=True)
        (store.root / FOLDER / digest).touch()


def is_made_here(digest: str, *, store: Store) -> bool:
    """Whether a bundle of this digest was."""
    return (store.root / FOLDER / digest).is_file()


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
