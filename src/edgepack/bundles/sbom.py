"""The bill of materials: CycloneDX 1.6, for what others scan and look up.

No time, and a serial number that follows from the content: the same inputs give the same bytes.
"""

import json
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import edgepack
from edgepack.bundles.components import MODEL, NESTED, UNKNOWN, Component
from edgepack.licenses.vulnerabilities import REDUCED, known_vulnerabilities, searched
from edgepack.records.operators import Operators
from edgepack.records.runtime import SourceFile

SBOM = "sbom.cdx.json"
_BUNDLE = "bundle"
"""The ``bom-ref`` of the bundle itself."""
_SERIES = uuid.UUID("5c0e9d5e-3f0c-5d5b-8d7e-1f6f0d0e7a11")
"""What serial numbers are made within."""


def sbom(
    components: Sequence[Component],
    *,
    name: str,
    summary: str,
    model_card: Mapping[str, Any],
    kind: str | None = None,
    operators: Operators | None = None,
    nested: Iterable[Path] = (),
    files: Iterable[Mapping[str, Any]] = (),
) -> bytes:
    """The document.

    ``model_card``: what is said of the model beyond its name and licence; ``kind`` and ``operators``: the runtime's; ``nested``: bills of materials of components;
    ``files``: the bundle's, as its manifest lists them, without the licences.
    """
    inside = {path.name.removesuffix(NESTED): _parts(path) for path in nested}
    document: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "tools": {
                "components": [{"type": "application", "name": "edgepack", "version": edgepack.__version__}]
            },
            "component": {
                "type": "application",
                "bom-ref": _BUNDLE,
                "name": name,
                "description": summary,
            },
            "properties": list(_searched(components)),
        },
        "components": [
            *(_component(each, model_card, inside.get(each.name, [])) for each in components),
            *(_file(each) for each in files),
        ],
        "dependencies": _dependencies(components),
        "vulnerabilities": list(_vulnerabilities(components, kind, operators)),
    }
    serial = uuid.uuid5(_SERIES, json.dumps(document, sort_keys=True))
    return json.dumps({"serialNumber": f"urn:uuid:{serial}", **document}, indent=1).encode() + b"\n"


def _component(
    component: Component, model_card: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": component.kind, "bom-ref": component.name, "name": component.name}
    if component.version != UNKNOWN:
        entry["version"] = component.version
    known = component.known
    if known is not None:
        entry["supplier"] = {"name": known.supplier}
        entry["purl"] = package_url(known.purl, component.version)
        parts = [*({"type": "library", "name": part} for part in known.holds), *parts]
    if component.license is not None:
        entry["licenses"] = [_license(component.license, spdx=known is not None)]
    if component.source_files:
        entry["externalReferences"] = [_reference(each) for each in component.source_files]
    if parts:
        entry["components"] = parts
    return {**entry, **model_card} if component.kind == MODEL else entry


def _license(said: str, *, spdx: bool) -> dict[str, Any]:
    """Licence in CycloneDX's form; the words of a model's card are an identifier only where edgepack knows it as one."""
    if not spdx and said not in ("Apache-2.0", "MIT"):
        return {"license": {"name": said}}
    single = re.fullmatch(r"[\w.+-]+", said) and not said.startswith("LicenseRef-")
    return {"license": {"id": said}} if single else {"expression": said}


def package_url(purl: str, version: str) -> str:
    """A package's address with its version, without one where that is not known."""
    if version == UNKNOWN:
        return re.sub(r"@[^@#/]*(?=#|$)", "", purl)
    return purl.replace("{version}", version.replace("+", "%2B"))


def _reference(material: SourceFile) -> dict[str, Any]:
    return {
        "type": "distribution" if material.shipped else "source-distribution",
        "url": material.file,
        "hashes": [sha256_hash(material.sha256)],
    }


def sha256_hash(digest: str) -> dict[str, str]:
    """Hash as CycloneDX writes it."""
    return {"alg": "SHA-256", "content": digest}


def _file(file: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "file", "name": file["path"], "hashes": [sha256_hash(file["sha256"])]}


def _parts(path: Path) -> list[dict[str, Any]]:
    """Components of another's bill of materials, with what says which they are."""
    kept = ("type", "name", "version", "purl", "licenses", "hashes")
    document = json.loads(path.read_text(encoding="utf-8"))
    return [
        {key: component[key] for key in kept if key in component}
        for component in sorted(document["components"], key=lambda each: (each["name"], each["version"]))
    ]


def _searched(components: Iterable[Component]) -> Iterator[dict[str, str]]:
    """When vulnerabilities of ONNX Runtime's release, and of what that is built from, were looked for."""
    for component in components:
        if component.name == "onnxruntime":
            said = f"onnxruntime {component.version}: {searched(component.name, component.version)}"
            yield {"name": "edgepack:vulnerabilities-searched", "value": said}


def _vulnerabilities(
    components: Iterable[Component], kind: str | None, operators: Operators | None
) -> Iterator[dict[str, Any]]:
    """Published vulnerabilities of the components in these versions, and what they mean here."""
    names = None if operators is None else {f"{each.domain}:{each.name}" for each in operators.kernels}
    versions = {component.name: component.version for component in components}
    for known in known_vulnerabilities():
        # What a stock library is built from is inside it, and no component of the bundle's.
        inside = kind not in REDUCED and versions.get("onnxruntime") == known.release
        listed = versions.get(known.component) in known.versions
        if listed or inside:
            yield {
                "id": known.id,
                "source": {"url": known.source},
                "description": known.summary,
                "analysis": dict(known.analysis(kind, names)),
                "affects": [{"ref": known.component if listed else "onnxruntime"}],
                "properties": [{"name": "edgepack:seen", "value": known.seen}],
            }


def _dependencies(components: Iterable[Component]) -> list[dict[str, Any]]:
    """Which needs which: the bundle those that no other in it needs."""
    needs: dict[str, list[str]] = {component.name: [] for component in components}
    needs = {_BUNDLE: [], **needs}
    for component in components:
        known = component.known
        above = next((name for name in (known.within if known else ()) if name in needs), _BUNDLE)
        needs[above].append(component.name)
    return [{"ref": name, "dependsOn": below} for name, below in needs.items() if below]
