"""Whose word it is: the one policy for what is shown as a result, and what only as its maker's word."""

from pathlib import Path

from edgepack.bundles.manifest import digest
from edgepack.files.store import Store
from edgepack.records.bundle import Bundle
from edgepack.records.word import HERE, MAKER, STORE, Word
from edgepack.signing.keys import PublicKey
from edgepack.signing.signatures import require_signed, require_signed_file
from edgepack.verifier.trusted_bundles import FROM_STORE, is_kept, is_made_here, reports_of


def word_of_bundle(
    bundle: Bundle, *, key: PublicKey | None = None, outside: bool = False, store: Store
) -> Word:
    """Whose word a bundle's manifest and golden vectors are; its files have to be checked before (``open_bundle``).

    With ``key`` a bundle that was not made here has to be signed with it, with ``outside`` its archive was. Raises ``SignatureError``.
    """
    if is_made_here(digest(bundle), store=store):
        return HERE
    if key is not None:
        return Word(whose="key", key=require_signed(bundle, key, outside=outside).key)
    return MAKER


def word_of_report(
    file: Path, *, bundle: str, sha256: str, key: PublicKey | None = None, store: Store
) -> Word:
    """Whose word a report is: ``sha256`` is its own, ``bundle`` the digest of what it is of.

    A report lies beside its bundle, so the bundle's signature does not cover it: its own does, if it has one. Raises
    ``SignatureError`` where that is not right.
    """
    if sha256 in reports_of(bundle, store=store):
        return HERE
    if is_kept(FROM_STORE, sha256, store=store):
        return STORE
    if key is not None and require_signed_file(file, key):
        return Word(whose="key", key=key.hint)
    return MAKER
