"""Bundles signed and asked for their signature, here and by model_signing."""

import base64
import gzip
import io
import json
import os
import shutil
import tarfile
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
import zstandard
from tests.support.command import edgepack
from tests.support.signed import key_in

from edgepack import python_api
from edgepack.bundles.archive import archive_of, bundle_entries, pack, unpack_bundle
from edgepack.bundles.manifest import SIGNATURE, open_bundle
from edgepack.bundles.place import held_place
from edgepack.bundles.provenance import PREDICATE, STATEMENT
from edgepack.device.record import PREDICATE as DEVICES
from edgepack.errors import BundleError, OutputError, SignatureError, UsageError
from edgepack.files.pack import TarEntry, write_tar, write_tarball
from edgepack.files.store import sha256_of
from edgepack.finished_bundle import VerifyOptions, verify_again
from edgepack.plugins.context import HostContext
from edgepack.records.bundle import Bundle
from edgepack.signing.envelope import open_statement, pae, require_sealed
from edgepack.signing.keys import PrivateKey
from edgepack.signing.signatures import require_signed_file, sign_copy, sign_file, signature_of
from edgepack.signing.statement import digests_of, statement_of

ROTATED = "other"


def test_a_bundle_without_a_signature_is_refused_where_one_is_asked_for(
    tmp_path: Path, folder: Path, key: PrivateKey
) -> None:
    with pytest.raises(SignatureError, match="is not signed"):
        python_api.check_signature(folder, key=tmp_path / "key.pub")


def test_signing_again_changes_nothing_and_another_key_wants_to_be_meant(
    tmp_path: Path, folder: Path, key: PrivateKey
) -> None:
    python_api.sign(folder, key=tmp_path / "key.key")
    before = (folder / SIGNATURE).read_bytes()
    python_api.sign(folder, key=tmp_path / "key.key")
    assert (folder / SIGNATURE).read_bytes() == before
    key_in(tmp_path, ROTATED)
    with pytest.raises(OutputError, match="another signature"):
        python_api.sign(folder, key=tmp_path / "other.key")
    python_api.sign(folder, key=tmp_path / "other.key", force=True)
    python_api.check_signature(folder, key=tmp_path / "other.pub")
    with pytest.raises(SignatureError, match="another key"):
        python_api.check_signature(folder, key=tmp_path / "key.pub")


def test_a_damaged_bundle_is_not_signed(tmp_path: Path, folder: Path, key: PrivateKey) -> None:
    (folder / "more").write_text("unlisted")
    with pytest.raises(BundleError, match="more is not in the manifest"):
        python_api.sign(folder, key=tmp_path / "key.key")
    assert not (folder / SIGNATURE).exists()


def test_the_archive_beside_has_the_signature_in_it_and_one_of_its_own(
    tmp_path: Path, folder: Path, key: PrivateKey, context: HostContext
) -> None:
    archive = tmp_path / "sample.tar.zst"
    pack(open_bundle(folder), archive, context=context)
    signature = tmp_path / "sample.tar.zst.sigstore.json"
    written = python_api.sign(folder, key=tmp_path / "key.key")
    assert written == [folder / SIGNATURE, archive, signature]
    assert (unpack_bundle(archive, tmp_path / "unpacked") / SIGNATURE).is_file()
    python_api.check_signature(archive, key=tmp_path / "key.pub")
    elsewhere = shutil.copy(archive, tmp_path / "elsewhere.tar.zst")
    python_api.check_signature(elsewhere, key=tmp_path / "key.pub")
    with archive.open("ab") as stream:
        stream.write(b"x")
    with pytest.raises(SignatureError, match=r"or sample\.tar\.zst was changed"):
        python_api.check_signature(archive, key=tmp_path / "key.pub")


def test_no_other_bundle_is_put_in_its_place_while_one_is_signed(
    tmp_path: Path, folder: Path, key: PrivateKey, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The archive and provenance of another run's bundle were signed, which nobody had checked, and its folder was not."""
    pack(open_bundle(folder), archive_of(folder), context=context)
    tried = []

    def busy() -> None:
        raise InterruptedError

    def meanwhile(*given: Any, **named: Any) -> Bundle:
        with pytest.raises(InterruptedError), held_place(folder, waiting=busy):
            raise AssertionError("its place is free")
        tried.append(folder)
        return pack(*given, **named)

    monkeypatch.setattr("edgepack.signing.signatures.pack", meanwhile)
    python_api.sign(folder, key=tmp_path / "key.key")
    python_api.check_signature(archive_of(folder), key=tmp_path / "key.pub")
    assert tried and not [path for path in tmp_path.iterdir() if path.name.endswith(".lock")]


def test_who_may_not_write_beside_a_folder_signs_the_folder(
    tmp_path: Path, folder: Path, key: PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgepack.bundles.place.os.access", lambda *_: False)
    monkeypatch.setattr("edgepack.bundles.place.held_place", None)
    assert python_api.sign(folder, key=tmp_path / "key.key") == [folder / SIGNATURE]


def test_another_signers_signature_of_the_archive_is_not_replaced(
    tmp_path: Path, folder: Path, key: PrivateKey, context: HostContext
) -> None:
    archive = tmp_path / "sample.tar.zst"
    pack(open_bundle(folder), archive, context=context)
    sign_file(archive, key_in(tmp_path, ROTATED))
    before = archive.read_bytes(), signature_of(archive).read_bytes()
    with pytest.raises(OutputError, match=r"sample\.tar\.zst\.sigstore\.json is another signer's"):
        python_api.sign(folder, key=tmp_path / "key.key")
    assert (archive.read_bytes(), signature_of(archive).read_bytes()) == before
    assert not (folder / SIGNATURE).exists()
    python_api.sign(folder, key=tmp_path / "key.key", force=True)
    python_api.sign(folder, key=tmp_path / "key.key")
    python_api.check_signature(archive, key=tmp_path / "key.pub")


def test_an_archive_may_be_signed_alone(
    tmp_path: Path, folder: Path, key: PrivateKey, context: HostContext
) -> None:
    archive = tmp_path / "alone.tar.zst"
    pack(open_bundle(folder), archive, context=context)
    python_api.sign(archive, key=tmp_path / "key.key")
    assert python_api.check_signature(archive, key=tmp_path / "key.pub").files == 8
    key_in(tmp_path, ROTATED)
    with pytest.raises(SignatureError, match="another key"):
        python_api.check_signature(archive, key=tmp_path / "other.pub")


def test_a_signed_file_is_read_in_pieces_and_one_of_holes_is_not(tmp_path: Path, key: PrivateKey) -> None:
    """It was read into memory before its signature was looked at: a terabyte that has a few bytes on the disk."""
    file = tmp_path / "large.tar.zst"
    file.write_bytes(b"mine")
    python_api.sign(file, key=tmp_path / "key.key")
    assert require_signed_file(file, key.public)
    os.truncate(file, 2 << 30)
    with pytest.raises(SignatureError, match="too large for what is signed: nearly all"):
        require_signed_file(file, key.public)


def test_what_many_links_lead_to_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of 4,000 links to one file had it read 4,000 times, a terabyte."""
    (tmp_path / "manifest.json").touch()
    (tmp_path / "file").touch()
    for name in (links := ("a", "b", "c")):
        (tmp_path / name).symlink_to("file")
    read = list[str]()

    def digest(path: Path) -> str:
        read.append(path.name)
        return ""

    monkeypatch.setattr("edgepack.signing.statement.sha256_of", digest)
    files = [{"path": name, "mode": "link"} for name in links]
    digests_of(Bundle(directory=tmp_path, manifest={"files": files}))
    assert read == ["manifest.json", "file"]


def test_a_statement_is_signed_as_one(tmp_path: Path, key: PrivateKey) -> None:
    file, other = tmp_path / "provenance.json", tmp_path / "other.json"
    file.write_text(json.dumps({"_type": "https://in-toto.io/Statement/v1", "predicateType": "mine"}))
    other.write_text(json.dumps({"_type": "mine"}))
    assert python_api.sign(file, key=tmp_path / "key.key") == [signature_of(file)]
    assert open_statement(signature_of(file), key.public)["predicateType"] == "mine"
    python_api.sign(other, key=tmp_path / "key.key")
    require_sealed(other, signature_of(other), key.public)


def test_what_a_bundle_s_signature_says_is_not_signed_as_a_file(
    tmp_path: Path, folder: Path, key: PrivateKey
) -> None:
    """A file of a stranger's that says it of the stranger's bundle was that bundle's signature."""
    statement = json.dumps(statement_of(open_bundle(folder))).encode()
    for name, content in (("notes.intoto.json", statement), ("LICENSE.txt", pae(statement))):
        file = tmp_path / name
        file.write_bytes(content)
        with pytest.raises(OutputError, match="is what the signature of a bundle says"):
            python_api.sign(file, key=tmp_path / "key.key")
        assert not signature_of(file).exists()


def test_provenance_names_the_archive_that_is_signed(
    tmp_path: Path, folder: Path, key: PrivateKey, context: HostContext
) -> None:
    """Signing packs the archive anew: what said where the old one came from says it of the new one."""
    archive, provenance = tmp_path / "sample.tar.zst", tmp_path / "sample.provenance.json"
    pack(open_bundle(folder), archive, context=context)
    subjects = [{"name": name, "digest": {"sha256": "old"}} for name in (archive.name, "sample.deb")]
    (tmp_path / "sample.whl").write_bytes(b"a wheel")
    sign_file(tmp_path / "sample.whl", key)
    (tmp_path / "evil.tar.zst").write_bytes((folder / "manifest.json").read_bytes())
    for name, file in (
        ("sample/manifest.json", folder / "manifest.json"),
        ("sample.whl", tmp_path / "sample.whl"),
        ("evil.tar.zst", folder / "manifest.json"),
    ):
        subjects.append({"name": name, "digest": {"sha256": sha256_of(file)}})
    said = {"_type": STATEMENT, "subject": subjects, "predicateType": PREDICATE}
    provenance.write_text(json.dumps(said))
    made = python_api.sign(folder, key=tmp_path / "key.key")
    assert made[-2:] == [provenance, signature_of(provenance)]
    subjects[0]["digest"] = {"sha256": sha256_of(archive)}
    # Whoever sent the bundle may name what nobody has seen here, which the key would admit elsewhere.
    said["subject"] = [
        each for each in subjects if each["name"] not in ("sample.deb", "evil.tar.zst")
    ]  # though one lies there
    assert open_statement(signature_of(provenance), key.public) == json.loads(provenance.read_text()) == said
    before = archive.read_bytes(), (folder / SIGNATURE).read_bytes()
    # What is signed as a record of devices counts as one.
    record = json.dumps({**said, "predicateType": DEVICES})
    for damaged in ("{}", "[" * 200_000, '{"subject": [{"name": 1}]}', record):
        provenance.write_text(damaged)
        with pytest.raises(BundleError, match=r"provenance\.json is damaged"):
            python_api.sign(folder, key=tmp_path / "key.key")
    assert (archive.read_bytes(), (folder / SIGNATURE).read_bytes()) == before


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("subject", ["another bundle", "another name", "no bundle"])
def test_provenance_of_another_bundle_is_not_signed(
    tmp_path: Path, folder: Path, key: PrivateKey, context: HostContext, subject: str, force: bool
) -> None:
    """As it lies beside a bundle after an update: its inputs are not those of what is packed."""
    archive, provenance = tmp_path / "sample.tar.zst", tmp_path / "sample.provenance.json"
    pack(open_bundle(folder), archive, context=context)
    right = sha256_of(folder / "manifest.json")
    digests = {
        "another bundle": {"sample/manifest.json": "0" * 64},
        "another name": {"other/manifest.json": right},
        "no bundle": {},
    }[subject]
    subjects = [
        {"name": name, "digest": {"sha256": sha}} for name, sha in (digests | {archive.name: right}).items()
    ]
    provenance.write_text(json.dumps({"_type": STATEMENT, "subject": subjects, "predicateType": PREDICATE}))
    before = {path: path.read_bytes() for path in (archive, provenance)}
    with pytest.raises(OutputError, match=r"sample\.provenance\.json: not of this bundle"):
        python_api.sign(folder, key=tmp_path / "key.key", force=force)
    assert {path: path.read_bytes() for path in before} == before
    assert not (folder / SIGNATURE).exists() and not signature_of(provenance).exists()


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize(
    "holds", ["a thesis", "a thesis too", "the bundle before", "a file called as the folder", "damage"]
)
def test_an_archive_of_something_else_beside_the_bundle_is_not_replaced(
    tmp_path: Path, folder: Path, key: PrivateKey, context: HostContext, holds: str, force: bool
) -> None:
    archive = tmp_path / "sample.tar.zst"
    pack(open_bundle(folder), archive, context=context)
    thesis = TarEntry(name="sample/thesis.txt", source=b"three years")
    entries = bundle_entries(open_bundle(folder), top="sample")
    if holds == "the bundle before":
        manifest = folder / "manifest.json"
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "version": "2.0"}))
    elif holds == "damage":
        archive.write_bytes(archive.read_bytes()[:100])
    else:
        held = {
            "a thesis": [thesis],
            "a thesis too": [*entries, thesis],
            "a file called as the folder": [*entries, TarEntry(name="thesis.txt", source=b"three years")],
        }
        with archive.open("wb") as out:
            write_tarball(out, held[holds], level=1, window_log=20)
    before = archive.read_bytes()
    with pytest.raises(OutputError, match=r"sample\.tar\.zst: not of this bundle"):
        python_api.sign(folder, key=tmp_path / "key.key", force=force)
    assert archive.read_bytes() == before and not (folder / SIGNATURE).exists()


def test_a_signature_inside_says_nothing_of_what_lies_beside_the_bundle(
    tmp_path: Path, folder: Path, key: PrivateKey
) -> None:
    """Whoever installs a package runs its own code: a signed bundle in a stranger's package was a signed package."""
    python_api.sign(folder, key=tmp_path / "key.key")
    package, public = tmp_path / "package.tar", tmp_path / "key.pub"
    entries = bundle_entries(open_bundle(folder), top="inside/sample")
    with package.open("wb") as out:
        write_tar(out, entries, format=tarfile.PAX_FORMAT)
    assert python_api.check_signature(package, key=public).name == "sample"
    with package.open("wb") as out:
        write_tar(out, [*entries, TarEntry(name="setup.py")], format=tarfile.PAX_FORMAT)
    with pytest.raises(
        SignatureError, match=r"package\.tar is not signed: it holds setup\.py beside the bundle"
    ):
        python_api.check_signature(package, key=public)
    sign_file(package, key)
    assert python_api.check_signature(package, key=public).name == "sample"


SKIPPED = b"\x50\x2a\x4d\x18\4\0\0\0evil"


def test_an_archive_with_other_bytes_than_edgepack_packs_is_not_signed_by_what_it_holds(
    tmp_path: Path, folder: Path, key: PrivateKey, context: HostContext
) -> None:
    """Of such ones GNU tar, busybox and zstd unpacked a stranger's program, and edgepack found the signed one."""
    python_api.sign(folder, key=tmp_path / "key.key")
    good = pack(open_bundle(folder), tmp_path / "good.tar.zst", context=context).archive
    assert good is not None
    tar = io.BytesIO(zstandard.ZstdDecompressor().stream_reader(good.read_bytes()).read())
    with tarfile.open(tmp_path / "owner.tar", "w") as archive:
        archive.add(folder, "sample")
    (tmp_path / "behind.tar.zst").write_bytes(good.read_bytes() + SKIPPED)
    (tmp_path / "good.tar.gz").write_bytes(gzip.compress(tar.getvalue()))
    # GNU tar goes on behind an end with --ignore-zeros.
    (tmp_path / "further.tar").write_bytes(tar.getvalue() + bytes(512))
    for name in ("owner.tar", "behind.tar.zst", "good.tar.gz", "further.tar"):
        with pytest.raises(BundleError, match="packed otherwise than edgepack does") as caught:
            python_api.check_signature(tmp_path / name, key=tmp_path / "key.pub")
        assert caught.value.hint == "unpack it, and name the folder that it gives"
    assert python_api.check_signature(good, key=tmp_path / "key.pub").name == "sample"


def test_a_signature_inside_says_nothing_of_what_a_package_runs(
    tmp_path: Path, folder: Path, key: PrivateKey
) -> None:
    """The scripts of a Debian package are not among its files, and what stands before a zip is not, either."""
    python_api.sign(folder, key=tmp_path / "key.key")
    data, public = tmp_path / "data.tar", tmp_path / "key.pub"
    with tarfile.open(data, "w") as archive:
        archive.add(folder, "opt/sample")
        archive.add(__file__, "usr/bin/x")
    size = data.stat().st_size
    package = tmp_path / "package.deb"
    empty = "".join(f"{name:48}{0:<10}`\n" for name in ("debian-binary", "control.tar"))
    package.write_bytes(f"!<arch>\n{empty}{'data.tar':48}{size:<10}`\n".encode() + data.read_bytes())
    with pytest.raises(
        SignatureError, match=r"package\.deb is not signed: it holds control\.tar, usr/bin/x "
    ):
        python_api.check_signature(package, key=public)
    program = tmp_path / "program"
    with ZipFile(program, "w") as members:
        members.write(data, "data.tar")
    for name in ("install.sh", "package.whl"):
        (tmp_path / name).write_bytes(b"#!/bin/sh\nexit\n" + program.read_bytes())
        with pytest.raises(SignatureError, match="is not signed: it holds a program before its files"):
            python_api.check_signature(tmp_path / name, key=public)


def test_verify_asks_before_it_runs_anything(
    tmp_path: Path, folder: Path, key: PrivateKey, context: HostContext
) -> None:
    """The program is a script that would leave a mark."""
    mark = tmp_path / "mark"
    (folder / "embed").write_text(f"#!/bin/sh\ntouch {mark}\n")
    with pytest.raises(BundleError, match="embed is damaged"):
        verify_again(folder, VerifyOptions(key=key.public, run=True), context=context)
    assert not mark.exists()


@pytest.mark.tools("python")
def test_the_commands(tmp_path: Path, folder: Path) -> None:
    made = edgepack("keys", "new", "team", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert "team.key: sign with it, and keep it to yourself" in made.stdout
    assert (
        edgepack("sign", "sample", "--key", "team.key", cwd=tmp_path).stdout
        == f"written: sample/{SIGNATURE}\n"
    )
    done = edgepack("verify", "sample", "--key", "team.pub", "--signature-only", "--json", cwd=tmp_path)
    assert json.loads(done.stdout)["files"] == 8
    (folder / SIGNATURE).unlink()
    refused = edgepack("verify", "sample", "--key", "team.pub", cwd=tmp_path)
    assert refused.returncode == SignatureError.exit_code
    assert refused.stderr.splitlines()[-2].startswith("error: sample is not signed")


@pytest.mark.slow
@pytest.mark.tools("python")
def test_a_password_is_of_the_environment_where_no_terminal_is(tmp_path: Path, folder: Path) -> None:
    secret = {"EDGEPACK_KEY_PASSWORD": "secret"}
    assert edgepack("keys", "new", "team", cwd=tmp_path, env=secret).returncode == 0
    refused = edgepack("sign", "sample", "--key", "team.key", cwd=tmp_path)
    assert refused.returncode == UsageError.exit_code
    assert refused.stderr.splitlines() == [
        "error: the key's password is not known, and there is no terminal to ask at",
        "hint: put it into EDGEPACK_KEY_PASSWORD",
    ]
    assert edgepack("sign", "sample", "--key", "team.key", cwd=tmp_path, env=secret).returncode == 0


def rewritten(folder: Path, key: PrivateKey, old: str, new: str) -> None:
    """Sign a statement in which something is said otherwise: as whoever has the key could."""
    from edgepack.signing.envelope import sealed_statement

    envelope = json.loads((folder / SIGNATURE).read_text())["dsseEnvelope"]
    payload = base64.b64decode(envelope["payload"]).decode()
    assert old in payload
    statement = json.loads(payload.replace(old, new))
    (folder / SIGNATURE).write_bytes(sealed_statement(statement, key))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("model_signing/signature/v1.0", "slsa.dev/provenance/v1", "of something else"),
        ("in-toto.io/Statement/v1", "in-toto.io/Statement/v0.1", "of something else"),
        ('"files"', '"shards"', "not of whole files"),
        ('"hash_type": "sha256"', '"hash_type": "blake2"', "not of whole files"),
        ('"algorithm": "sha256"', '"algorithm": "sha1"', "contradicts itself"),
        ('"name": "embed"', '"name": "golden.json"', "contradicts itself"),
        ('"name": "embed"', '"name": "./embed"', "embed is not signed"),
        ('"name": "embed"', '"name": "../sample/embed"', "embed is not signed"),
        ('"resources"', '"resourcez"', "is invalid"),
        ('"name": "embed"', '"name": ["embed"]', "is invalid"),
    ],
)
def test_statements_that_say_something_else_are_refused(
    tmp_path: Path, folder: Path, key: PrivateKey, old: str, new: str, words: str
) -> None:
    python_api.sign(folder, key=tmp_path / "key.key")
    rewritten(folder, key, old, new)
    with pytest.raises(SignatureError, match=words):
        python_api.check_signature(folder, key=tmp_path / "key.pub")


def test_a_copy_with_another_file_is_signed_and_what_it_is_linked_to_stays(
    tmp_path: Path, folder: Path, key: PrivateKey
) -> None:
    """So that a program that refuses unsigned bundles is proved in copies, too."""
    python_api.sign(folder, key=tmp_path / "key.key")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy, symlinks=True, copy_function=os.link)
    (copy / "embed").unlink()
    (copy / "embed").write_bytes(b"another program")
    (copy / "embed").chmod(0o755)
    (copy / "more.so").write_bytes(b"what is loaded into it")
    # As one is called that makes its vectors by its library.
    manifest = {**open_bundle(folder).manifest, "name": "sample/lib/libembed.so"}
    sign_copy(Bundle(directory=copy, manifest=manifest), key)
    signed = python_api.check_signature(copy, key=tmp_path / "key.pub")
    assert (signed.name, signed.files) == ("sample", 9)
    assert {path: path.read_bytes() for path in before} == before


@pytest.mark.parametrize(
    ("said", "least", "words"),
    [
        ("1.2.0", "1.2.0", ""),
        ("1.10", "1.9.9", ""),
        ("2026.11.22", "2026.11.3", ""),
        ("1.2", "1.2.0", ""),
        ("1.2.0", "1.2.1", "is version 1.2.0, older than 1.2.1"),
        ("1.9", "1.10", "older than 1.10"),
        ("1.2.0rc1", "1.0", "no version that can be compared: '1.2.0rc1'"),
        (None, "0", "no version that can be compared: ''"),
    ],
)
def test_an_older_bundle_is_refused_where_a_version_is_asked_for(
    tmp_path: Path, folder: Path, key: PrivateKey, said: str | None, least: str, words: str
) -> None:
    """Also where it is signed as rightly as today's."""
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, **({"version": said} if said else {})}))
    python_api.sign(folder, key=tmp_path / "key.key")
    public = tmp_path / "key.pub"
    python_api.check_signature(folder, key=public)
    if words:
        with pytest.raises(SignatureError, match=words):
            python_api.check_signature(folder, key=public, min_version=least)
    else:
        python_api.check_signature(folder, key=public, min_version=least)


def test_a_version_is_asked_for_in_numbers_and_of_what_is_signed(
    tmp_path: Path, folder: Path, key: PrivateKey
) -> None:
    python_api.sign(folder, key=tmp_path / "key.key")
    with pytest.raises(UsageError, match="'v1' is not a version of numbers and dots"):
        python_api.check_signature(folder, key=tmp_path / "key.pub", min_version="v1")
    with pytest.raises(UsageError, match="--min-version requires --key"):
        python_api.verify(folder, min_version="1.0")
