"""Which bundles were made on this machine: their programs are its own, and run without being asked for."""

from contextlib import suppress

from edgepack.bundles.manifest import digest
from edgepack.context import BuildContext
from edgepack.files.owners import is_ours
from edgepack.files.store import Store
from edgepack.records.bundle import Bundle
from edgepack.verifier.run import BundleRunner
from edgepack.verifier.sandbox import find_sandbox

FOLDER = "made-here"


def remember(digest: str, *, store: Store) -> None:
    """Keep the digest of a bundle that was made here. A cache that cannot be written forgets it: nothing else fails."""
    with suppress(OSError):
        (store.root / FOLDER).mkdir(parents=True, exist_ok=True)
        (store.root / FOLDER / digest).touch()


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
    """As any program where the bundle was made here; limited, and in a sandbox where this host has one, where it was not."""
    if may_run(bundle, asked=False, context=context):
        return BundleRunner(context=context)
    sandbox = find_sandbox(context)
    context.note(
        f"in a sandbox ({sandbox.kind})"
        if sandbox
        else "WITHOUT A SANDBOX: neither bwrap nor unshare works here"
    )
    return BundleRunner(context=context, sandbox=sandbox, limited=True)
