"""Signatures and keys of strangers, and what a signer may have signed. One key and one bundle, the same each time."""

import base64
import json
import tempfile
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from edgepack.bundles.manifest import SIGNATURE, open_bundle
from edgepack.records.bundle import Bundle
from edgepack.signing.envelope import (
    MEDIA_TYPE,
    PAYLOAD_TYPE,
    open_statement,
    pae,
    require_sealed,
    sealed_digest,
    sealed_statement,
)
from edgepack.signing.keys import PrivateKey, load_private, load_public
from edgepack.signing.statement import require_statement_of, statement_of
from tests.support.signed import write_small_bundle

KEY = PrivateKey(ec.derive_private_key(1 << 200, ec.SECP256R1()))


@cache
def bundle() -> Bundle:
    return open_bundle(write_small_bundle(Path(tempfile.mkdtemp()) / "sample"))


@cache
def statement() -> dict[str, Any]:
    return statement_of(bundle())


def seeds() -> dict[str, bytes]:
    """A sound file for each reader."""
    private = KEY.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return {
        SIGNATURE: sealed_statement(statement(), KEY),
        "statement.json": json.dumps(statement()).encode(),
        "archive.sigstore.json": sealed_digest(bundle().directory / "embed", KEY),
        "team.pub": KEY.public.pem,
        "team.key": private,
    }


def read_signature(file: Path) -> None:
    """What is accepted is what was signed."""
    assert open_statement(file, KEY.public) == statement()


def read_statement(file: Path) -> None:
    """A signed one, whatever is in it: accepted where it is of this bundle."""
    payload = file.read_bytes()
    signature = {"sig": base64.b64encode(KEY.sign(sha256(pae(payload)).digest())).decode()}
    envelope = {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [signature],
    }
    document = {
        "mediaType": MEDIA_TYPE,
        "verificationMaterial": {"publicKey": {}},
        "dsseEnvelope": envelope,
    }
    file.write_text(json.dumps(document))
    require_statement_of(bundle(), open_statement(file, KEY.public))


READERS = {
    SIGNATURE: read_signature,
    "statement.json": read_statement,
    "archive.sigstore.json": lambda file: require_sealed(bundle().directory / "embed", file, KEY.public),
    "team.pub": load_public,
    "team.key": lambda file: load_private(file, password=b"secret"),
}
