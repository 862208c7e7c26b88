"""The record of what devices measured of a bundle: an in-toto statement beside the bundle, signed where there is a key."""

import hashlib
import json
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from edgepack.bundles.manifest import digest
from edgepack.bundles.place import held_place
from edgepack.device.session import Address
from edgepack.errors import BundleError, DeviceError, OutputError
from edgepack.files.folder import named_path
from edgepack.files.store import Store, written_beside
from edgepack.records.bundle import Bundle
from edgepack.records.device import DeviceDescription, DeviceResult
from edgepack.records.figures import figures_of, shortfalls
from edgepack.records.target import ModelOptions
from edgepack.records.word import HERE, MAKER, Word
from edgepack.signing.keys import PrivateKey, PublicKey
from edgepack.signing.signatures import require_signed_file, sign_file, signature_of
from edgepack.terminal_text import foreign
from edgepack.toml_schema import Malformed, check_value, parse_foreign, read_foreign
from edgepack.verifier.trusted_bundles import DEVICE_RECORDS, is_kept, keep

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://github.com/edgepack/edgepack/blob/main/docs/reference/devices.md#device-record-v1"
"""Of edgepack's own: in-toto's ``eval-result`` (attestation PR #575) was not settled on 2026-11-24, and has no place for a device."""
SUFFIX = ".devices.json"
MOST = 4 << 20
"""Bytes of a record; one of a device has some 2,500."""
DEVICES, LETTERS, ITEMS = 1000, 2000, 1000
"""Most devices of a record, letters of a text in it, and things of a list."""
ALIASES = {"arm64": "aarch64", "x86-64": "x86_64", "amd64": "x86_64", "x64": "x86_64", "armv7": "armv7l"}
"""Names of processors that people use beside ``uname -m``'s."""
TEXTS = 200


@dataclass(frozen=True, kw_only=True)
class DeviceRecord:
    """A record that was read, and whose word it is."""

    said_by: Word
    results: tuple[DeviceResult, ...]


def record_file_of(path: Path, name: str) -> Path:
    """Path of the record of a bundle, in its folder or archive: beside it."""
    path = named_path(path)
    return path.parent / f"{path.name if path.is_dir() else name}{SUFFIX}"


def statement_of(bundle: Bundle, results: Iterable[DeviceResult]) -> dict[str, Any]:
    """The statement about a bundle, which the digest of its manifest names."""
    return {
        "_type": STATEMENT,
        "subject": [{"name": bundle.name, "digest": {"sha256": digest(bundle)}}],
        "predicateType": PREDICATE,
        "predicate": {
            "target": str(bundle.manifest["target"]["name"]),
            "devices": [asdict(result) for result in results],
        },
    }


def write_record(
    file: Path,
    bundle: Bundle,
    results: Sequence[DeviceResult],
    *,
    failed: Collection[str] = (),
    key: PrivateKey | None,
    store: Store,
) -> None:
    """Write what devices measured, and sign it with ``key``; devices that an earlier record of ours has stay in it, but for those that ``failed`` now.

    A record without a device is removed. Raises ``OutputError`` for a record of somebody else's, which is never replaced, and for what no record says.
    """
    if not results and not os.path.lexists(file):
        return
    # Who measures on another device at the same time adds to it afterwards.
    with held_place(file, waiting=lambda: None):
        _write(file, bundle, results, failed, key, store)


def _write(
    file: Path,
    bundle: Bundle,
    results: Sequence[DeviceResult],
    failed: Collection[str],
    key: PrivateKey | None,
    store: Store,
) -> None:
    kept = kept_results(file, bundle, key=None if key is None else key.public, store=store)
    measured = {*failed, *(result.id for result in results)}
    every = [*(each for each in kept if each.id not in measured), *results]
    if not results and len(every) == len(kept):
        return
    text = json.dumps(statement_of(bundle, every), indent=1, ensure_ascii=False) + "\n"
    content = text.encode()
    _require_readable(file, content)
    try:
        if not every:
            file.unlink()
            signature_of(file).unlink(missing_ok=True)
            return
        # Before it is there: whoever reads it then knows whose it is.
        keep(DEVICE_RECORDS, hashlib.sha256(content).hexdigest(), store=store)
        with written_beside(file) as beside:
            signature_of(file).unlink(missing_ok=True)
            beside.write_bytes(content)
        if key is not None:
            sign_file(file, key)
    except OSError as error:
        raise OutputError(
            f"cannot write {file}: {error.strerror}", hint="--record names another file"
        ) from error


def _require_readable(file: Path, content: bytes) -> None:
    """Nothing takes the place of a record that could not be read again. Raises ``OutputError``."""
    try:
        if len(content) > MOST:
            raise Malformed(f"it would have {len(content):,} bytes")
        _parse(parse_foreign(content))
    except ValueError as error:
        raise OutputError(
            f"{file} is not written: {error}", hint="leave out the device that says so"
        ) from error


def proof_at(at: Address, device: DeviceDescription, bundle: Bundle) -> str:
    """SHA-256 of what a record does not say: at which address, of a device that said this of itself, a bundle was proved."""
    lasting = replace(device, governor="", memory=0)
    return hashlib.sha256(json.dumps([at.address, asdict(lasting), digest(bundle)]).encode()).hexdigest()


def kept_results(
    file: Path, bundle: Bundle, *, key: PublicKey | None, store: Store
) -> tuple[DeviceResult, ...]:
    """Results of this bundle in a record that is to be replaced. Raises ``OutputError`` where it is not ours, nor signed with our key."""
    if not os.path.lexists(file):
        return ()
    try:
        found = read_record(file, key=key, store=store)
    except BundleError:
        found = None
    if found is None or not found[1].said_by.counts:
        raise OutputError(
            f"{file} is somebody else's record, or none", hint="--record names another file, or move it away"
        )
    return found[1].results if found[0] == digest(bundle) else ()


def read_record(file: Path, *, key: PublicKey | None, store: Store) -> tuple[str, DeviceRecord]:
    """The digest of the bundle that a record is of, and what it says.

    Raises ``BundleError`` for what is no record, and ``SignatureError`` for one whose signature is not one of ``key``.
    """
    try:
        content = read_foreign(file, most=MOST)
        subject, results = _parse(parse_foreign(content))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = error if isinstance(error, (Malformed, OSError)) else "it is no statement of devices"
        raise BundleError(
            f"{file} cannot be read: {why}", hint="`edgepack verify --on DEVICE` writes it"
        ) from error
    said_by = MAKER
    if is_kept(DEVICE_RECORDS, hashlib.sha256(content).hexdigest(), store=store):
        said_by = HERE
    elif key is not None and require_signed_file(file, key, statement=PREDICATE):
        said_by = Word(whose="key", key=key.hint)
    return subject, DeviceRecord(said_by=said_by, results=results)


def _parse(statement: Mapping[str, Any]) -> tuple[str, tuple[DeviceResult, ...]]:
    """Raises what ``read_record`` knows for whatever edgepack does not write."""
    (subject,) = statement["subject"]
    named = str(subject["digest"]["sha256"])
    said = statement["predicate"]["devices"]
    if (
        statement["_type"] != STATEMENT
        or statement["predicateType"] != PREDICATE
        or not re.fullmatch(r"[0-9a-f]{64}", named)
        or len(said) > DEVICES
    ):
        raise ValueError("another statement")
    results: tuple[DeviceResult, ...] = check_value(tuple[DeviceResult, ...], said, "devices")
    for result in results:
        _require_bounded(result)
        _require_consistent(result)
    if len({result.id for result in results}) != len(results):
        raise Malformed("a device is there twice")
    return named, results


def _require_bounded(value: Any) -> None:
    if isinstance(value, str) and len(value) > LETTERS:
        raise Malformed(f"a text has {len(value):,} letters")
    if is_dataclass(value):
        for each in fields(value):
            _require_bounded(getattr(value, each.name))
    elif isinstance(value, (tuple, Mapping)):
        if len(value) > ITEMS:
            raise Malformed(f"a list has {len(value):,} things in it")
        for each in value.values() if isinstance(value, Mapping) else value:
            _require_bounded(each)


def _require_consistent(result: DeviceResult) -> None:
    """Check that a result agrees with itself: one that passed has run, and its figures are above its limits."""
    found = result.verification
    if result.status != found.status:
        raise Malformed(f"{result.id} {result.status}, and its figures {found.status}")
    if result.status != "passed":
        return
    if found.texts != TEXTS or found.drawn is None or not re.fullmatch(r"[0-9a-f]{64}", result.vectors):
        raise Malformed(f"{result.id} passed without having been run on all texts")
    if short := [each.shortfall for each in figures_of(found) if each.shortfall]:
        raise Malformed(f"{result.id} passed, and {short[0]}")


def record_files(path: Path, bundle: Bundle) -> tuple[Path, ...]:
    """The record beside a bundle's folder or archive, and its signature where it has one; empty where there is none of this very bundle.

    Nobody vouches for it but its signer: whoever gets the files has the signature to check.
    """
    file = record_file_of(path, bundle.name)
    try:
        subject, _ = _parse(parse_foreign(read_foreign(file, most=MOST)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return ()
    if subject != digest(bundle):
        return ()
    return (file, *(each for each in (signature_of(file),) if _is_signature(each)))


def _is_signature(file: Path) -> bool:
    """Whether a file has the form of a signature: what lies there may lead to a file of this machine that is nobody's business."""
    try:
        found = None if file.is_symlink() else parse_foreign(read_foreign(file, most=MOST))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, Mapping) and "dsseEnvelope" in found


def lay_record_files(
    bundle: Bundle, record: bytes, signature: bytes | None, *, force: bool, store: Store
) -> Path | None:
    """Write a record that came with a bundle beside its folder, under our name; ``None`` where another lies there, which only ``force`` replaces,
    and not even that what this machine measured of this very bundle.

    Whose word it is, who reads it asks. Raises ``BundleError`` for what is no record of this very bundle, ``OutputError``.
    """
    file = record_file_of(bundle.directory, bundle.name)
    try:
        if len(record) > MOST:
            raise Malformed(f"it has {len(record):,} bytes")
        subject, _ = _parse(parse_foreign(record))
        if subject != digest(bundle):
            raise Malformed(f"it is of another bundle, {subject[:12]}…")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = error if isinstance(error, Malformed) else "it is no statement of devices"
        raise BundleError(f"the record of devices of {bundle.name}: {why}", hint="push it again") from error
    if os.path.lexists(file) and (not force or _is_ours(file, bundle, store)):
        return None
    try:
        with written_beside(file) as beside:
            signature_of(file).unlink(missing_ok=True)
            beside.write_bytes(record)
        if signature is not None:
            with written_beside(signature_of(file)) as beside:
                beside.write_bytes(signature)
    except OSError as error:
        raise OutputError(f"cannot write {file}: {error.strerror}", hint="name another folder") from error
    return file


def _is_ours(file: Path, bundle: Bundle, store: Store) -> bool:
    try:
        subject, found = read_record(file, key=None, store=store)
    except BundleError:
        return False
    return subject == digest(bundle) and found.said_by == HERE


def falls_short(result: DeviceResult, limits: ModelOptions) -> str:
    """Words for why a bundle has not passed on a device by these limits, whatever those were by which it was measured; empty where it has."""
    if result.status != "passed":
        return result.verification.reason or result.status
    return next(iter(shortfalls(result.verification, limits)), "")


def require_device(
    file: Path, bundle: Bundle, wanted: str, *, limits: ModelOptions, key: PublicKey | None, store: Store
) -> DeviceResult:
    """The result of a device of this id or processor on which this very bundle passed, by a record that counts.

    ``limits`` hold, whatever the record's own were. Raises ``DeviceError``, ``BundleError`` and ``SignatureError``.
    """
    if not os.path.lexists(file):
        raise DeviceError(
            f"there is no record of devices for {bundle.name}: no {file}",
            hint="`edgepack verify BUNDLE --on DEVICE` writes one; --record names another file",
        )
    subject, record = read_record(file, key=key, store=store)
    if not record.said_by.counts:
        raise DeviceError(
            f"{file} is its maker's word: it was not written on this machine, and is not signed with a key that you named",
            hint="--key names the public key of whoever measured",
        )
    if subject != digest(bundle):
        raise DeviceError(
            f"{file} is of another bundle: {subject[:12]}…, and {bundle.name} is {digest(bundle)[:12]}…",
            hint="measure this one: `edgepack verify BUNDLE --on DEVICE`",
        )
    machine = ALIASES.get(wanted, wanted)
    # A device may be called arm64 and be none: the word is the processor's.
    named = wanted not in {*ALIASES, *ALIASES.values()}
    known = [
        each for each in record.results if machine == each.device.machine or (named and wanted == each.id)
    ]
    if passed := [each for each in known if not falls_short(each, limits)]:
        return passed[0]
    if known:
        raise DeviceError(
            f"{bundle.name} has not passed on {wanted}: {foreign(falls_short(known[0], limits))}",
            hint="build it again, or measure it again",
        )
    have = sorted({f"{foreign(each.id)} ({foreign(each.device.machine)})" for each in record.results})
    raise DeviceError(
        f"no record of {bundle.name} on {wanted}",
        hint=f"devices of the record: {', '.join(have[:20]) or 'none'}",
    )
