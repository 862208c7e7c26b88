"""What is remembered of a project's bundles beside them: of what each was made, and what came out."""

import errno
import hashlib
import json
import platform
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from edgepack.building.outcome import Outcome, files_beside
from edgepack.bundles.manifest import SIGNATURE, digest, open_bundle
from edgepack.bundles.place import held_as_it_is, held_place, placed_beside
from edgepack.context import BuildContext
from edgepack.errors import BundleError, OutputError
from edgepack.files.folder import is_below, named_path
from edgepack.files.store import Store, sha256_of
from edgepack.plugins.host import PluginHost
from edgepack.records.bundle import Bundle
from edgepack.signing.envelope import is_signature
from edgepack.signing.signatures import signature_of
from edgepack.toml_schema import parse_foreign, read_foreign
from edgepack.verifier.trusted_bundles import PROJECT_BUILDS, is_kept, keep

REMEMBERED = ".edgepack-build.json"
"""In an output folder: bundle → what it was made of, its digest, and the files beside it."""
MOST = 16 << 20
"""Bytes of it."""
Files = Mapping[str, Mapping[str, Any]]
"""Paths, relative to the output folder → size and SHA-256."""
_PARTS = {"key": str, "digest": str, "files": dict, "delegates": list}
SIGNING = "signing"
"""While a bundle is signed, and after a kill: the signatures that were there before."""


def memory_of(key: str, outcome: Outcome) -> dict[str, Any]:
    """Record of a bundle that was made, for the next time. The bundle lies where it is to stay."""
    folder = outcome.bundle.directory
    names = [*(each.name for each in files_beside(folder)), *(each.file for each in outcome.report.packages)]
    return {
        "key": key,
        "digest": outcome.report.digest,
        "files": described(folder.parent, names),
        "delegates": outcome.bundle.manifest["made_by"].get("delegates", []),
    }


def described(output: Path, names: Iterable[str]) -> Files:
    """Size and SHA-256 of files in a folder. Raises ``OSError`` where one cannot be read, or is none: a device has no end."""
    names = tuple(names)
    if strange := [name for name in names if not is_below(name) or not (output / name).is_file()]:
        raise FileNotFoundError(errno.ENOENT, "no file", strange[0])
    return {
        name: {"size": (output / name).stat().st_size, "sha256": sha256_of(output / name)} for name in names
    }


def is_up_to_date(folder: Path, key: str, host: PluginHost) -> bool:
    """Whether the bundle in ``folder`` was made of the same, and is as it was made, with all that lies beside it."""
    known = _remembered(folder.parent).get(folder.name)
    if known is None or known["key"] != key or not same_delegates(known, host):
        return False
    try:
        bundle = open_bundle(folder)
        return _is_as_made(folder, known) and digest(bundle) == known["digest"] and holds_installed(bundle)
    except BundleError:
        return False


def is_ours(folder: Path, *, store: Store) -> bool:
    """Whether what is remembered of a bundle was written by a build of this user's, or came from a store whose secret is known."""
    known = _remembered(folder.parent).get(folder.name)
    return known is not None and is_kept(PROJECT_BUILDS, _digest_of_memory(folder, known), store=store)


def _digest_of_memory(folder: Path, known: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps([folder.name, known], sort_keys=True).encode()).hexdigest()


def require_replaceable(folder: Path, packages: Iterable[Path] = (), *, force: bool) -> None:
    """Raise ``OutputError`` where something signed lies there that no build of a project has remembered: nobody could make it again.

    Of all that lies there the signature is remembered, or what it is of; or whoever was signing was killed, and left it.
    """
    if force:
        return
    known = _remembered(folder.parent).get(folder.name, {"digest": None, "files": {}})
    for signed in (folder, *files_beside(folder), *packages):
        signature = folder / SIGNATURE if signed == folder else signature_of(signed)
        as_made = _is_any_as_made(folder, known, signed, signature)
        if is_signature(signature) and not (as_made or _is_left(folder, known, signature)):
            raise OutputError(
                f"{signed} is signed, and no build of a project has made it, so it is not replaced",
                hint="--force replaces a bundle; or name another `output`",
            )


def _is_left(folder: Path, known: Mapping[str, Any], signature: Path) -> bool:
    """Whether a signature came after somebody had begun to sign the bundle, and had not ended."""
    there, name = known.get(SIGNING), signature.relative_to(folder.parent).as_posix()
    return (
        there is not None
        and signature.is_file()
        and described(folder.parent, [name])[name] != there.get(name)
    )


def holds_installed(bundle: Bundle) -> bool:
    """Whether Python and the packages that are frozen into a bundle are still the installed ones; what is compiled has the key's sources."""
    said = bundle.manifest["runner"].get("versions", {})
    return all(said[name] == installed for name, installed in _installed() if name in said)


def _installed() -> Iterator[tuple[str, str]]:
    yield "python", platform.python_version()
    for name in ("pyinstaller", "tokenizers"):
        with suppress(PackageNotFoundError):
            yield name, version(name)


def _is_as_made(folder: Path, known: Mapping[str, Any], *only: str) -> bool:
    names = only or known["files"]
    try:
        return described(folder.parent, names) == {name: known["files"][name] for name in names}
    except (OSError, ValueError):
        return False


def _is_any_as_made(folder: Path, known: Mapping[str, Any], *files: Path) -> bool:
    names = {each.relative_to(folder.parent).as_posix() for each in files} & known["files"].keys()
    return any(_is_as_made(folder, known, name) for name in names)


def same_delegates(memory: Mapping[str, Any], host: PluginHost) -> bool:
    """Whom a builder delegates to is known when it has: whether these are still of the same versions."""
    return all(_made_by(host, each["builder"]) == each for each in memory["delegates"])


def _made_by(host: PluginHost, builder: str) -> dict[str, str]:
    """Maker as a manifest names a delegate; nothing for one that is not there any more."""
    found = host.builders.get(builder)
    return {"builder": builder, "plugin": found.distribution, "version": found.version} if found else {}


def remember(
    folder: Path, memory: Mapping[str, Any], *, ours: bool, store: Store, signing: Files | None = None
) -> None:
    """Several builds may be remembering bundles of one output folder. ``ours``: as ``is_ours`` asks."""
    file = folder.parent / REMEMBERED
    with held_place(file, waiting=lambda: None), placed_beside(file) as temporary:
        known = {part: memory[part] for part in _PARTS}
        if signing is not None:
            known[SIGNING] = signing
        if ours:
            keep(PROJECT_BUILDS, _digest_of_memory(folder, known), store=store)
        text = json.dumps({**_remembered(folder.parent), folder.name: known}, indent=1, sort_keys=True)
        temporary.write_text(text + "\n", encoding="utf-8")


def packages_beside(folder: Path) -> list[Path]:
    """Packages of a bundle of a project, which lie beside it as they were made."""
    known = _remembered(folder.parent).get(folder.name)
    if known is None or not _is_as_made(folder, known):
        return []
    beside = {folder.parent / name for name in known["files"]} - {*files_beside(folder), folder / SIGNATURE}
    return sorted(beside - {signature_of(each) for each in (*beside, *files_beside(folder))})


@contextmanager
def signing(path: Path, *, context: BuildContext) -> Iterator[bool]:
    """Around the signing of a bundle in its folder, which changes its archive: what was as remembered before is so after it.

    Whether it was. No other run puts a bundle in its place until it is signed with all that lies beside it.
    """
    path = named_path(path)
    with held_as_it_is(path, waiting=context.warn):
        known = _remembered(path.parent).get(path.name) if path.is_dir() else None
        if known is None or not _is_as_made(path, known):
            yield False
            return
        ours = is_ours(path, store=context.store)
        there = known.get(SIGNING, _signatures(path, known))
        remember(path, known, ours=ours, store=context.store, signing=there)
        try:
            yield True
        except Exception:
            forget_signing(path, store=context.store)
            raise
        files = described(path.parent, sorted({*known["files"], *_signatures(path, known)}))
        remember(path, {**known, "files": files}, ours=ours, store=context.store)


def forget_signing(folder: Path, *, store: Store) -> None:
    """Take the mark of a signing away that ended before anything was signed, as a kill leaves it: what comes later is not its own."""
    known = _remembered(folder.parent).get(folder.name, {})
    if SIGNING in known and known[SIGNING] == _signatures(folder, known):
        remember(folder, known, ours=is_ours(folder, store=store), store=store)


def _signatures(folder: Path, known: Mapping[str, Any]) -> Files:
    """Those that lie in a bundle's folder and beside it."""
    output = folder.parent
    places = [folder / SIGNATURE, *(signature_of(output / name) for name in known["files"])]
    return described(output, [each.relative_to(output).as_posix() for each in places if each.is_file()])


def is_memory(value: object) -> bool:
    """Whether this is what ``memory_of`` returns."""
    return (
        isinstance(value, dict)
        and all(isinstance(value.get(part), kind) for part, kind in _PARTS.items())
        and isinstance(value.get(SIGNING, {}), dict)
        and all(
            isinstance(each, dict) and isinstance(each.get("builder"), str) for each in value["delegates"]
        )
    )


def _remembered(output: Path) -> dict[str, Any]:
    """Nothing where the file is not there or damaged: everything is made again then."""
    with suppress(OSError, ValueError, RecursionError):
        known = parse_foreign(read_foreign(output / REMEMBERED, most=MOST))
        if isinstance(known, dict) and all(map(is_memory, known.values())):
            return known
    return {}
