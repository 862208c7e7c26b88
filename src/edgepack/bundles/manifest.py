"""The manifest: what a bundle holds, file by file, and where it came from."""

import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict
from pathlib import Path, PurePosixPath
from typing import Any

import edgepack
from edgepack.bundles.model_section import NAMED, source_section
from edgepack.errors import BundleError, reason_of
from edgepack.files.folder import named_path
from edgepack.files.store import inflated, sha256_of
from edgepack.records.bundle import Bundle, RunnerArtifact
from edgepack.records.figures import LIMITS
from edgepack.records.model import ModelSource, PreparedModel
from edgepack.records.operators import Operators
from edgepack.records.runtime import ONNX_RUNTIME, RuntimeArtifact
from edgepack.records.target import ModelOptions, Target
from edgepack.toml_schema import parse_foreign

SCHEMA = 1
MANIFEST = "manifest.json"
MOST = 16 << 20
"""Bytes that a manifest may have; those of edgepack's own bundles have some thousands."""
LONGEST_NAME = 200
"""Letters of a bundle's name."""
SIGNATURE = "signature.sigstore.json"
"""Who signs a bundle puts it there; it signs the manifest, which therefore does not list it."""
GOLDEN = "golden.json"
LICENSES = "LICENSES"
TOKENIZER = "model/tokenizer.json"
LINK = "link"
"""The ``mode`` of a symbolic link; its content, as far as size and digest go, is the path it points to."""

PARTS = ("model", "tokenizer", "runtime", "runner", "licenses", "golden")
"""The parts that edgepack itself names, in the order of reports; a runner may name others (``RunnerArtifact.parts``)."""
ENCODED = "encoded"
"""Compressed copies for servers that do not compress: another file's name with ``.br`` or ``.gz`` after it."""

JSON_LINES = ("--jsonl", "--out", "jsonl")
"""What a program of edgepack's own is run with: JSON lines in, JSON lines out."""

_SECTIONS: Mapping[str, type | tuple[type, ...]] = {
    "name": str,
    "edgepack": str,
    "target": dict,
    "model": dict,
    "runtime": (dict, type(None)),
    "runner": dict,
    "golden": str,
    "gate": dict,
    "files": list,
}
_INNER: Mapping[tuple[str, ...], type | tuple[type, ...]] = {
    ("target", "name"): str,
    ("target", "summary"): str,
    ("target", "platform"): dict,
    ("target", "platform", "os"): str,
    ("target", "platform", "arch"): str,
    ("target", "platform", "glibc"): (str, type(None)),
    ("target", "extra"): dict,
    ("model", "name"): str,
    ("model", "origin"): str,
    ("model", "dimension"): int,
    ("model", "max_length"): int,
    ("model", "normalize"): bool,
    ("model", "file"): str,
    ("model", "tokenizer"): str,
    ("model", "set"): dict,
    ("model", "prefixes"): dict,
    ("model", "labels"): list,
    ("model", "outputs"): dict,
    ("model", "pieces"): list,
    ("model", "embedder"): str,
    ("model", "vectors_sha256"): str,
    ("model", "source_files"): list,
    ("model", "warnings"): list,
    ("model", "license"): (str, type(None)),
    ("model", "precision"): str,
    ("runtime", "operators"): (list, type(None)),
    ("runtime", "provider"): dict,
    ("runtime", "provider", "libraries"): list,
    ("runtime", "provider", "system"): list,
    ("runtime", "library"): str,
    ("runtime", "version"): str,
    ("runtime", "kind"): str,
    ("runner", "program"): str,
    ("runner", "kind"): str,
    ("runner", "exact"): str,
    ("runner", "versions"): dict,
    ("made_by",): dict,
    ("checks",): list,
    ("visits",): dict,
}
"""Of these, what is there is of that kind."""
_NEEDED = frozenset(
    {("target", "name"), ("runtime", "version"), ("runtime", "kind")}
    | {("model", key) for key in ("name", "origin", "dimension", "normalize", "license", "precision")}
)
"""Of those, what every bundle has: reports and tables say it of each."""
REMAKE = "make the bundle again, or unpack its archive again"
_FILE_KEYS = {"path": str, "size": int, "sha256": str, "mode": str, "part": str}


def is_part_name(name: str) -> bool:
    """Whether a part of a bundle may be called that: a short word in small letters; ``manifest`` is the manifest's own."""
    return re.fullmatch(r"[a-z][a-z0-9-]{0,31}", name) is not None and name != "manifest"


def bundle_name(model: str, target: str) -> str:
    """``MODEL-TARGET``, without the model's organisation, in letters that no shell, unit or package's script reads as more than letters."""
    return re.sub(r"[^\w.+-]+", "-", f"{model.rpartition('/')[2]}-{target}").lstrip(".-")


def model_path(model: PreparedModel, runner: RunnerArtifact) -> str:
    """Path in a bundle of the model, or of its first piece."""
    return runner.placement.model[0] if runner.placement else f"model/model{model.file.suffix}"


def runtime_path(runtime: RuntimeArtifact, runner: RunnerArtifact) -> str:
    """Path in a bundle of the runtime; where it is linked into the program, of the file that holds it."""
    if runner.placement is not None:
        return runner.placement.runtime
    return runner.program if runtime.library is None else f"lib/{runtime.library.name}"


def cpu_model_path(file: Path) -> str:
    """Path in a bundle of the model's form for the processor."""
    return f"model/cpu{file.suffix}"


def tokenizer_path(runner: RunnerArtifact) -> str:
    """Path in a bundle of the tokenizer: tokenizer.json, or the file that the runner has instead."""
    if runner.placement is not None:
        return runner.placement.tokenizer
    return TOKENIZER if runner.tokenizer is None else f"model/{runner.tokenizer.name}"


def build_manifest(
    *,
    target: Target,
    model: PreparedModel,
    runtime: RuntimeArtifact | None,
    runner: RunnerArtifact,
    embedder: str = "",
    made_by: Mapping[str, Any] | None = None,
    checks: Sequence[str] = (),
    files: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """The manifest (schema 1) of a bundle with these files, as ``file_entry`` says them."""
    return {
        "schema": SCHEMA,
        "name": bundle_name(model.source.name, target.name),
        "version": target.version,
        "edgepack": edgepack.__version__,
        "target": _target_section(target),
        "model": {**_model_section(model, runner), **({"embedder": embedder} if embedder else {})},
        "made_by": dict(made_by or {}),
        "runtime": runtime and _runtime_section(runtime, runner),
        "runner": {
            "program": runner.program,
            "command": _command(runner, model.source),
            **({"library": runner.library} if runner.library else {}),
            "kind": runner.kind,
            **({"serve": True} if runner.serves else {}),
            **({"by_level": True} if runner.by_level else {}),
            **({"exact": runner.exact} if runner.exact else {}),
            **({"check": "start"} if runner.check_at_start else {}),
            **({"module": runner.module} if runner.module else {}),
            "versions": dict(sorted(runner.versions.items())),
        },
        "golden": GOLDEN,
        "checks": list(checks),
        "gate": _gate_section(target.model),
        **_visits_section(runner),
        "files": sorted((dict(file) for file in files), key=lambda file: str(file["path"])),
    }


def _runtime_section(runtime: RuntimeArtifact, runner: RunnerArtifact) -> dict[str, Any]:
    """``operators`` is ``null`` where they are not known, or not cut down to the model's: nothing was matched."""
    return {
        "library": runtime_path(runtime, runner),
        **({"name": runtime.name} if runtime.name != ONNX_RUNTIME else {}),
        "version": runtime.version,
        "kind": runtime.kind,
        "toolchain": runtime.toolchain,
        "requires": list(runtime.requires),
        "operators": None if runtime.provides is None else operator_lines(runtime.provides),
        **({"provider": asdict(runtime.provider)} if runtime.provider else {}),
        **({"changes": list(runtime.changes)} if runtime.changes else {}),
    }


def _command(runner: RunnerArtifact, source: ModelSource) -> list[str] | None:
    if runner.command is None:
        return None
    features = ("--features",) if source.ranks else ()
    return list(runner.command or (runner.program, *features, *JSON_LINES))


def _visits_section(runner: RunnerArtifact) -> dict[str, Any]:
    """Files that a device asks a server for, where it downloads files and not the bundle."""
    if runner.placement is None or not runner.placement.cold:
        return {}
    return {"visits": {"cold": list(runner.placement.cold), "warm": list(runner.placement.warm)}}


def _gate_section(options: ModelOptions) -> dict[str, Any]:
    """Limits of the gate for this bundle; ``{"gate": "off", …}`` where it was off."""
    unasked = vars(ModelOptions())
    asked = {key: at for key, at in vars(options).items() if key in LIMITS and at != unasked[key]}
    return {"gate": options.gate, **asked}


def _target_section(target: Target) -> dict[str, Any]:
    platform = target.platform
    return {
        "name": target.name,
        "summary": target.summary,
        "builder": target.builder,
        "platform": {
            "os": platform.os,
            "arch": platform.arch,
            "glibc": platform.glibc,
            **({"libc": platform.libc} if platform.libc else {}),
            **({"isa": list(platform.isa)} if platform.isa else {}),
            **({"branch_protection": True} if platform.branch_protection else {}),
            **({"has": list(platform.has)} if platform.has else {}),
        },
        "extra": dict(target.extra),
    }


def _model_section(model: PreparedModel, runner: RunnerArtifact) -> dict[str, Any]:
    """Description of the model: what derives from the source alone, and what was made of it."""
    found = source_section(model.source)
    # In the order in which manifests have always had them: same inputs, same bytes.
    named = {key: found.pop(key) for key in NAMED if key in found}
    last = {key: found.pop(key) for key in ("prefixes", "matryoshka", "source_files")}
    return {
        **named,
        "recipe": model.recipe,
        "precision": model.precision,
        "format": model.format,
        "file": model_path(model, runner),
        **({"cpu_file": cpu_model_path(model.cpu_file)} if model.cpu_file else {}),
        **({"pieces": list(runner.placement.model)} if runner.placement else {}),
        "tokenizer": tokenizer_path(runner),
        "inputs": list(model.inputs),
        "output": model.output,
        **found,
        "batch_dependent": model.batch_dependent,
        **last,
    }


def operator_lines(operators: Operators) -> list[str]:
    """``DOMAIN;SINCE;NAME`` and the types, in the manner of ONNX Runtime's reduced-build config; sorted."""
    return sorted(f"{op.domain};{op.since};{op.name}{op.types}" for op in operators.kernels)


def file_entry(path: Path, *, root: Path, part: str) -> dict[str, Any]:
    """A file's line in the manifest."""
    relative = path.relative_to(root).as_posix()
    size, sha256 = size_and_sha256(path)
    return {"path": relative, "size": size, "sha256": sha256, "mode": mode_of(path), "part": part}


def size_and_sha256(path: Path) -> tuple[int, str]:
    """Size and SHA-256 of a file's bytes, or of what a symbolic link says."""
    if path.is_symlink():
        words = os.fsencode(path.readlink())
        return len(words), hashlib.sha256(words).hexdigest()
    return path.stat().st_size, sha256_of(path)


def mode_of(path: Path) -> str:
    """``0755``, ``0644`` or ``link``."""
    if path.is_symlink():
        return LINK
    return "0755" if path.stat().st_mode & stat.S_IXUSR else "0644"


def canonical(manifest: Mapping[str, Any]) -> bytes:
    """The one form of a manifest that digests are taken of: sorted keys, no spaces, UTF-8."""
    return json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def digest(bundle: Bundle) -> str:
    """One SHA-256 for the whole bundle: of its manifest's canonical form, which holds every file's."""
    return hashlib.sha256(canonical(bundle.manifest)).hexdigest()


def write_manifest(directory: Path, manifest: Mapping[str, Any]) -> None:
    """Write ``manifest.json``, for people to read too."""
    text = json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
    (directory / MANIFEST).write_text(text, encoding="utf-8", newline="\n")


def open_bundle(directory: Path) -> Bundle:
    """The bundle in a folder, when it is whole.

    Raises ``BundleError``, naming the file, when the folder is no bundle, the manifest says something wrong, a file is
    missing or is not what the manifest says, something lies in the folder that the manifest does not know, or anyone
    may write into it. A signature may lie there, a file; whose it is, is not looked at.
    """
    directory = named_path(directory)
    manifest = read_manifest(directory)
    signature = directory / SIGNATURE
    if os.path.lexists(signature) and (signature.is_symlink() or not signature.is_file()):
        raise BundleError(f"{directory}: {SIGNATURE} is not a file", hint="unpack its archive again")
    listed = {str(file["path"]): file for file in manifest["files"]}
    folders = {parent.as_posix() for name in listed for parent in PurePosixPath(name).parents}
    files = (directory / name for name, file in listed.items() if file["mode"] != LINK)
    if odd := inflated(path for path in files if path.is_file()):
        raise BundleError(f"{directory}: {odd[0].relative_to(directory)} is damaged: {odd[1]}", hint=REMAKE)
    for name, file in listed.items():
        _check_file(directory, name, file)
        if file["mode"] == LINK:
            _check_link(directory, name)
    for name in sorted(folders):
        if name != "." and (directory / name).is_symlink():
            raise BundleError(
                f"{directory}: {name} is a link, with files of the manifest behind it", hint=REMAKE
            )
    known = listed.keys() | folders | {MANIFEST, SIGNATURE}
    for path in (directory, *sorted(directory.rglob("*"))):
        _check_present(directory, path, known=known)
    return Bundle(directory=directory, manifest=manifest)


def read_manifest(directory: Path) -> dict[str, Any]:
    """The manifest of a bundle's folder, its form checked but not its files; raises ``BundleError``."""
    path = directory / MANIFEST
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise BundleError(f"{path} is not a file")
    try:
        if path.stat().st_size > MOST:
            raise BundleError(f"{path} is too large for a manifest: more than {MOST >> 20} MiB")
        manifest = parse_foreign(path.read_text(encoding="utf-8"))
        canonical(manifest)  # a half of a character has no bytes
    except (FileNotFoundError, NotADirectoryError) as error:
        hint = "name a folder that edgepack bundle made; edgepack verify takes its archive, too"
        if not directory.exists():
            raise BundleError(f"there is no file or folder {directory}", hint=hint) from error
        if directory.is_file():
            raise BundleError(
                f"{directory} is a file, and not a bundle's folder",
                hint="of an archive: unpack it first (tar -xf)",
            ) from error
        raise BundleError(f"{directory} is not a bundle: there is no {MANIFEST}", hint=hint) from error
    except (OSError, ValueError, RecursionError) as error:
        hint = "unpack the bundle's archive again, or build it again"
        raise BundleError(f"{path} cannot be read: {reason_of(error)}", hint=hint) from error
    _check_form(path, manifest)
    return dict(manifest)


def _check_kinds(path: Path, manifest: Mapping[str, Any]) -> None:
    for keys, kind in _INNER.items():
        value: Any = manifest
        for key in keys:
            value = value.get(key, _INNER) if isinstance(value, Mapping) else _INNER
        if value is _INNER and keys in _NEEDED and manifest[keys[0]] is not None:
            raise BundleError(f"{path}: {'.'.join(keys)} is missing")
        if value is not _INNER and not isinstance(value, kind):
            raise BundleError(f"{path}: {'.'.join(keys)} is not what it should be")
    provider = (manifest["runtime"] or {}).get("provider", {})
    if not all(isinstance(each, str) for key in ("libraries", "system") for each in provider.get(key, ())):
        raise BundleError(f"{path}: runtime.provider names a library by what is no name")
    for file in manifest["model"].get("source_files", ()):
        if not isinstance(file, dict) or not all(
            isinstance(file.get(key, default), kind)
            for key, kind, default in (("path", str, None), ("sha256", str, None), ("size", int, None))
        ):
            raise BundleError(f"{path}: an entry under source_files is not complete")
    if not all(isinstance(each, str) for each in manifest["model"].get("warnings", ())):
        raise BundleError(f"{path}: model.warnings are not words")
    glibc = manifest["target"].get("platform", {}).get("glibc")
    if glibc is not None and not re.fullmatch(r"\d{1,4}(\.\d{1,4})+", glibc):
        raise BundleError(f"{path}: target.platform.glibc is no version")
    # A line of ours begins with it, and a folder in an archive has it.
    name = manifest["name"]
    if (
        not name.isprintable()
        or not 0 < len(name) <= LONGEST_NAME
        or name.startswith(".")
        or {*name} & {*"/\\"}
    ):
        raise BundleError(
            f"{path}: the bundle's name is not one that a folder can have and that can be shown"
        )


def _check_form(path: Path, manifest: Any) -> None:
    if not isinstance(manifest, dict) or not isinstance(manifest.get("schema"), int):
        raise BundleError(f"{path} is not a bundle's manifest")
    if manifest["schema"] != SCHEMA:
        raise BundleError(
            f"{path} has schema {manifest['schema']}, this edgepack reads schema {SCHEMA}",
            hint="use the edgepack that made the bundle, or make it again",
        )
    for key, kind in _SECTIONS.items():
        if key not in manifest or not isinstance(manifest[key], kind):
            raise BundleError(f"{path}: {key} is missing or not what it should be")
    _check_kinds(path, manifest)
    for file in manifest["files"]:
        _check_entry(path, file)
    listed = {file["path"] for file in manifest["files"]}
    named = {
        manifest["golden"],
        manifest["model"].get("file"),
        manifest["model"].get("tokenizer"),
        manifest["runner"].get("program"),
    }
    model, runner, pieces = manifest["model"], manifest["runner"], manifest["model"].get("pieces", ())
    parts = [model.get("head"), model.get("cpu_file"), runner.get("library"), runner.get("module")]
    for each in (*pieces, *(part for part in parts if part is not None)):
        named.add(each if isinstance(each, str) else None)
    if manifest["runtime"] is not None:
        named.add(manifest["runtime"].get("library"))
    command = manifest["runner"].get("command", [])
    if command is not None and not (
        isinstance(command, list) and all(isinstance(word, str) for word in command)
    ):
        raise BundleError(f"{path}: the runner's command is not a list of words")
    for names in manifest.get("visits", {}).values():
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise BundleError(f"{path}: visits are not lists of files")
        named.update(names)
    if not named <= listed or len(listed) != len(manifest["files"]) or len(set(pieces)) != len(pieces):
        raise BundleError(f"{path} names files that it does not list, or lists one twice")


def _check_entry(path: Path, file: Any) -> None:
    if (
        not isinstance(file, dict)
        or file.keys() != _FILE_KEYS.keys()
        or not all(isinstance(file[key], kind) for key, kind in _FILE_KEYS.items())
    ):
        raise BundleError(f"{path}: an entry under files is not complete")
    if not file["path"].isprintable():
        raise BundleError(f"{path} lists a file whose name cannot be shown: {file['path']!a}")
    # Words of ours are said of it.
    if not re.fullmatch(r"[0-9a-f]{64}", file["sha256"]):
        raise BundleError(f"{path}: the digest of {file['path']} is none")
    parts = PurePosixPath(file["path"]).parts
    if not parts or file["path"].startswith("/") or ".." in parts or file["path"] in (MANIFEST, SIGNATURE):
        raise BundleError(f"{path} lists a file outside the bundle: {file['path']}")
    if not is_part_name(file["part"]) or file["mode"] not in ("0755", "0644", LINK):
        raise BundleError(f"{path}: {file['path']} has an unknown part or mode")


def _check_file(directory: Path, name: str, file: Mapping[str, Any]) -> None:
    path, hint = directory / name, REMAKE
    try:
        if (mode := mode_of(path)) != file["mode"] and LINK in (mode, file["mode"]):
            raise BundleError(
                f"{directory}: {name} is damaged: a link stands for a file, or a file for a link", hint=hint
            )
        # Whoever opens a pipe waits for one who writes.
        if mode != LINK and not stat.S_ISREG(path.stat().st_mode):
            raise BundleError(f"{directory}: {name} is damaged: it is not a file", hint=hint)
        size, sha256 = size_and_sha256(path)
    except FileNotFoundError as error:
        raise BundleError(f"{directory}: {name} is missing", hint=hint) from error
    except OSError as error:
        raise BundleError(f"{directory}: {name} cannot be read: {reason_of(error)}", hint=hint) from error
    if size != file["size"]:
        raise BundleError(
            f"{directory}: {name} is damaged: {size} bytes instead of {file['size']}", hint=hint
        )
    if sha256 != file["sha256"]:
        raise BundleError(
            f"{directory}: {name} is damaged: sha256 {sha256} instead of {file['sha256']}", hint=hint
        )
    if file["mode"] == "0755" and mode != "0755":
        raise BundleError(f"{directory}: {name} is no longer executable", hint=f"chmod 755 {path}")


def _check_link(directory: Path, name: str) -> None:
    """Check a link, of which the manifest says what it is called: what it leads to has to be in the bundle, where it was checked."""
    try:
        leads = (directory / name).resolve(strict=True)
    except (OSError, RuntimeError) as error:  # a loop is a RuntimeError before Python 3.13
        raise BundleError(f"{directory}: {name} is a link that leads nowhere", hint=REMAKE) from error
    if not leads.is_relative_to(directory.resolve()):
        raise BundleError(f"{directory}: {name} is a link that leads out of the bundle", hint=REMAKE)


_CAPABILITY = "security.capability"


def _attributes(path: Path) -> list[str]:
    try:
        return os.listxattr(path, follow_symlinks=False)
    except OSError:  # a file system without
        return []


def _check_present(directory: Path, path: Path, *, known: Set[str]) -> None:
    """Check that a file of the folder is known, and that its mode lets nobody change it or borrow another's rights."""
    name = path.relative_to(directory).as_posix()
    if name not in known:
        raise BundleError(
            f"{directory}: {name} is not in the manifest",
            hint="remove it, or make the bundle again with edgepack bundle"
            + "; with PYTHONPYCACHEPREFIX=/tmp, Python leaves none there" * ("__pycache__" in name),
        )
    mode = path.lstat().st_mode
    if stat.S_ISREG(mode) and _CAPABILITY in _attributes(path):
        raise BundleError(
            f"{directory}: {name} has capabilities, and runs with more rights than its user's",
            hint=f"setcap -r {path}",
        )
    # A folder has the set-group bit wherever its parent has it.
    odd = mode & (stat.S_IWOTH if stat.S_ISDIR(mode) else stat.S_IWOTH | stat.S_ISUID | stat.S_ISGID)
    if not stat.S_ISLNK(mode) and (odd or not mode & stat.S_IRUSR):
        raise BundleError(
            f"{directory}: {name} has the mode {stat.S_IMODE(mode):04o}, with which anyone may change it, it runs with "
            "another's rights, or its owner cannot read it",
            hint=f"unpack its archive again, or chmod -R u=rwX,go=rX {directory}",
        )
