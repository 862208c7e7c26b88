"""The kernel archive: ONNX Runtime compiled for one toolchain, unlinked, object by object as links ask for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgepack.context import BuildContext
from edgepack.files.store import key_of
from edgepack.foundry.compile import plan
from edgepack.foundry.compile.objects import Job, compile_objects, identity_of
from edgepack.foundry.compile.plan import BUILD, EMSCRIPTEN, OVERLAY, TREE, ZIG, Unit
from edgepack.foundry.compile.symbols import Symbols
from edgepack.foundry.releases.ort_1_21 import overlay
from edgepack.foundry.sources.pinned import VERSION
from edgepack.foundry.sources.tree import SourceTree, source_tree
from edgepack.foundry.toolchains.choose import Toolchain, compiler, emscripten_folder
from edgepack.foundry.toolchains.libcxx import cxx_runtime_units
from edgepack.foundry.web.units import web_units

SCHEMA = "2"
"""Changes when the same inputs are compiled otherwise than the data files say."""


@dataclass(frozen=True, kw_only=True)
class KernelArchive:
    """A folder in the store, what can be compiled into it, and with what."""

    folder: Path
    key: str
    kind: str
    toolchain: Toolchain
    tree: SourceTree
    overlay: Path
    """The folder of changed files, named by the digest of what is in it."""
    units: Mapping[str, Unit]
    settings: Mapping[str, Any]

    @property
    def identity(self) -> str:
        """Digest of all that decides what a library that is linked from it looks like, but for the operators."""
        return identity_of(self.key, repr(self.settings["units"]), self.overlay.name)

    @property
    def build(self) -> Path:
        """The folder that upstream's CMake was configured in."""
        return self.folder / "build"

    @property
    def log_file(self) -> Path:
        return self.folder / "compile.log"


def open_archive(
    *,
    kind: str,
    toolchain: Toolchain,
    features: Sequence[str] = (),
    version: str = VERSION,
    sources: Path | None = None,
    context: BuildContext,
) -> KernelArchive:
    """The archive in the store; sources are fetched and configured when that has not been done yet.

    How single units are compiled is no part of its key but of each object's identity: where that changes, the other
    objects stay.
    """
    settings = plan.build_settings(version, toolchain.arch)
    variables = plan.cmake_variables(settings, kind, features)
    tree = source_tree(version, sources=sources, context=context)
    inputs = archive_inputs(
        version=version, kind=kind, features=features, tree_key=tree.key, toolchain=toolchain.identity
    )
    folder = context.store.folder("kernel-archive", inputs)
    with context.store.lock(folder):
        changed = overlay.write_overlay(tree.onnxruntime, folder / "overlay")
        planned = planned_file(folder, settings)
        try:
            units = plan.load_units(planned)
        except (OSError, ValueError):
            if not plan.is_configured(folder / "build"):
                with context.progress("configure ONNX Runtime"):
                    plan.configure(
                        tree,
                        folder / "build",
                        variables=variables,
                        toolchain=toolchain,
                        sources=sources,
                        context=context,
                    )
            units = plan.read_units(tree, folder / "build", settings=settings, toolchain=toolchain)
            if toolchain.family == "zig":
                exceptions = variables.get("onnxruntime_DISABLE_EXCEPTIONS") != "ON"
                units |= {unit.name: unit for unit in cxx_runtime_units(toolchain, exceptions=exceptions)}
            if toolchain.family == "emscripten":
                named = settings["units"]["cxx_runtime"]
                units |= {unit.name: unit for unit in web_units(named, threads="threads" in features)}
            plan.write_units(units, planned)
    return KernelArchive(
        folder=folder,
        key=key_of(inputs),
        kind=kind,
        toolchain=toolchain,
        tree=tree,
        overlay=changed,
        units=units,
        settings=settings,
    )


def archive_inputs(
    *, version: str, kind: str, features: Sequence[str], tree_key: str, toolchain: str
) -> dict[str, str]:
    """What an archive's key is made from."""
    arch = "wasm32" if toolchain.endswith(", wasm32") else ""
    variables = plan.cmake_variables(plan.build_settings(version, arch), kind, features)
    return {
        "schema": SCHEMA,
        "sources": tree_key,
        "toolchain": toolchain,
        "variables": repr(sorted(variables.items())),
    }


def planned_file(folder: Path, settings: Mapping[str, Any]) -> Path:
    """Where an archive keeps its plan: one for each way of compiling single units."""
    return folder / f"units-{identity_of(repr(settings['units']))[:16]}.json"


def compile_units(
    archive: KernelArchive,
    names: Collection[str],
    *,
    overrides: Mapping[str, Job] | None = None,
    context: BuildContext,
) -> Mapping[str, Symbols]:
    """Make sure of these units' objects; ``overrides`` are compiled in the place of units of the same name."""
    special = overrides or {}
    jobs = [
        special[name] if name in special else job_of(archive, archive.units[name]) for name in sorted(names)
    ]
    with context.store.lock(archive.folder):
        return compile_objects(jobs, log_file=archive.log_file, context=context)


def job_of(
    archive: KernelArchive,
    unit: Unit,
    *,
    generated: Path | None = None,
    replaced: str | None = None,
    flags: Sequence[str] = (),
    content: str = "",
) -> Job:
    """How a unit is compiled.

    ``generated`` is a folder of headers that is searched before everything else, ``replaced`` a source in it that
    stands in for the unit's own, ``flags`` are added, and ``content`` says what is generated: units that differ in
    these have objects of their own.
    """
    command = compiler(archive.toolchain, unit.language)
    if generated:
        command.append(f"-I{generated}")
    command += [_expand(archive, flag) for flag in (*unit.flags, *flags)]
    command += ["-w", *_prefix_maps(archive, generated)]
    source = generated / replaced if generated and replaced else source_of(archive, unit)
    command += ["-c", str(source)]
    over = archive.overlay.name if any(OVERLAY in text for text in (unit.source, *unit.flags)) else ""
    identity = identity_of(archive.key, unit.name, unit.source, *unit.flags, *flags, content, over)
    suffix = f".{identity[:16]}.o" if content or flags else ".o"
    return Job(
        name=unit.name,
        object=archive.folder / "objects" / (unit.name + suffix),
        command=tuple(command),
        identity=identity,
    )


def source_of(archive: KernelArchive, unit: Unit) -> Path:
    """The file that a unit is compiled from."""
    return Path(_expand(archive, unit.source))


def _expand(archive: KernelArchive, text: str) -> str:
    if "@" not in text:
        return text
    zig = archive.toolchain.library_folder
    places = {TREE: archive.tree.folder, BUILD: archive.build, OVERLAY: archive.overlay, ZIG: zig}
    if emscripten := emscripten_folder(archive.toolchain):
        places[EMSCRIPTEN] = emscripten
    for placeholder, folder in places.items():
        text = text.replace(placeholder, str(folder))
    return text


def _prefix_maps(archive: KernelArchive, generated: Path | None) -> list[str]:
    """Messages name source files: by short paths that do not depend on where the folders are."""
    tree = archive.tree.folder
    places = {str(tree): "", str(archive.build): "build", str(tree / "onnxruntime/onnxruntime"): ""}
    places[str(archive.overlay)] = ""
    if archive.toolchain.family in ("zig", "emscripten"):
        places[str(archive.toolchain.library_folder)] = "zig"
    if emscripten := emscripten_folder(archive.toolchain):
        places[str(emscripten)] = "emscripten"
    if generated:
        places[str(generated)] = ""
    return [f"-ffile-prefix-map={folder}={name}" for folder, name in places.items()]
