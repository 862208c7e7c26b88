"""Whoever has the bundle but not the key: each change is caught by edgepack, by the program and by model_signing, where that is its part."""

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from tests.support.native import compile_program
from tests.support.once import made_once
from tests.support.signed import LIBRARY, key_in, list_files, write_small_bundle

from edgepack import python_api
from edgepack.bundles.manifest import MANIFEST, SIGNATURE
from edgepack.errors import BundleError, SignatureError
from edgepack.signing import envelope

pytestmark = pytest.mark.tools("c++", may=("embed",))
MODEL = "model/model.onnx"
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Of the curve's group."""


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a signed bundle, another one that the same key signed, an older one, and two keys."""
    return made_once(tmp_path_factory, "signed", write_signed)


def write_signed(folder: Path) -> None:
    program = compile_program(folder / "program").read_bytes()
    key_in(folder)
    key_in(folder, "other")
    for name in ("bundle", "another", "resigned"):
        write_small_bundle(folder / name, program)
    (folder / "another/LICENSES/NOTICES.txt").write_text("other notices")
    list_files(folder / "another")
    for name, key in (("bundle", "key"), ("another", "key"), ("resigned", "other")):
        python_api.sign(folder / name, key=folder / f"{key}.key")


@dataclass(frozen=True)
class Place:
    """What an attacker has."""

    folder: Path
    """The bundle, to be changed."""
    made: Path

    def path(self, name: str) -> Path:
        return self.folder / name

    def write(self, name: str, content: bytes) -> None:
        """In place of what is there, whatever its mode."""
        mode = self.path(name).stat().st_mode
        self.path(name).write_bytes(content)
        self.path(name).chmod(mode)

    def flip(self, name: str, at: int) -> None:
        content = bytearray(self.path(name).read_bytes())
        content[at] ^= 1
        self.write(name, bytes(content))

    def relisted(self) -> None:
        list_files(self.folder)

    def signature(self, change: Callable[[dict[str, Any]], None]) -> None:
        document = json.loads(self.path(SIGNATURE).read_text())
        change(document)
        self.path(SIGNATURE).write_text(json.dumps(document))

    def payload(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Say something else, under the old signature."""

        def within(document: dict[str, Any]) -> None:
            envelope = document["dsseEnvelope"]
            statement = json.loads(base64.b64decode(envelope["payload"]))
            change(statement)
            envelope["payload"] = base64.b64encode(json.dumps(statement).encode()).decode()

        self.signature(within)

    def taken_from(self, other: str, name: str) -> None:
        shutil.copy(self.made / other / name, self.path(name))


def swap(place: Place) -> None:
    one, other = place.path(MODEL), place.path("model/tokenizer.bin")
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


def link_for_file(place: Place) -> None:
    shutil.move(place.path(MODEL), place.folder.parent / "model.onnx")
    place.path(MODEL).symlink_to("../../model.onnx")


def link_for_signature(place: Place) -> None:
    shutil.move(place.path(SIGNATURE), place.folder.parent / SIGNATURE)
    place.path(SIGNATURE).symlink_to(f"../{SIGNATURE}")


def link_elsewhere(place: Place) -> None:
    place.path("lib/libonnxruntime.so.1").unlink()
    place.path("lib/libonnxruntime.so.1").symlink_to("../model/model.onnx")


def changed_and_listed(place: Place) -> None:
    place.write(MODEL, b"another model")
    place.relisted()


def added_and_listed(place: Place) -> None:
    place.path("more").write_bytes(b"more")
    place.relisted()


def all_digests(place: Place) -> None:
    """A file, its line in the manifest, and both in the statement: everything but the signature itself."""
    place.write(MODEL, b"another model")
    place.relisted()
    from edgepack.bundles.manifest import open_bundle
    from edgepack.signing.statement import statement_of

    statement = statement_of(open_bundle(place.folder))
    place.payload(lambda said: said.update(statement))


def envelope_of(document: dict[str, Any]) -> dict[str, Any]:
    return document["dsseEnvelope"]  # type: ignore[no-any-return]


def first_signature(document: dict[str, Any]) -> dict[str, Any]:
    return envelope_of(document)["signatures"][0]  # type: ignore[no-any-return]


def sig(change: Callable[[bytes], bytes]) -> Callable[[Place], None]:
    """Another signature, in base64."""

    def apply(document: dict[str, Any]) -> None:
        one = first_signature(document)
        one["sig"] = base64.b64encode(change(base64.b64decode(one["sig"]))).decode()

    return lambda place: place.signature(apply)


def numbers(change: Callable[[int, int], tuple[int, int]]) -> Callable[[Place], None]:
    """Another r and s."""
    return sig(lambda der: encode_dss_signature(*change(*decode_dss_signature(der))))


def with_a_zero(der: bytes) -> bytes:
    """A number with a byte too many before it."""
    size = der[3]
    return bytes([0x30, der[1] + 1, 2, size + 1, 0]) + der[4:]


def text_of_signature(old: str, new: str) -> Callable[[Place], None]:
    def apply(place: Place) -> None:
        content = place.path(SIGNATURE).read_text()
        assert old in content
        place.path(SIGNATURE).write_text(content.replace(old, new, 1))

    return apply


def twice(place: Place) -> None:
    """Of two payloads the last one counts for most readers, and it is the right one."""
    content = place.path(SIGNATURE).read_text()
    place.path(SIGNATURE).write_text(content.replace('"payload":', '"payload":"e30=","payload":', 1))


def case_collides(place: Place) -> None:
    place.path("model/MODEL.onnx").write_bytes(b"another model")


EVERYWHERE: dict[str, Callable[[Place], object]] = {
    "a bit of the model": lambda place: place.flip(MODEL, 100),
    "a bit of the tokenizer": lambda place: place.flip("model/tokenizer.bin", 0),
    "a bit of the library": lambda place: place.flip(LIBRARY, 3),
    "a bit of the licences": lambda place: place.flip("LICENSES/NOTICES.txt", 0),
    "a bit of the golden vectors": lambda place: place.flip("golden.json", 2),
    "a space more in the manifest": lambda place: place.write(
        MANIFEST, place.path(MANIFEST).read_bytes() + b" "
    ),
    "a file cut short": lambda place: os.truncate(place.path(MODEL), 10),
    "a byte more at the end of a file": lambda place: place.write(
        MODEL, place.path(MODEL).read_bytes() + b"\0"
    ),
    "an empty file": lambda place: place.write(MODEL, b""),
    "a file removed": lambda place: place.path("LICENSES/NOTICES.txt").unlink(),
    "a file added": lambda place: place.path("model/more").write_bytes(b"more"),
    "a hidden file added": lambda place: place.path(".more").write_bytes(b"more"),
    "a file renamed": lambda place: place.path(MODEL).rename(place.path("model/renamed.onnx")),
    "two files swapped": swap,
    "a name that differs in case": case_collides,
    "a link to another file": link_elsewhere,
    "a link that leads nowhere": lambda place: place.path("more").symlink_to("/nowhere"),
    "a file changed and listed anew": changed_and_listed,
    "a file added and listed": added_and_listed,
    "a file changed, listed, and said anew": all_digests,
    "the manifest of another bundle": lambda place: place.taken_from("another", MANIFEST),
    "the signature of another bundle": lambda place: place.taken_from("another", SIGNATURE),
    "the signature of another key": lambda place: place.taken_from("resigned", SIGNATURE),
    "no signature": lambda place: place.path(SIGNATURE).unlink(),
    "an empty signature": lambda place: place.write(SIGNATURE, b""),
    "no signatures in the envelope": lambda place: place.signature(
        lambda document: envelope_of(document).update(signatures=[])
    ),
    "another payload type": lambda place: place.signature(
        lambda document: envelope_of(document).update(payloadType="text/plain")
    ),
    "another media type": lambda place: place.signature(
        lambda document: document.update(mediaType="application/vnd.dev.sigstore.bundle+json;version=0.1")
    ),
    "an empty list of digests": lambda place: place.payload(
        lambda said: said["predicate"].update(resources=[])
    ),
    "a path out of the bundle": lambda place: place.payload(
        lambda said: said["predicate"]["resources"][0].update(name="../bundle/manifest.json")
    ),
    "files that are to be ignored": lambda place: place.payload(
        lambda said: said["predicate"]["serialization"]["ignore_paths"].append("model")
    ),
    "a bit of the signature": sig(lambda der: der[:-1] + bytes([der[-1] ^ 1])),
    "a signature of zeros": sig(lambda der: bytes.fromhex("3006020100020100")),
    "a signature of no number": sig(lambda der: b""),
    "r of zero": numbers(lambda r, s: (0, s)),
    "s of zero": numbers(lambda r, s: (r, 0)),
    "s of the order": numbers(lambda r, s: (r, ORDER)),
    "r and the order": numbers(lambda r, s: (r + ORDER, s)),
    "s and the order": numbers(lambda r, s: (r, s + ORDER)),
    "a negative r": sig(lambda der: bytes.fromhex("3006020181020101")),
    "r and s swapped": numbers(lambda r, s: (s, r)),
    "a number with a zero more": sig(with_a_zero),
    "a length in long form": sig(lambda der: b"\x30\x81" + der[1:]),
    "a byte behind the signature": sig(lambda der: der + b"\0"),
}
NOT_MODEL_SIGNINGS: dict[str, Callable[[Place], object]] = {
    "a mode that lets anyone write": lambda place: place.path(MODEL).chmod(0o666),
    "a mode with another's rights": lambda place: place.path("embed").chmod(0o4755),
    "a folder that anyone may write into": lambda place: place.path("model").chmod(0o777),
    "an empty folder added": lambda place: place.path("more").mkdir(),
    "a link to the same content": link_for_file,
    "a link to the same signature": link_for_signature,
    "a signature of 17 MB": lambda place: place.write(
        SIGNATURE, place.path(SIGNATURE).read_bytes() + b" " * (17 << 20)
    ),
    "a signature in a list": lambda place: place.write(
        SIGNATURE, b"[" + place.path(SIGNATURE).read_bytes().strip() + b"]"
    ),
    "a file that git would hide": lambda place: place.path(".gitignore").write_bytes(b"*"),
    "a key twice": twice,
    "a payload with a letter that is none": text_of_signature('"payload":"', '"payload":"*'),
    "base64 with more padding": text_of_signature('","keyid"', '====","keyid"'),
    "base64 with a line feed": text_of_signature('"sig":"', '"sig":"\\n'),
}


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Place:
    folder = tmp_path / "bundle"
    shutil.copytree(made / "bundle", folder, symlinks=True)
    return Place(folder, made)


def run_program(place: Place, *options: str, key: str = "key.pub") -> subprocess.CompletedProcess[str]:
    """Nothing is loaded: the bundle's library is none. A program that was taken away is not missed."""
    command: list[str | Path] = [
        place.folder / "embed",
        "--check",
        "--require-signature",
        place.made / key,
        *options,
    ]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=False)


def test_as_it_was_signed_it_is_right_for_all(place: Place) -> None:
    assert python_api.check_signature(place.folder, key=place.made / "key.pub").files == 8
    done = run_program(place)
    assert (done.returncode, done.stdout) == (0, "check passed: 7 files intact\n"), done.stderr


@pytest.mark.sample(25)
@pytest.mark.parametrize("change", [*EVERYWHERE, *NOT_MODEL_SIGNINGS])
def test_a_change_is_caught(place: Place, change: str) -> None:
    ({**EVERYWHERE, **NOT_MODEL_SIGNINGS})[change](place)
    with pytest.raises((BundleError, SignatureError)):
        python_api.check_signature(place.folder, key=place.made / "key.pub")
    done = run_program(place)
    assert done.returncode == 4, done
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")


def test_of_base64_that_means_the_same_one_form_is_read() -> None:
    assert envelope._bytes({"sig": "QQ=="}, "sig", Path("signature")) == b"A"
    with pytest.raises(SignatureError, match="sig is not in base64"):
        envelope._bytes({"sig": "QR=="}, "sig", Path("signature"))


def test_another_key_is_refused(place: Place) -> None:
    with pytest.raises(SignatureError, match="another key"):
        python_api.check_signature(place.folder, key=place.made / "other.pub")
    done = run_program(place, key="other.pub")
    assert done.returncode == 4
    assert "its signature was made with another key" in done.stderr


def test_an_older_bundle_of_the_same_key_is_taken(place: Place) -> None:
    """A signature says who and what, not which is newest: docs/signing.md says what to do about that."""
    shutil.rmtree(place.folder)
    shutil.copytree(place.made / "another", place.folder, symlinks=True)
    python_api.check_signature(place.folder, key=place.made / "key.pub")
    assert run_program(place).returncode == 0
