"""Keys: made once, never replaced, and of one kind."""

import os
import stat
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from edgepack.errors import OutputError, UsageError
from edgepack.signing.keys import PrivateKey, load_private, load_public, new_keys

MESSAGE = sha256(b"message").digest()


def test_a_private_key_is_its_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        private, public = new_keys(tmp_path / "team", password=None)
    finally:
        os.umask(old)
    assert (private.name, public.name) == ("team.key", "team.pub")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (private, public)] == [0o600, 0o644]


def test_a_signature_is_the_same_each_time_and_its_own_keys(tmp_path: Path) -> None:
    one, other = (load_private(new_keys(tmp_path / name, password=None)[0], password=None) for name in "ab")
    signature = one.sign(MESSAGE)
    assert signature == one.sign(MESSAGE)
    assert one.public.verifies(signature, MESSAGE)
    assert not one.public.verifies(signature, sha256(b"messagf").digest())
    assert not other.public.verifies(signature, MESSAGE)
    assert not one.public.verifies(signature[:-1], MESSAGE)


def test_a_sealed_key_wants_its_password(tmp_path: Path) -> None:
    private, _ = new_keys(tmp_path / "team", password=b"secret")
    load_private(private, password=b"secret")
    with pytest.raises(UsageError, match="has a password"):
        load_private(private, password=None)
    with pytest.raises(UsageError, match="its password is another one"):
        load_private(private, password=b"other")


@pytest.mark.parametrize("there", ["team.key", "team.pub"])
def test_keys_are_never_replaced(tmp_path: Path, there: str) -> None:
    (tmp_path / there).write_text("something")
    with pytest.raises(OutputError, match=f"{there} exists already"):
        new_keys(tmp_path / "team", password=None)
    assert [path.name for path in tmp_path.iterdir()] == [there]
    assert (tmp_path / there).read_text() == "something"


def test_keys_go_into_a_folder_that_is_there(tmp_path: Path) -> None:
    for folder in (tmp_path / "nowhere", Path("/proc")):
        with pytest.raises(OutputError, match=f"{folder}"):
            new_keys(folder / "team", password=None)
    with pytest.raises(UsageError, match="no name for a key"):
        new_keys(Path(), password=None)


@pytest.mark.parametrize(
    "made",
    [
        lambda: ec.generate_private_key(ec.SECP384R1()),
        lambda: ec.generate_private_key(ec.SECP256K1()),
        lambda: rsa.generate_private_key(65537, 2048),
    ],
    ids=["P-384", "secp256k1", "RSA"],
)
def test_keys_of_other_kinds_are_refused(tmp_path: Path, made: object) -> None:
    key = made()  # type: ignore[operator]
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "a.key").write_bytes(secret)
    (tmp_path / "a.pub").write_bytes(
        key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    with pytest.raises(UsageError, match="not a key of the curve P-256"):
        load_private(tmp_path / "a.key", password=None)
    with pytest.raises(UsageError, match="not a key of the curve P-256"):
        load_public(tmp_path / "a.pub")


def test_files_that_are_no_keys_are_refused(tmp_path: Path) -> None:
    private, _ = new_keys(tmp_path / "team", password=None)
    (tmp_path / "none").write_bytes(b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n")
    (tmp_path / "large").write_bytes(bytes(100_000))
    with pytest.raises(UsageError, match="is a private key"):
        load_public(private)
    for name, words in (("none", "no public key"), ("large", "too large"), ("missing", "cannot be read")):
        with pytest.raises(UsageError, match=words):
            load_public(tmp_path / name)
    with pytest.raises(UsageError, match="no private key in PEM"):
        load_private(tmp_path / "none", password=None)


@pytest.mark.tools("openssl")
def test_openssls_keys_are_taken_and_it_takes_ours(tmp_path: Path, key: PrivateKey) -> None:
    command: list[str | Path] = [
        "openssl",
        "ecparam",
        "-name",
        "prime256v1",
        "-genkey",
        "-noout",
        "-out",
        tmp_path / "theirs",
    ]
    subprocess.run(command, check=True)
    load_private(tmp_path / "theirs", password=None)
    (tmp_path / "message").write_bytes(b"message")
    (tmp_path / "signature").write_bytes(key.sign(MESSAGE))
    command = ["openssl", "dgst", "-sha256", "-verify", tmp_path / "key.pub"]
    done = subprocess.run(
        [*command, "-signature", tmp_path / "signature", tmp_path / "message"],
        capture_output=True,
        check=False,
    )
    assert done.stdout == b"Verified OK\n"
