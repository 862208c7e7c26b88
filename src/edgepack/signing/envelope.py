"""A signature's file: a Sigstore bundle (v0.3) around a DSSE envelope with a statement, or around a file's digest."""

import base64
import binascii
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgepack.errors import SignatureError
from edgepack.files.store import inflated, sha256_of
from edgepack.signing.keys import PrivateKey, PublicKey, require_hint

MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
DSSE = b"DSSEv1 "
MOST = 16 << 20
"""Bytes that a signature's file may have; those of bundles have some thousands."""


def pae(payload: bytes) -> bytes:
    """Bytes that are signed for a payload: DSSE's pre-authentication encoding."""
    return b"%s%d %s %d %s" % (DSSE, len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload)


def _digest_of(payload: bytes) -> bytes:
    return hashlib.sha256(pae(payload)).digest()


def begins_as_statement(file: Path) -> bool:
    """Whether a file may be what is signed for a payload: the signature of its content would be one of the payload."""
    with file.open("rb") as stream:
        return stream.read(len(DSSE)) == DSSE


def sealed_statement(statement: Mapping[str, Any], key: PrivateKey) -> bytes:
    """The file with a signed in-toto statement."""
    return sealed_payload(json.dumps(statement, indent=1, ensure_ascii=False).encode(), key)


def kind_of_statement(file: Path) -> str | None:
    """Its predicate's type where a file is an in-toto statement itself, e.g. of where a bundle comes from; ``None`` for any other file."""
    if file.suffix != ".json" or file.stat().st_size > MOST:
        return None
    try:
        document = json.loads(file.read_bytes())
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or not str(document.get("_type")).startswith(
        "https://in-toto.io/Statement/"
    ):
        return None
    return str(document.get("predicateType"))


def sealed_payload(payload: bytes, key: PrivateKey) -> bytes:
    """The file with a signed in-toto statement, given as its bytes."""
    envelope = {
        "payload": _base64(payload),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [{"sig": _base64(key.sign(_digest_of(payload))), "keyid": ""}],
    }
    return _file(key.public.hint, {"dsseEnvelope": envelope})


def open_statement(path: Path, key: PublicKey) -> dict[str, Any]:
    """The statement in a signature's file. Raises ``SignatureError`` where it is not there, or not signed with this key."""
    return _parse(_open_payload(path, key), path)


def require_sealed_statement(file: Path, path: Path, key: PublicKey) -> None:
    """Raise ``SignatureError`` where ``path`` does not hold the very statement of ``file``, signed with this key."""
    if _open_payload(path, key) != file.read_bytes():
        raise _wrong(path, key, what=f", or {file.name} was changed")


def _open_payload(path: Path, key: PublicKey) -> bytes:
    document = _read(path)
    envelope = _member(document, "dsseEnvelope", dict, path)
    _require_key(document, key, path)
    if _member(envelope, "payloadType", str, path) != PAYLOAD_TYPE:
        raise SignatureError(f"{path} signs something else than an in-toto statement")
    payload = _bytes(envelope, "payload", path)
    signatures = _member(envelope, "signatures", list, path)
    if len(signatures) != 1 or not isinstance(signatures[0], dict):
        raise SignatureError(f"{path} has {len(signatures)} signatures instead of one")
    if not key.verifies(_bytes(signatures[0], "sig", path), _digest_of(payload)):
        raise _wrong(path, key)
    return payload


def sealed_digest(file: Path, key: PrivateKey) -> bytes:
    """The file with the signature of another file's content, as ``cosign sign-blob`` writes it."""
    digest = bytes.fromhex(sha256_of(file))
    message = {
        "messageDigest": {"algorithm": "SHA2_256", "digest": _base64(digest)},
        "signature": _base64(key.sign(digest)),
    }
    return _file(key.public.cosign_hint, {"messageSignature": message})


def require_sealed(file: Path, path: Path, key: PublicKey) -> None:
    """Raise ``SignatureError`` where ``path`` does not sign the content of ``file`` with this key."""
    document = _read(path)
    message = _member(document, "messageSignature", dict, path)
    _require_key(document, key, path)
    if odd := inflated([file]):
        raise SignatureError(f"{file} is too large for what is signed: {odd[1]}")
    if not key.verifies(_bytes(message, "signature", path), bytes.fromhex(sha256_of(file))):
        raise _wrong(path, key, what=f", or {file.name} was changed")


def is_signature(path: Path) -> bool:
    """Whether something lies there that may be a signature, whoever's: a link may be, a damaged file is none."""
    try:
        _read(path)
    except SignatureError:
        return path.is_symlink()
    return True


def is_of_another(path: Path, key: PublicKey) -> bool:
    """Whether something lies there that is not, by its own word, a signature by this key."""
    if not os.path.lexists(path):
        return False
    try:
        _require_key(_read(path), key, path)
    except SignatureError:
        return True
    return False


def _file(hint: str, content: Mapping[str, Any]) -> bytes:
    material = {"publicKey": {"hint": hint}, "tlogEntries": list[object]()}
    document = {"mediaType": MEDIA_TYPE, "verificationMaterial": material, **content}
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file() or path.is_symlink():
        raise SignatureError(f"{path} is not a file")
    with path.open("rb") as stream:
        content = stream.read(MOST + 1)
    if len(content) > MOST:
        raise SignatureError(f"{path} is too large for a signature: more than {MOST >> 20} MiB")
    document = _parse(content, path)
    if document.get("mediaType") != MEDIA_TYPE:
        raise SignatureError(
            f"{path} is no signature that is known here", hint=f"it has to be a Sigstore bundle, {MEDIA_TYPE}"
        )
    return document


def _parse(content: bytes, path: Path) -> dict[str, Any]:
    """A JSON object, no key twice in it: of two, each reader may take another."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a key is there twice")
        return found

    try:
        document = json.loads(content.decode(), object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise SignatureError(f"{path} cannot be read: {error}") from error
    if not isinstance(document, dict):
        raise SignatureError(f"{path} cannot be read: it is no JSON object")
    return document


def _member(document: Mapping[str, Any], name: str, kind: type, path: Path) -> Any:
    if not isinstance(document.get(name), kind):
        raise SignatureError(f"{path} has no {name}, or it is not what it should be")
    return document[name]


def _bytes(document: Mapping[str, Any], name: str, path: Path) -> bytes:
    """Bytes that are written in base64, in its one form: standard letters, padded, no bit too many."""
    written = _member(document, name, str, path)
    try:
        content = base64.b64decode(written, validate=True)
    except (binascii.Error, ValueError) as error:
        raise SignatureError(f"{path}: {name} is not in base64") from error
    if _base64(content) != written:
        raise SignatureError(f"{path}: {name} is not in base64")
    return content


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _require_key(document: Mapping[str, Any], key: PublicKey, path: Path) -> None:
    named = _member(document, "verificationMaterial", dict, path).get("publicKey")
    if not isinstance(named, dict):
        raise SignatureError(
            f"{path} was not made with a key of its signer's own",
            hint="certificates of Sigstore's public service are not looked at here; cosign and model_signing do that",
        )
    require_hint(named.get("hint"), key, where=path)


def _wrong(path: Path, key: PublicKey, what: str = "") -> SignatureError:
    return SignatureError(
        f"{path} is not signed with the key {key.hint[:12]}…{what}",
        hint="do not use the bundle: fetch it again, and ask its sender which key is theirs",
    )
