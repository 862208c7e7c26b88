"""Signing a bundle, and asking for its signature: in its folder, and beside its archive."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from edgepack.bundles.archive import archive_of, holds_only, pack
from edgepack.bundles.manifest import MANIFEST, SIGNATURE, file_entry, open_bundle, write_manifest
from edgepack.bundles.provenance import is_about, provenance_file, restate
from edgepack.context import BuildContext
from edgepack.errors import OutputError, SignatureError, UsageError
from edgepack.files.store import written_beside
from edgepack.records.bundle import Bundle
from edgepack.signing.envelope import (
    begins_as_statement,
    is_of_another,
    kind_of_statement,
    open_statement,
    require_sealed,
    require_sealed_statement,
    sealed_digest,
    sealed_payload,
    sealed_statement,
)
from edgepack.signing.keys import PrivateKey, PublicKey
from edgepack.signing.statement import PREDICATE, require_statement_of, statement_of
from edgepack.terminal_text import foreign

SUFFIX = ".sigstore.json"
"""What the signature of a file is called, behind the file's own name."""


@dataclass(frozen=True, kw_only=True)
class Signed:
    """Files that a valid signature covers."""

    name: str
    files: int
    key: str
    """SHA-256 of the key's PEM."""


def signature_of(file: Path) -> Path:
    """Path of the signature of an archive or package."""
    return file.with_name(file.name + SUFFIX)


def sign_path(path: Path, key: PrivateKey, *, force: bool = False, context: BuildContext) -> list[Path]:
    """Sign a bundle's folder and, where its archive lies beside it, that as well; or sign any file. What was written.

    The archive is packed again, with the signature in it; provenance beside it then names the new archive. Raises ``BundleError`` for a damaged bundle, ``OutputError``
    where there is another signature already, or an archive or provenance of something else.
    """
    if path.is_file():
        return [sign_file(path, key, force=force)]
    bundle = open_bundle(path)
    path = bundle.directory
    archive, provenance = archive_of(path), provenance_file(path)
    for file in (archive, provenance):
        if file.is_file() and not force and is_of_another(signature_of(file), key.public):
            raise OutputError(f"{signature_of(file)} is another signer's", hint="--force replaces it")
    packed = archive.is_file()
    others = [archive] if packed and not holds_only(archive, bundle) else []
    others += [provenance] if packed and provenance.is_file() and not is_about(provenance, bundle) else []
    if others:
        raise OutputError(
            f"{' and '.join(map(str, others))}: not of this bundle, or of more than it",
            hint="put it elsewhere: beside a bundle that was updated or renamed lies what was there before",
        )
    made = [_put(path / SIGNATURE, sealed_statement(statement_of(bundle), key), force=force)]
    if packed:
        pack(bundle, archive, context=context)
        made += [archive, sign_file(archive, key)]
        if provenance.is_file():
            seen = {archive.name: archive, f"{bundle.name}/{MANIFEST}": path / MANIFEST}
            if left := restate(provenance, seen=_signed_beside(provenance, key.public) | seen):
                names = ", ".join(map(foreign, left[:5]))
                context.warn(f"left out of the provenance, since this key has not signed it: {names}")
            made += [provenance, sign_file(provenance, key)]
    return made


def _signed_beside(provenance: Path, key: PublicKey) -> dict[str, Path]:
    """Packages beside a provenance that are signed with the key, by their names."""
    signatures = provenance.parent.glob(f"*{SUFFIX}")
    files = (each.with_name(each.name.removesuffix(SUFFIX)) for each in signatures)
    return {each.name: each for each in files if each.is_file() and is_signed_file(each, key)}


def sign_bundle(bundle: Bundle, key: PrivateKey) -> None:
    """Put the signature into the folder of a bundle that is being made."""
    _put(bundle.directory / SIGNATURE, sealed_statement(statement_of(bundle), key), force=False)


def sign_copy(bundle: Bundle, key: PrivateKey) -> None:
    """Sign a copy of a bundle in which files were exchanged or added, as a program that refuses unsigned bundles wants it.

    Its manifest is written anew; that of ``bundle`` stays, and so do the files that the copy is linked to.
    """
    folder = bundle.directory
    for name in (MANIFEST, SIGNATURE):
        (folder / name).unlink(missing_ok=True)
    parts = {file["path"]: file["part"] for file in bundle.manifest["files"]}
    files = [
        file_entry(path, root=folder, part=parts.get(path.relative_to(folder).as_posix(), "runner"))
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    ]
    # A copy that is run by its library is called BUNDLE/LIBRARY.
    name = bundle.name.partition("/")[0]
    write_manifest(folder, {**bundle.manifest, "name": name, "files": files})
    sign_bundle(open_bundle(folder), key)


def sign_file(file: Path, key: PrivateKey, *, force: bool = True) -> Path:
    """Write the signature of an archive or package beside it; an in-toto statement is signed as such, in an envelope that holds it.

    Raises ``OutputError`` for the statement that the signature of a bundle is, by itself or as the bytes that are signed of it: nobody has
    looked at its files.
    """
    statement = kind_of_statement(file)
    if statement == PREDICATE or begins_as_statement(file):
        raise OutputError(
            f"{file} is what the signature of a bundle says, so it is not signed by itself",
            hint="edgepack sign BUNDLE compares the bundle's files and signs them",
        )
    sealed = sealed_digest(file, key) if statement is None else sealed_payload(file.read_bytes(), key)
    return _put(signature_of(file), sealed, force=force)


def _put(path: Path, content: bytes, *, force: bool) -> Path:
    if os.path.lexists(path) and not force and not (path.is_file() and path.read_bytes() == content):
        raise OutputError(f"{path} is another signature", hint="--force replaces it")
    with written_beside(path) as beside:
        beside.write_bytes(content)
    return path


def require_version(bundle: Bundle, least: str) -> None:
    """Raise ``SignatureError`` for a bundle that is older than ``least``, or does not say how old it is.

    Versions are numbers with dots, of which missing ones are 0. To be asked of what is signed: anyone can write a version.
    """
    said = str(bundle.manifest.get("version", ""))
    found = _numbers(said)
    if found is None:
        raise SignatureError(
            f"{bundle.name} says no version that can be compared: {said!r}",
            hint="--set package.version=1.2.0 gives a bundle one; then sign it again",
        )
    if found < (_numbers(least) or ()):
        raise SignatureError(
            f"{bundle.name} is version {said}, older than {least}",
            hint="someone may have put an old bundle in a new one's place: ask its sender",
        )


def require_name(bundle: Bundle, name: str) -> None:
    """Raise ``SignatureError`` for a bundle of another name: who signs several may have one of them put in another's place."""
    if bundle.name != name:
        raise SignatureError(
            f"this is {foreign(bundle.name)}, not {name}",
            hint="its signature is valid, but it is another bundle of the same key: ask its sender",
        )


def require_numbers(version: str) -> str:
    """Version as numbers; raises ``UsageError`` for a version that nothing can be compared with."""
    if _numbers(version) is None:
        raise UsageError(f"{version!r} is not a version of numbers and dots", hint="e.g. --min-version 1.2.0")
    return version


def _numbers(version: str) -> tuple[int, ...] | None:
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9}){0,9}", version):
        return None
    numbers = [int(part) for part in version.split(".")]
    return (*numbers, *[0] * (10 - len(numbers)))


def require_signed_file(file: Path, key: PublicKey, *, statement: str | None = None) -> bool:
    """Whether a file is signed beside it, as the kind of ``statement`` that it is read as, or as none. Raises ``SignatureError`` where that
    signature is not right.

    What was signed as one kind may say the words of another, too.
    """
    path = signature_of(file)
    if not os.path.lexists(path):
        return False
    if kind_of_statement(file) != statement:
        raise SignatureError(f"{file} is signed as something else than it lies there for")
    if statement is not None:
        require_sealed_statement(file, path, key)
    else:
        require_sealed(file, path, key)
    return True


def is_signed_file(file: Path, key: PublicKey) -> bool:
    """Whether a file is signed beside it with this key."""
    try:
        return require_signed_file(file, key, statement=kind_of_statement(file))
    except SignatureError:
        return False


def require_signed(bundle: Bundle, key: PublicKey, *, outside: bool = False) -> Signed:
    """Raise ``SignatureError`` where a bundle whose files were checked is not signed with this key.

    With ``outside`` the archive that it was unpacked from is: then it needs no signature inside, and one that is there has to be right.
    """
    path = bundle.directory / SIGNATURE
    if os.path.lexists(path):
        require_statement_of(bundle, open_statement(path, key))
    elif not outside:
        raise SignatureError(
            f"{bundle.name} is not signed: there is no {SIGNATURE} in it",
            hint="`edgepack sign BUNDLE --key KEY` signs it; who sent it may have taken the signature away",
        )
    return Signed(name=bundle.name, files=len(bundle.manifest["files"]) + 1, key=key.hint)
