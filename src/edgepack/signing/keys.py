"""Keys: ECDSA on the curve P-256, in PEM, as openssl, model-signing and cosign read them."""

from __future__ import annotations

import base64
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgepack.errors import OutputError, SignatureError, UsageError
from edgepack.files.store import disk_errors

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey

PRIVATE, PUBLIC = ".key", ".pub"
MOST = 64 << 10
"""Bytes that the file of a key may have."""
HOW = "`edgepack keys new NAME` makes a pair, or `openssl ecparam -name prime256v1 -genkey`"


@dataclass(frozen=True)
class PublicKey:
    """A key that signatures are checked with."""

    key: EllipticCurvePublicKey

    @property
    def pem(self) -> bytes:
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        return self.key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    @property
    def hint(self) -> str:
        """How model-signing names a key: SHA-256 of its PEM, hexadecimal."""
        return hashlib.sha256(self.pem).hexdigest()

    @property
    def cosign_hint(self) -> str:
        """How cosign names a key: SHA-256 of its DER, in base64."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        der = self.key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return base64.b64encode(hashlib.sha256(der).digest()).decode()

    def verifies(self, signature: bytes, digest: bytes) -> bool:
        """Whether this key's owner signed what has that SHA-256; the signature is in DER."""
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
        from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
        from cryptography.hazmat.primitives.hashes import SHA256

        try:
            self.key.verify(signature, digest, ECDSA(Prehashed(SHA256())))
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True)
class PrivateKey:
    """Private key, which makes signatures."""

    key: EllipticCurvePrivateKey

    @property
    def public(self) -> PublicKey:
        return PublicKey(self.key.public_key())

    def sign(self, digest: bytes) -> bytes:
        """In DER, of a message's SHA-256; the same bytes for the same message (RFC 6979)."""
        from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
        from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
        from cryptography.hazmat.primitives.hashes import SHA256

        return self.key.sign(digest, ECDSA(Prehashed(SHA256()), deterministic_signing=True))


def new_keys(name: Path, *, password: bytes | None) -> tuple[Path, Path]:
    """Write ``NAME.key``, which only its owner may read, and ``NAME.pub``; raises ``OutputError`` where one is there already."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key

    if not name.name:
        raise UsageError(f"{name} is no name for a key", hint="e.g. edgepack keys new team")
    private, public = (name.with_name(name.name + suffix) for suffix in (PRIVATE, PUBLIC))
    key = generate_private_key(SECP256R1())
    sealed = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, sealed)
    for path in (private, public):
        if os.path.lexists(path):
            raise OutputError(
                f"{path} exists already, and keys are never replaced", hint="name another, or move it away"
            )
    if not private.parent.is_dir():
        raise OutputError(f"there is no folder {private.parent}", hint="make it, or name another")
    try:
        with disk_errors(private):
            _write_new(private, secret, 0o600)
            _write_new(public, PublicKey(key.public_key()).pem, 0o644)
    except OSError as error:
        raise OutputError(f"cannot write {private}: {error.strerror}", hint="name another folder") from error
    return private, public


def _write_new(path: Path, content: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as stream:
        os.fchmod(descriptor, mode)
        stream.write(content)


def load_private(path: Path, *, password: bytes | None) -> PrivateKey:
    """A private key in PEM. Raises ``UsageError`` for what is none, is not of P-256, or wants another password."""
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    content = _read(path)
    if password is None and is_sealed(content):
        raise UsageError(
            f"{path} has a password",
            hint="put it into EDGEPACK_KEY_PASSWORD, or --key-password-env names another",
        )
    try:
        key = load_pem_private_key(content, password if is_sealed(content) else None)
    except Exception as error:
        why = "its password is another one" if is_sealed(content) else "it is no private key in PEM"
        raise UsageError(f"{path} cannot be used to sign: {why}", hint=HOW) from error
    if not isinstance(key, EllipticCurvePrivateKey) or not isinstance(key.curve, SECP256R1):
        raise UsageError(f"{path} is not a key of the curve P-256", hint=HOW)
    return PrivateKey(key)


def is_sealed(content: bytes) -> bool:
    """Whether a private key in PEM wants a password."""
    return b"ENCRYPTED" in content


def load_public(path: Path) -> PublicKey:
    """A public key in PEM. Raises ``UsageError`` for what is none, or is not of P-256."""
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    content = _read(path)
    if b"PRIVATE KEY" in content:
        raise UsageError(
            f"{path} is a private key", hint=f"signatures are checked with the public one, NAME{PUBLIC}"
        )
    try:
        key = load_pem_public_key(content)
    except Exception as error:
        raise UsageError(f"{path} is no public key in PEM", hint=HOW) from error
    if not isinstance(key, EllipticCurvePublicKey) or not isinstance(key.curve, SECP256R1):
        raise UsageError(f"{path} is not a key of the curve P-256", hint=HOW)
    return PublicKey(key)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            content = stream.read(MOST + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint=HOW) from error
    if len(content) > MOST:
        raise UsageError(f"{path} is too large for a key", hint=HOW)
    return content


def require_hint(hint: object, key: PublicKey, *, where: Path) -> None:
    """Raise ``SignatureError`` where a signature says that another key made it; what says nothing may be of any."""
    if hint not in (None, "", key.hint, key.cosign_hint):
        raise SignatureError(
            f"{where} was made with another key, {str(hint)[:12]}…",
            hint=f"this one is {key.hint[:12]}…; take bundles only from whom you trust",
        )
