"""in-toto's own libraries, on the record of devices: the statement, and its signature in the DSSE envelope."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey
from tests.support.device_records import result
from tests.support.signed import key_in, write_small_bundle

from edgepack.bundles.manifest import digest, open_bundle
from edgepack.device.record import PREDICATE, record_file_of, write_record
from edgepack.files.store import Store
from edgepack.signing.keys import PrivateKey
from edgepack.signing.signatures import signature_of


@pytest.fixture
def made(tmp_path: Path) -> tuple[Path, PrivateKey, str]:
    """A signed record, its key, and the digest of its bundle."""
    bundle = open_bundle(write_small_bundle(tmp_path / "bundle"))
    key = key_in(tmp_path)
    file = record_file_of(bundle.directory, bundle.name)
    write_record(file, bundle, [result()], key=key, store=Store(root=tmp_path / "store"))
    return file, key, digest(bundle)


def envelope_of(file: Path) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(signature_of(file).read_text())["dsseEnvelope"]
    return said


def key_of(key: PrivateKey) -> SSlibKey:
    found = SSlibKey.from_crypto(key.public.key)
    # The envelope names no key: the file around it does.
    return SSlibKey("", found.keytype, found.scheme, found.keyval)


def test_the_statement_is_valid(made: tuple[Path, PrivateKey, str]) -> None:
    file, _, named = made
    said = json_format.ParseDict(json.loads(file.read_text()), statement_pb2.Statement())
    Statement.copy_from_pb(said).validate()
    assert said.predicate_type == PREDICATE
    assert said.subject[0].digest["sha256"] == named
    # The judge can say no.
    said.ClearField("subject")
    with pytest.raises(ValueError, match="subject"):
        Statement.copy_from_pb(said).validate()


def test_the_signature_is_valid(tmp_path: Path, made: tuple[Path, PrivateKey, str]) -> None:
    file, key, _ = made
    envelope = Envelope.from_dict(envelope_of(file))
    assert len(envelope.verify([key_of(key)], 1)) == 1
    assert envelope.payload == file.read_bytes()
    with pytest.raises(VerificationError):
        envelope.verify([key_of(key_in(tmp_path, "other"))], 1)


@pytest.mark.parametrize("old", ["pi4", "0.998", "aarch64", '"passed"', "glibc 2.36"])
def test_another_record_in_the_envelope_is_not(old: str, made: tuple[Path, PrivateKey, str]) -> None:
    file, key, _ = made
    content = file.read_bytes()
    changed = content.replace(old.encode(), old.encode()[::-1], 1)
    assert changed != content
    said = {**envelope_of(file), "payload": base64.b64encode(changed).decode()}
    with pytest.raises(VerificationError):
        Envelope.from_dict(said).verify([key_of(key)], 1)
