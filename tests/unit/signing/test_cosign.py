"""cosign's own client, a package of Debian's, as the judge of the signatures of archives."""

import hashlib
import json
import subprocess
from pathlib import Path

import pytest
from tests.support.debian_packages import unpacked
from tests.support.signed import key_in

from edgepack import python_api
from edgepack.errors import SignatureError
from edgepack.signing.keys import PrivateKey

pytestmark = [pytest.mark.slow, pytest.mark.tools("apt-get", "dpkg-deb", may=("cosign", "env"))]


@pytest.fixture(scope="module")
def cosign() -> Path:
    """The program, kept in the cache."""
    return unpacked("sid", "cosign") / "usr/bin/cosign"


def run(cosign: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {"HOME": str(folder), "COSIGN_PASSWORD": "", "SIGSTORE_NO_CACHE": "true"}
    return subprocess.run(
        [cosign, *words], cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False
    )


VERIFY = ("verify-blob", "--insecure-ignore-tlog=true", "--bundle", "file.sigstore.json")


def test_cosign_takes_what_is_signed_here(cosign: Path, tmp_path: Path, key: PrivateKey) -> None:
    (tmp_path / "file").write_bytes(b"an archive")
    python_api.sign(tmp_path / "file", key=tmp_path / "key.key")
    key_in(tmp_path, "other")
    right = run(cosign, tmp_path, *VERIFY, "--key", "key.pub", "file")
    assert (right.returncode, right.stderr.splitlines()[-1]) == (0, "Verified OK"), right.stderr
    assert run(cosign, tmp_path, *VERIFY, "--key", "other.pub", "file").returncode != 0
    (tmp_path / "file").write_bytes(b"another archive")
    assert run(cosign, tmp_path, *VERIFY, "--key", "key.pub", "file").returncode != 0


def test_what_cosign_signs_is_taken_here(cosign: Path, tmp_path: Path, folder: Path, key: PrivateKey) -> None:
    from edgepack.signing.envelope import require_sealed

    file, signature = tmp_path / "file", tmp_path / "file.sigstore.json"
    file.write_bytes(b"an archive")
    assert run(cosign, tmp_path, "import-key-pair", "--key", "key.key", "-o", "theirs").returncode == 0
    offline = ("--yes", "--tlog-upload=false", "--use-signing-config=false")
    done = run(
        cosign, tmp_path, "sign-blob", *offline, "--key", "theirs.key", "--bundle", signature.name, "file"
    )
    assert done.returncode == 0, done.stderr
    require_sealed(file, signature, key.public)
    file.write_bytes(b"another archive")
    with pytest.raises(SignatureError, match="was changed"):
        require_sealed(file, signature, key.public)


def test_cosign_takes_a_statement_that_is_signed_here(cosign: Path, tmp_path: Path, key: PrivateKey) -> None:
    (tmp_path / "file").write_bytes(b"an archive")
    digest = hashlib.sha256(b"an archive").hexdigest()
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "file", "digest": {"sha256": digest}}],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {"buildDefinition": {}, "runDetails": {}},
    }
    (tmp_path / "provenance.json").write_text(json.dumps(statement))
    python_api.sign(tmp_path / "provenance.json", key=tmp_path / "key.key")
    words = ["verify-blob-attestation", "--insecure-ignore-tlog=true", "--key", "key.pub"]
    words += ["--type", "slsaprovenance1", "--bundle", "provenance.json.sigstore.json", "file"]
    right = run(cosign, tmp_path, *words)
    assert (right.returncode, right.stderr.splitlines()[-1]) == (0, "Verified OK"), right.stderr
    (tmp_path / "file").write_bytes(b"another archive")
    assert run(cosign, tmp_path, *words).returncode != 0
