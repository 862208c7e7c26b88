"""Licence texts of everything that is in a bundle, an index of them, and a bill of materials."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import edgepack
from edgepack.licenses import license_text
from edgepack.records.bundle import RunnerArtifact
from edgepack.records.model import ModelSource
from edgepack.records.runtime import ONNX_RUNTIME, RuntimeArtifact

INDEX = "NOTICES.txt"
SBOM = "sbom.cdx.json"

_LICENSE_FILES = ("LICENSE*", "LICENCE*", "COPYING*", "NOTICE*")
_KNOWN = {"apache-2.0": "Apache-2.0", "mit": "MIT"}
"""Identifiers as model cards write them → as SPDX does; their texts are in ``edgepack.licenses``."""


@dataclass(frozen=True, kw_only=True)
class Component:
    """Something that a bundle holds, by somebody, under a licence."""

    name: str
    version: str
    kind: str
    """As CycloneDX says it: ``machine-learning-model``, ``library``, ``application``."""
    text: bytes
    """The licence text, or what is known of it."""
    license: str | None = None
    """SPDX identifier, where it is known."""

    @property
    def file(self) -> str:
        """Name of the licence text's file."""
        return re.sub(r"[^A-Za-z0-9.+_-]+", "-", self.name) + ".txt"


def write_notices(
    folder: Path, *, source: ModelSource, runtime: RuntimeArtifact | None, runner: RunnerArtifact
) -> tuple[Component, ...]:
    """Fill a folder with a licence text a component, ``NOTICES.txt`` and ``sbom.cdx.json``; say which components."""
    # The licence texts of what is linked into the program come with the runner.
    linked_in = {_component(runtime): runtime.version} if runtime else {}
    components = distinct(
        [
            _edgepack(),
            _model(source),
            *(_runtime(runtime) if runtime and runtime.library else ()),
            *_with_texts(runner.licenses, {**linked_in, **runner.versions}),
        ]
    )
    folder.mkdir()
    for component in components:
        (folder / component.file).write_bytes(component.text)
    (folder / INDEX).write_text(index(components), encoding="utf-8", newline="\n")
    (folder / SBOM).write_bytes(sbom(components))
    return components


def distinct(components: Iterable[Component]) -> tuple[Component, ...]:
    """Each component once, sorted by name; one that comes with several texts has them all in one file."""
    by_file: dict[str, Component] = {}
    for component in components:
        known = by_file.get(component.file.lower())
        if known is None:
            by_file[component.file.lower()] = component
        elif component.text not in known.text:
            by_file[component.file.lower()] = Component(
                name=known.name,
                version=known.version if known.version != "unknown" else component.version,
                kind=known.kind,
                license=known.license,
                text=known.text.rstrip() + b"\n\n" + b"-" * 70 + b"\n\n" + component.text,
            )
    return tuple(sorted(by_file.values(), key=lambda component: component.file.lower()))


def index(components: Iterable[Component]) -> str:
    """What is in the bundle, in which version, and where its licence is."""
    rows = [("component", "version", "licence")]
    rows += [(component.name, component.version, component.file) for component in components]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines = [f"{name:<{widths[0]}}  {version:<{widths[1]}}  {file}" for name, version, file in rows]
    return (
        "This bundle holds the following, each under the licence in the file named.\n\n"
        + "\n".join(lines)
        + "\n"
    )


def sbom(components: Iterable[Component]) -> bytes:
    """A CycloneDX 1.5 bill of materials; no serial number and no time, so that same inputs give the same bytes."""
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "components": [_sbom_component(component) for component in components],
    }
    return json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n"


def _sbom_component(component: Component) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": component.kind, "name": component.name}
    if component.version != "unknown":
        entry["version"] = component.version
    if component.license is not None:
        key = "id" if component.license in _KNOWN.values() else "name"
        entry["licenses"] = [{"license": {key: component.license}}]
    return entry


def _edgepack() -> Component:
    return Component(
        name="edgepack",
        version=edgepack.__version__,
        kind="application",
        license="MIT",
        text=_stored("edgepack"),
    )


def _model(source: ModelSource) -> Component:
    known = (source.license or "").lower()
    return Component(
        name=source.name.rpartition("/")[2],
        version=_revision(source),
        kind="machine-learning-model",
        license=_KNOWN.get(known, source.license),
        text=_model_text(source, known),
    )


def _revision(source: ModelSource) -> str:
    weights = [file.sha256 for file in source.files if file.path.endswith((".safetensors", ".onnx", ".bin"))]
    return f"sha256:{weights[0][:12]}" if weights else "unknown"


def _model_text(source: ModelSource, known: str) -> bytes:
    head = f"Model {source.name}\nfrom {source.origin}\n".encode()
    own = sorted(
        {path for pattern in _LICENSE_FILES for path in source.directory.glob(pattern) if path.is_file()}
    )
    if own:
        return head + b"\n" + b"\n\n".join(path.read_bytes().rstrip() for path in own) + b"\n"
    if known in _KNOWN:
        return head + f"Its card names the licence {_KNOWN[known]}:\n\n".encode() + _stored(known)
    if known:
        return (
            head
            + f"Its card names the licence {source.license}; the text did not come with the model.\n".encode()
        )
    return (
        head + b"No licence came with it, and its card names none: ask its authors before you pass it on.\n"
    )


def _runtime(runtime: RuntimeArtifact) -> list[Component]:
    name = _component(runtime)
    components = _with_texts(runtime.licenses, {name: runtime.version})
    if any(component.name.lower() == name.lower() for component in components):
        return components
    license = "MIT" if runtime.name == ONNX_RUNTIME else None
    under = f", {license}" if license else ""
    said = f"{runtime.name} {runtime.version} ({runtime.kind}){under}. Its licence text did not come with the library.\n"
    unsaid = Component(
        name=name, version=runtime.version, kind="library", license=license, text=said.encode()
    )
    return [unsaid, *components]


def _component(runtime: RuntimeArtifact) -> str:
    """What its licence text is filed under."""
    return "onnxruntime" if runtime.name == ONNX_RUNTIME else runtime.name


def _with_texts(texts: Iterable[Path], versions: Mapping[str, str]) -> list[Component]:
    """A component for each text: its file is called ``NAME.txt`` or ``NAME-VERSION.txt``."""
    by_name = {name.lower(): version for name, version in versions.items()}
    components = []
    for path in texts:
        named = re.fullmatch(r"(.+?)-(\d[\w.+-]*)", path.stem)
        name, version = named.groups() if named else (path.stem, None)
        # Shared libraries are called after their files, versions after the project: libz, zlib.
        known = by_name.get(name.lower()) or by_name.get(name.lower().removeprefix("lib") + "lib")
        components.append(
            Component(
                name=name, version=version or known or "unknown", kind="library", text=path.read_bytes()
            )
        )
    return components


def _stored(name: str) -> bytes:
    return (license_text(name) or "").encode()
