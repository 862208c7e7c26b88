"""OpenSSF's model_signing, on what is signed here, and the other way round."""

from pathlib import Path

import pytest
from tests.support.signed import key_in
from tests.unit.signing.test_signatures import ROTATED

from edgepack import python_api
from edgepack.bundles.manifest import SIGNATURE
from edgepack.signing.keys import PrivateKey


def judge(folder: Path, public: Path) -> None:
    """model_signing's own verdict: it raises what it raises."""
    from model_signing import hashing, verifying

    config = verifying.Config().use_elliptic_key_verifier(public_key=public)
    config.set_hashing_config(hashing.Config().set_allow_symlinks(True))
    config.verify(folder, folder / SIGNATURE)


def test_model_signing_takes_what_is_signed_here(tmp_path: Path, folder: Path, key: PrivateKey) -> None:
    assert python_api.sign(folder, key=tmp_path / "key.key") == [folder / SIGNATURE]
    judge(folder, tmp_path / "key.pub")
    key_in(tmp_path, ROTATED)
    with pytest.raises(ValueError, match="Key mismatch"):
        judge(folder, tmp_path / "other.pub")


def test_what_model_signing_signs_is_taken_here(tmp_path: Path, folder: Path, key: PrivateKey) -> None:
    from model_signing import hashing, signing

    how = hashing.Config().set_allow_symlinks(True).set_ignored_paths(paths=[folder / SIGNATURE])
    config = signing.Config().use_elliptic_key_signer(private_key=tmp_path / "key.key")
    config.set_hashing_config(how).sign(folder, folder / SIGNATURE)
    found = python_api.check_signature(folder, key=tmp_path / "key.pub")
    assert (found.name, found.files, found.key) == ("sample", 8, key.public.hint)
