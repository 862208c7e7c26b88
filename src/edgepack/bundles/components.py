"""What is in a bundle, by whom, under which licence: the components that its notices and its bill of materials name."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import edgepack
from edgepack.licenses import license_text
from edgepack.licenses.components import Known, known_components
from edgepack.models.read.documents import LEGAL
from edgepack.records.bundle import RunnerArtifact
from edgepack.records.model import ModelSource
from edgepack.records.runtime import ONNX_RUNTIME, RuntimeArtifact, SourceFile

_KNOWN = {"apache-2.0": "Apache-2.0", "mit": "MIT"}
"""Identifiers as model cards write them → as SPDX does; their texts are in ``edgepack.licenses``."""
UNKNOWN = "unknown"
NESTED = ".cdx.json"
"""What ends a file's name that says what a component is made of itself: ``tokenizers.cdx.json`` of tokenizers."""


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
    """SPDX expression, where it is known; of a model, what its card says."""
    source_files: tuple[SourceFile, ...] = ()
    """The archives that it was made from."""

    @property
    def file(self) -> str:
        """Name of the licence text's file."""
        return re.sub(r"[^A-Za-z0-9.+_-]+", "-", self.name) + ".txt"

    @property
    def known(self) -> Known | None:
        """Entry of this component in edgepack's own list, for any version; ``None`` for a plugin's component."""
        return None if self.kind == MODEL else known_components().get(self.name)


MODEL = "machine-learning-model"


def components_of(
    source: ModelSource, runtime: RuntimeArtifact | None, runner: RunnerArtifact
) -> tuple[Component, ...]:
    """Everything in a bundle that has a licence of its own, sorted by name."""
    # The licence texts of what is linked into the program come with the runner.
    linked_in = {_component(runtime): runtime.version} if runtime else {}
    source_files = runtime.source_files if runtime else ()
    found = distinct(
        [
            _edgepack(),
            model_component(source),
            *(_runtime(runtime) if runtime and runtime.library else ()),
            *_with_texts(runner.licenses, {**linked_in, **runner.versions}),
        ]
    )
    return tuple(_made_of(component, source_files) for component in found)


def _made_of(component: Component, source_files: Iterable[SourceFile]) -> Component:
    """With the archives that it was made from, and the version that these say."""
    own = tuple(each for each in source_files if each.component == component.name)
    version = own[0].version if own and component.version == UNKNOWN else component.version
    known = component.known
    return replace(
        component,
        version=version,
        source_files=own,
        license=component.license or (known.license if known else None),
    )


def distinct(components: Iterable[Component]) -> tuple[Component, ...]:
    """Each component once, sorted by name; one that comes with several texts has them all in one file."""
    by_file: dict[str, Component] = {}
    for component in components:
        known = by_file.get(component.file.lower())
        if known is None:
            by_file[component.file.lower()] = component
        elif component.text not in known.text:
            by_file[component.file.lower()] = replace(
                known,
                version=known.version if known.version != UNKNOWN else component.version,
                text=known.text.rstrip() + b"\n\n" + b"-" * 70 + b"\n\n" + component.text,
            )
    return tuple(sorted(by_file.values(), key=lambda component: component.file.lower()))


def _edgepack() -> Component:
    return Component(
        name="edgepack",
        version=edgepack.__version__,
        kind="application",
        license="MIT",
        text=_stored("edgepack"),
    )


def model_component(source: ModelSource) -> Component:
    """The model, with the licence text that is shipped."""
    known = (source.license or "").lower()
    return Component(
        name=source.name.rpartition("/")[2],
        version=revision(source),
        kind=MODEL,
        license=_KNOWN.get(known, source.license),
        text=_model_text(source, known),
    )


def revision(source: ModelSource) -> str:
    """Version of a model, told by its weights."""
    weights = [file.sha256 for file in source.files if file.path.endswith((".safetensors", ".onnx", ".bin"))]
    return f"sha256:{weights[0][:12]}" if weights else UNKNOWN


def _model_text(source: ModelSource, known: str) -> bytes:
    head = f"Model {source.name}\nfrom {source.origin}\n".encode()
    own = sorted({path for pattern in LEGAL for path in source.directory.glob(pattern) if path.is_file()})
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
    """Name under which the runtime's licence text is filed."""
    return "onnxruntime" if runtime.name == ONNX_RUNTIME else runtime.name


def _with_texts(texts: Iterable[Path], versions: Mapping[str, str]) -> list[Component]:
    """A component for each text: its file is called ``NAME.txt`` or ``NAME-VERSION.txt``."""
    by_name = {name.lower(): version for name, version in versions.items()}
    components = []
    for path in texts:
        if path.name.endswith(NESTED):
            continue
        named = re.fullmatch(r"(.+?)-(\d[\w.+-]*)", path.stem)
        name, version = named.groups() if named else (path.stem, None)
        # Shared libraries are called after their files, versions after the project: libz, zlib.
        known = by_name.get(name.lower()) or by_name.get(name.lower().removeprefix("lib") + "lib")
        components.append(
            Component(name=name, version=version or known or UNKNOWN, kind="library", text=path.read_bytes())
        )
    return components


def _stored(name: str) -> bytes:
    return (license_text(name) or "").encode()
