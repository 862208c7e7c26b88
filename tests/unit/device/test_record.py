"""The record of devices: whoever has it but not the key changes nothing of it; whoever has the key says no nonsense with it."""

import base64
import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from tests.support.device_records import result, verification
from tests.support.golden import ROOT
from tests.support.schema import against
from tests.support.signed import key_in, write_small_bundle

from edgepack.bundles.manifest import digest, open_bundle
from edgepack.device.record import (
    kept_results,
    lay_record_files,
    read_record,
    record_file_of,
    record_files,
    require_device,
    write_record,
)
from edgepack.errors import BundleError, DeviceError, EdgepackError, OutputError, SignatureError
from edgepack.files.store import Store
from edgepack.records.bundle import Bundle
from edgepack.records.device import DeviceResult
from edgepack.records.target import ModelOptions
from edgepack.records.word import HERE
from edgepack.signing.envelope import PAYLOAD_TYPE, pae
from edgepack.signing.keys import PrivateKey
from edgepack.signing.signatures import signature_of
from edgepack.verifier.facts import OWN_LIMITS


@dataclass(frozen=True)
class Made:
    """A signed record, as it arrives on a machine that knows only the public key."""

    bundle: Bundle
    file: Path
    key: PrivateKey
    other: PrivateKey
    store: Store

    @property
    def signature(self) -> Path:
        return signature_of(self.file)

    def require(self, wanted: str = "pi4", limits: ModelOptions = OWN_LIMITS) -> str:
        found = require_device(
            self.file, self.bundle, wanted, limits=limits, key=self.key.public, store=self.store
        )
        return found.id


@pytest.fixture
def made(tmp_path: Path) -> Made:
    bundle = open_bundle(write_small_bundle(tmp_path / "out" / "bundle"))
    key, other = key_in(tmp_path), key_in(tmp_path, "other")
    file = record_file_of(bundle.directory, bundle.name)
    write_record(file, bundle, [result(), result("pi5")], key=key, store=Store(root=tmp_path / "makers"))
    return Made(bundle, file, key, other, Store(root=tmp_path / "mine"))


def test_a_signed_record_counts(made: Made) -> None:
    assert made.file.name == "bundle.devices.json"
    assert made.require() == "pi4"
    assert made.require("arm64") == made.require("aarch64") == "pi4"
    assert [each.name for each in record_files(made.bundle.directory, made.bundle)] == [
        "bundle.devices.json",
        "bundle.devices.json.sigstore.json",
    ]


def test_it_is_as_its_schema_says(made: Made) -> None:
    schema = json.loads((ROOT / "docs/schemas/devices.json").read_text())
    document = json.loads(made.file.read_text())
    assert list(against(schema, document)) == []
    document["predicate"]["devices"][0]["speed"] = None
    assert list(against(schema, document)) == []
    document["predicate"]["devices"][0]["devise"] = 1
    assert len(list(against(schema, document))) == 1


def test_what_was_written_here_counts_without_a_key(tmp_path: Path, made: Made) -> None:
    makers = Store(root=tmp_path / "makers")
    subject, record = read_record(made.file, key=None, store=makers)
    assert (subject, record.said_by) == (digest(made.bundle), HERE)
    assert record.results == (result(), result("pi5"))
    made.file.write_text(made.file.read_text().replace("0.998", "0.999"))
    assert not read_record(made.file, key=None, store=makers)[1].said_by.counts


def devices(document: Any) -> Any:
    return document["predicate"]["devices"]


CONTENT: dict[str, Callable[[Any], Any]] = {
    "another bundle": lambda said: said["subject"][0]["digest"].update(sha256="0" * 64),
    "another name": lambda said: said["subject"][0].update(name="other"),
    "a second bundle": lambda said: said["subject"].append(said["subject"][0]),
    "no bundle": lambda said: said["subject"].clear(),
    "another statement": lambda said: said.update(predicateType="https://slsa.dev/provenance/v1"),
    "another version of statements": lambda said: said.update(_type="https://in-toto.io/Statement/v0.1"),
    "another target": lambda said: said["predicate"].update(target="linux-x86-min"),
    "another id": lambda said: devices(said)[0].update(id="pi3"),
    "another transport": lambda said: devices(said)[0].update(transport="adb"),
    "another date": lambda said: devices(said)[0].update(at="2027-01-01T00:00:00+00:00"),
    "another version": lambda said: devices(said)[0].update(edgepack="9.9.9"),
    "another processor": lambda said: devices(said)[0]["device"].update(machine="riscv64"),
    "another kernel": lambda said: devices(said)[0]["device"].update(kernel="1.0"),
    "another board": lambda said: devices(said)[0]["device"].update(board="B"),
    "a level": lambda said: devices(said)[0]["device"].update(levels=["i8mm"]),
    "a better cosine": lambda said: devices(said)[0]["verification"].update(mean_cosine=0.9999),
    "a better lowest cosine": lambda said: devices(said)[0]["verification"].update(min_cosine=0.9999),
    "fewer limits": lambda said: devices(said)[0]["verification"].update(limits={}),
    "other texts drawn": lambda said: devices(said)[0]["verification"]["drawn"].update(seed=8),
    "other vectors": lambda said: devices(said)[0].update(vectors="cd" * 32),
    "another golden cosine": lambda said: devices(said)[0].update(golden_cosine=1.0),
    "more that ran": lambda said: devices(said)[0].update(ran=["server"]),
    "a faster device": lambda said: devices(said)[0]["speed"].update(first_vector_ms=1.0),
    "less memory": lambda said: devices(said)[0]["speed"].update(peak_mb=1.0),
    "a device less": lambda said: devices(said).pop(),
    "a device more": lambda said: devices(said).append({**devices(said)[0], "id": "pi6"}),
    "a device twice": lambda said: devices(said).append(devices(said)[0]),
    "two devices changed places": lambda said: devices(said).reverse(),
    "a key more": lambda said: devices(said)[0].update(note="trust me"),
    "a key less": lambda said: devices(said)[0].pop("status"),
    "another type": lambda said: devices(said)[0]["verification"].update(texts="200"),
}


def rewrite(file: Path, change: Callable[[Any], Any]) -> None:
    document = json.loads(file.read_text())
    change(document)
    file.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


@pytest.mark.parametrize("change", CONTENT.values(), ids=CONTENT)
def test_a_changed_record_is_rejected(change: Callable[[Any], Any], made: Made) -> None:
    rewrite(made.file, change)
    with pytest.raises((SignatureError, BundleError, DeviceError)):
        made.require()


@pytest.mark.parametrize("change", CONTENT.values(), ids=CONTENT)
def test_a_record_changed_within_its_signature_is_rejected(change: Callable[[Any], Any], made: Made) -> None:
    """The file and the envelope say the same, and the signature is of what they said before."""
    rewrite(made.file, change)

    def exchange(document: Any) -> None:
        document["dsseEnvelope"]["payload"] = base64.b64encode(made.file.read_bytes()).decode()

    rewrite(made.signature, exchange)
    with pytest.raises((SignatureError, BundleError, DeviceError)):
        made.require()


def envelope(document: Any) -> Any:
    return document["dsseEnvelope"]


def flipped(text: str) -> str:
    content = bytearray(base64.b64decode(text))
    content[len(content) // 2] ^= 1
    return base64.b64encode(content).decode()


ENVELOPE: dict[str, Callable[[Made, Any], Any]] = {
    "a bit of the signature": lambda made, said: envelope(said)["signatures"][0].update(
        sig=flipped(envelope(said)["signatures"][0]["sig"])
    ),
    "a bit of the payload": lambda made, said: envelope(said).update(
        payload=flipped(envelope(said)["payload"])
    ),
    "another payload's type": lambda made, said: envelope(said).update(payloadType="text/plain"),
    "no signature": lambda made, said: envelope(said)["signatures"].clear(),
    "two signatures": lambda made, said: envelope(said)["signatures"].append(envelope(said)["signatures"][0]),
    "another key's signature": lambda made, said: envelope(said)["signatures"][0].update(
        sig=base64.b64encode(made.other.sign(sha256(pae(made.file.read_bytes())).digest())).decode()
    ),
    "another key's name": lambda made, said: said["verificationMaterial"].update(
        publicKey={"hint": made.other.public.hint}
    ),
    "no envelope": lambda made, said: said.pop("dsseEnvelope"),
}


@pytest.mark.parametrize("change", ENVELOPE.values(), ids=ENVELOPE)
def test_a_changed_signature_is_rejected(change: Callable[[Made, Any], Any], made: Made) -> None:
    rewrite(made.signature, lambda document: change(made, document))
    with pytest.raises(SignatureError):
        made.require()


def test_a_signature_of_another_record_is_rejected(tmp_path: Path, made: Made) -> None:
    other = tmp_path / "other.devices.json"
    write_record(other, made.bundle, [result("pi9")], key=made.key, store=made.store)
    made.signature.write_bytes(signature_of(other).read_bytes())
    with pytest.raises(SignatureError):
        made.require()


def test_without_its_signature_it_is_its_makers_word(made: Made) -> None:
    made.signature.unlink()
    with pytest.raises(DeviceError, match="is its maker's word") as caught:
        made.require()
    assert caught.value.exit_code == 24


def test_a_record_of_another_bundle(tmp_path: Path, made: Made) -> None:
    other = write_small_bundle(tmp_path / "other" / "bundle", b"#!/bin/sh\n# another\n")
    with pytest.raises(DeviceError, match="is of another bundle"):
        require_device(
            made.file, open_bundle(other), "pi4", limits=OWN_LIMITS, key=made.key.public, store=made.store
        )
    assert record_files(other, open_bundle(other)) == ()


@pytest.mark.parametrize("wanted", ["pi", "x86_64", "amd64", "PI4", ""])
def test_a_device_that_it_does_not_have(wanted: str, made: Made) -> None:
    with pytest.raises(DeviceError, match="no record of") as caught:
        made.require(wanted)
    assert caught.value.hint == "devices of the record: pi4 (aarch64), pi5 (aarch64)"


def test_the_limits_of_whoever_asks_apply(made: Made) -> None:
    with pytest.raises(DeviceError, match=r"has not passed on pi4: mean cosine 0\.9980 is below 0\.999"):
        made.require(limits=ModelOptions(min_cosine=0.999))


NONSENSE = {
    "passed, and its figures did not": [result(verification=verification(status="failed", reason="x"))],
    "passed below its own limits": [result(verification=verification(mean_cosine=0.5))],
    "passed on fewer texts": [result(verification=verification(texts=10))],
    "passed without texts drawn anew": [result(verification=verification(drawn=None))],
    "passed without vectors": [result(vectors="")],
    "words without end": [result(transport="x" * 3000)],
    "levels without end": [result(ran=("x",) * 2000)],
    "a level without end": [result(ran=("x" * 3000,))],
    "devices without end": [result(f"pi{number}") for number in range(2000)],
    "no number": [result(golden_cosine=float("nan"))],
    "one device twice": [result(), result()],
}


@pytest.mark.parametrize("said", NONSENSE.values(), ids=NONSENSE)
def test_nonsense_is_no_record_whoever_signs_it(
    said: list[DeviceResult], made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = made.file.read_bytes(), made.signature.read_bytes()
    with pytest.raises(OutputError, match="is not written"):
        write_record(made.file, made.bundle, said, key=made.key, store=made.store)
    assert (made.file.read_bytes(), made.signature.read_bytes()) == before
    write_record(made.file, made.bundle, [result()], key=made.key, store=made.store)
    monkeypatch.setattr("edgepack.device.record._require_readable", lambda file, content: None)
    write_record(made.file, made.bundle, said, key=made.key, store=made.store)
    with pytest.raises(BundleError, match="cannot be read"):
        made.require()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b"null",
        b"[" * 100_000,
        b'{"_type": 1e999}',
        b'{"a":1,"a":2}',
        b"\xff",
        b"x" * (5 << 20),
    ],
    ids=range(9),
)
def test_files_that_are_no_record(content: bytes, made: Made) -> None:
    made.file.write_bytes(content)
    with pytest.raises(BundleError, match="cannot be read"):
        made.require()


@pytest.mark.parametrize(
    "change",
    [
        lambda said: said.update(_type="https://in-toto.io/Statement/v0.1"),
        lambda said: said.update(predicateType="https://slsa.dev/provenance/v1"),
        lambda said: said["subject"][0]["digest"].update(sha256="0" * 63),
        lambda said: said["subject"].append(said["subject"][0]),
    ],
    ids=["another version of statements", "another statement", "no digest", "two subjects"],
)
def test_another_statement_is_no_record(change: Callable[[Any], Any], made: Made) -> None:
    rewrite(made.file, change)
    with pytest.raises(BundleError, match="it is no statement of devices"):
        read_record(made.file, key=None, store=made.store)
    assert record_files(made.bundle.directory, made.bundle) == ()
    with pytest.raises(BundleError, match="it is no statement of devices"):
        lay_record_files(made.bundle, made.file.read_bytes(), None, force=True, store=made.store)


def test_devices_stay_in_a_record_of_ours_until_they_fail(made: Made) -> None:
    def write(*results: Any, failed: tuple[str, ...] = ()) -> list[tuple[str, str]]:
        write_record(made.file, made.bundle, results, failed=failed, key=made.key, store=made.store)
        read = read_record(made.file, key=None, store=made.store)[1]
        return [(each.id, each.transport) for each in read.results]

    assert write(result("pi4", transport="adb")) == [("pi5", "ssh"), ("pi4", "adb")]
    assert write(failed=("pi5",)) == [("pi4", "adb")]


def test_those_who_measure_at_once_add_to_one_record(tmp_path: Path) -> None:
    bundle, store = (
        open_bundle(write_small_bundle(tmp_path / "out" / "bundle")),
        Store(root=tmp_path / "store"),
    )
    file, names = record_file_of(bundle.directory, bundle.name), [f"pi{number}" for number in range(8)]
    with ThreadPoolExecutor(len(names)) as pool:
        wait(
            [pool.submit(write_record, file, bundle, [result(name)], key=None, store=store) for name in names]
        )
    found = read_record(file, key=None, store=store)[1]
    assert sorted(each.id for each in found.results) == names and found.said_by == HERE
    assert len(list(file.parent.iterdir())) == 2


def test_a_record_of_somebody_else_is_not_replaced(made: Made) -> None:
    before = made.file.read_bytes()
    for key in (None, made.other):
        with pytest.raises((OutputError, SignatureError)):
            write_record(made.file, made.bundle, [result()], key=key, store=made.store)
    assert made.file.read_bytes() == before
    assert len(kept_results(made.file, made.bundle, key=made.key.public, store=made.store)) == 2


def test_the_signature_is_of_an_in_toto_statement(made: Made) -> None:
    said = json.loads(made.signature.read_text())["dsseEnvelope"]
    assert said["payloadType"] == PAYLOAD_TYPE
    assert base64.b64decode(said["payload"]) == made.file.read_bytes()


def test_an_unsigned_record_takes_the_old_signature_away(made: Made) -> None:
    write_record(made.file, made.bundle, [result()], key=made.key, store=made.store)
    write_record(made.file, made.bundle, [result()], key=None, store=made.store)
    assert not made.signature.exists()
    with pytest.raises(EdgepackError):
        require_device(
            made.file, made.bundle, "pi4", limits=OWN_LIMITS, key=None, store=Store(root=Path("/nonexistent"))
        )


@pytest.mark.parametrize("bad", ["x\n\nverified ✓ by this machine", "\x1b[2Jx", "y" * 100_000])
def test_what_is_wrong_with_a_record_is_said_in_one_line(made: Made, bad: str) -> None:
    said = json.loads(made.file.read_text())
    device = said["predicate"]["devices"][0]
    for change in (
        {"verification": {**device["verification"], "limits": {bad: {}}}},
        {bad: 1},
        {"id": [bad]},
        {"status": bad},
    ):
        altered = {**said, "predicate": {**said["predicate"], "devices": [{**device, **change}]}}
        made.file.write_text(json.dumps(altered))
        with pytest.raises(BundleError) as caught:
            read_record(made.file, key=None, store=made.store)
        words = caught.value.message + (caught.value.hint or "")
        assert words.isprintable() and "✓" not in words and len(words) < 1000


@pytest.mark.parametrize("kind", ["link", "pipe", "other"])
def test_what_lies_in_the_place_of_a_signature_is_not_sent_along(kind: str, made: Made) -> None:
    """Beside a stranger's bundle it may lead to a private key; `push` would publish it."""
    content = made.signature.read_bytes()
    made.signature.unlink()
    if kind == "link":
        made.file.with_name("private").write_bytes(content)
        made.signature.symlink_to(made.file.with_name("private"))
    elif kind == "pipe":
        os.mkfifo(made.signature)
    else:
        made.signature.write_text('{"private": "key"}')
    assert record_files(made.bundle.directory, made.bundle) == (made.file,)


def test_what_was_measured_here_is_not_replaced_by_what_came(made: Made, tmp_path: Path) -> None:
    """A registry could otherwise take a proof away."""
    came = made.file.read_bytes()
    own = Store(root=tmp_path / "own")
    made.file.unlink()
    write_record(made.file, made.bundle, [result("mine")], key=None, store=own)
    before = made.file.read_bytes()
    assert lay_record_files(made.bundle, came, None, force=True, store=own) is None
    assert made.file.read_bytes() == before
    assert lay_record_files(made.bundle, came, None, force=True, store=made.store) == made.file
    assert made.file.read_bytes() == came


def test_a_device_that_is_called_as_a_processor_is_not_one(tmp_path: Path) -> None:
    bundle = open_bundle(write_small_bundle(tmp_path / "bundle"))
    file, store = record_file_of(bundle.directory, bundle.name), Store(root=tmp_path / "store")
    other = result("arm64")
    write_record(
        file,
        bundle,
        [replace(other, device=replace(other.device, machine="x86_64"))],
        key=None,
        store=store,
    )
    with pytest.raises(DeviceError, match="no record of"):
        require_device(file, bundle, "arm64", limits=OWN_LIMITS, key=None, store=store)
    assert require_device(file, bundle, "x64", limits=OWN_LIMITS, key=None, store=store).id == "arm64"
