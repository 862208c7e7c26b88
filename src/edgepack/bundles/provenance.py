"""Who made a bundle, how and from what: an in-toto statement with SLSA provenance, beside the archive.

It holds no time: the same build on the same installation says the same.
"""

import base64
import csv
import functools
import hashlib
import importlib.metadata
import json
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import edgepack
from edgepack.bundles.manifest import MANIFEST
from edgepack.errors import BundleError
from edgepack.files.store import sha256_of, written_beside
from edgepack.records.bundle import Bundle
from edgepack.records.model import ModelSource
from edgepack.records.runtime import RuntimeArtifact
from edgepack.records.target import Target
from edgepack.toml_schema import parse_foreign, read_foreign

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "https://github.com/edgepack/edgepack/blob/main/docs/supply-chain.md#build-type-bundle1"
BUILDER = "https://github.com/edgepack/edgepack/blob/main/docs/supply-chain.md#builder-local"
"""Whoever ran `edgepack bundle`, on a machine that nobody vouches for."""
MOST = 16 << 20
"""Bytes of a statement."""
_NOT_OF_THE_PACKAGE = ("INSTALLER", "REQUESTED", "RECORD", "direct_url.json")


def provenance_file(directory: Path) -> Path:
    """Path of a bundle's provenance: beside the bundle."""
    return directory.with_name(directory.name + ".provenance.json")


def dependencies_of(source: ModelSource, runtime: RuntimeArtifact | None) -> list[dict[str, Any]]:
    """Inputs of a bundle as in-toto's resource descriptors: the model's files, source archives, wheels, Python packages."""
    model = [
        {"name": file.path, "uri": source.origin, "digest": {"sha256": file.sha256}}
        for file in sorted(source.files, key=lambda file: file.path)
    ]
    files = [
        {"name": f"{each.component} {each.version}", "uri": each.file, "digest": {"sha256": each.sha256}}
        for each in (runtime.source_files if runtime else ())
    ]
    return [*model, *files, *_python_packages()]


def statement(
    bundle: Bundle,
    target: Target,
    *,
    subjects: Mapping[str, Path],
    dependencies: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """The statement about a bundle's archive and packages: ``subjects`` are these, by the names that they will have."""
    manifest = bundle.manifest
    named = {**subjects, f"{bundle.name}/{MANIFEST}": bundle.directory / MANIFEST}
    return {
        "_type": STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": sha256_of(path)}} for name, path in named.items()],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {
                    "model": manifest["model"]["origin"],
                    "target": manifest["target"]["name"],
                    "settings": [_without_folders(setting) for setting in target.settings],
                },
                "internalParameters": {
                    "made_by": manifest["made_by"],
                    "gate": manifest["gate"],
                    **({"toolchain": runtime["toolchain"]} if (runtime := manifest["runtime"]) else {}),
                },
                "resolvedDependencies": list(dependencies),
            },
            "runDetails": {
                "builder": {
                    "id": BUILDER,
                    "version": {"edgepack": edgepack.__version__, "python": platform.python_version()},
                }
            },
        },
    }


def is_about(file: Path, bundle: Bundle) -> bool:
    """Whether a subject of a statement is this very bundle, by its manifest. Raises ``BundleError`` for what is no provenance."""
    digest = {"sha256": sha256_of(bundle.directory / MANIFEST)}
    return {"name": f"{bundle.name}/{MANIFEST}", "digest": digest} in _read(file)["subject"]


def restate(file: Path, *, seen: Mapping[str, Path]) -> list[str]:
    """Have a statement name these files alone, with their digests of now; names that were left out.

    Who signs it vouches for each of its subjects. Raises ``BundleError`` for what is no provenance.
    """
    said = _read(file)
    names = [subject["name"] for subject in said["subject"]]
    kept = [{"name": name, "digest": {"sha256": sha256_of(seen[name])}} for name in names if name in seen]
    write_statement({**said, "subject": kept}, file)
    return [name for name in names if name not in seen]


def _read(file: Path) -> dict[str, Any]:
    try:
        said: dict[str, Any] = parse_foreign(read_foreign(file, most=MOST))
        if not all(isinstance(subject["name"], str) for subject in said["subject"]):
            raise ValueError("a subject has no name")
        if (said["_type"], said["predicateType"]) != (STATEMENT, PREDICATE):
            raise ValueError("it is no provenance")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BundleError(f"{file} is damaged: {error!r}", hint="build the bundle again") from error
    return said


def write_statement(said: Mapping[str, Any], file: Path) -> None:
    """Write a statement, whole or not at all."""
    with written_beside(file) as temporary:
        temporary.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


def _without_folders(setting: str) -> str:
    """``model.calibration=/home/me/texts.txt`` without what is nobody's business."""
    return re.sub(r"=(\"?)/(?:[^/\"]*/)*", r"=\1", setting)


@functools.cache
def _python_packages() -> tuple[dict[str, Any], ...]:
    """edgepack's requirements as they are installed, with those of ``edgepack[build]``."""
    return tuple(_described())


def _described() -> Iterator[dict[str, Any]]:
    for name in sorted(_required("edgepack", set(), extra="build") - {"edgepack"}):
        distribution = importlib.metadata.distribution(name)
        version = distribution.version
        yield {
            "name": f"{name} {version}",
            "uri": f"pkg:pypi/{name}@{version}",
            "digest": {"dirHash": _dir_hash(distribution.read_text("RECORD") or "")},
        }


def _required(name: str, known: set[str], *, extra: str = "") -> set[str]:
    """A distribution and what it needs, as far as it is installed; names as the index has them."""
    name = re.sub(r"[-_.]+", "-", name).lower()
    if name in known:
        return known
    try:
        asked = importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return known
    known.add(name)
    for requirement in asked:
        extras = re.findall(r"extra\s*==\s*['\"]([\w-]+)['\"]", requirement)
        if not extras or extra in extras:
            _required(re.split(r"[^\w.-]", requirement, maxsplit=1)[0], known)
    return known


def _dir_hash(record: str) -> str:
    """in-toto's ``dirHash`` of a distribution's files as its RECORD has them, but for what pip wrote."""
    lines = []
    for name, digest, *_ in csv.reader(record.splitlines()):
        own = name.rpartition("/")[2] not in _NOT_OF_THE_PACKAGE and not name.startswith("../")
        if own and digest.startswith("sha256=") and not name.endswith(".pyc"):
            value = digest.removeprefix("sha256=")
            lines.append((name, base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)).hex()))
    said = "".join(f"{digest}  {name}\n" for name, digest in sorted(lines))
    return hashlib.sha256(said.encode()).hexdigest()
