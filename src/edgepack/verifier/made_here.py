"""Which bundles were made on this machine: their programs are its own, and run without being asked for."""

from contextlib import suppress

from edgepack.bundles.manifest import digest
from edgepack.context import BuildContext
from edgepack.files.store import Store
from edgepack.records.bundle import Bundle
from edgepack.verifier.confined.found import find_sandbox
from edgepack.verifier.run import BundleRunner

FOLDER = "made-here"
"""A file for each bundle, named by its digest; in it a line for each report of it that was written here: the report's SHA-256."""
FROM_STORE = "from-store"
"""An empty file for each report that came from a store whose secret is known here, named by the report's SHA-256."""


def remember(digest: str, *, report: str = "", store: Store) -> None:
    """Keep the digest of a bundle that was made here, and the SHA-256 of its report.

    A cache that cannot be written forgets it: nothing else fails.
    """
    with suppress(OSError):
        (store.root / FOLDER).mkdir(parents=True, exist_ok=True)
        with (store.root / FOLDER / digest).open("a", encoding="ascii") as kept:
            if report and report not in reports_of(digest, store=store):
                kept.write(f"{report}\n")


def reports_of(digest: str, *, store: Store) -> frozenset[str]:
    """The SHA-256 of each report of a bundle that was written here; of older bundles none is known."""
    with suppress(OSError, ValueError):
        return frozenset((store.root / FOLDER / digest).read_text(encoding="ascii").split())
    return frozenset()


def remember_from_store(report: str, *, store: Store) -> None:
    """Keep the SHA-256 of a report that came from a store whose secret is known here."""
    with suppress(OSError):
        (store.root / FROM_STORE).mkdir(parents=True, exist_ok=True)
        (store.root / FROM_STORE / report).touch()


def is_from_store(report: str, *, store: Store) -> bool:
    """Whether a report of this SHA-256 did."""
    return (store.root / FROM_STORE / report).is_file()


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
