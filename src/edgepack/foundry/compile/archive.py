"""The kernel archive: ONNX Runtime compiled for one toolchain, unlinked, object by object as links ask for them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from edgepack.context import BuildContext
from edgepack.files.store import key_of
from edgepack.foundry.compile import plan
from edgepack.foundry.compile.installed import take_installed
from edgepack.foundry.compile.keys import archive_inputs, planned_file
from edgepack.foundry.compile.objects import CompileJob, compile_objects, compiled_already, identity_of
from edgepack.foundry.compile.overlay import write_overlay
from edgepack.foundry.compile.precompiled import Header, HeaderRule, header_of, header_rules, rule_for
from edgepack.foundry.compile.shipped import lay_configured
from edgepack.foundry.patch import Change, Patch, RuntimeRequest
from edgepack.foundry.release import Release
from edgepack.foundry.releases.registry import RELEASE
from edgepack.foundry.sources.tree import SourceTree, require_whole, source_tree
from edgepack.foundry.symbols import Symbols
from edgepack.foundry.toolchain import Toolchain
from edgepack.foundry.units import BUILD, OVERLAY, TREE, Unit
from edgepack.records.operators import Operators
from edgepack.records.runtime import SourceFile


@dataclass(frozen=True, kw_only=True)
class KernelArchive:
    """A folder in the store, what can be compiled into it, and with what."""

    folder: Path
    key: str
    kind: str
    release: Release
    toolchain: Toolchain
    tree: SourceTree
    overlay: Path
    """The folder of changed files, named by the digest of what is in it."""
    units: Mapping[str, Unit]
    settings: Mapping[str, Any]
    _read_by: dict[str, Mapping[str, frozenset[str]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def identity(self) -> str:
        """Digest of all that decides what a library that is linked from it looks like, but for the operators."""
        return identity_of(self.key, repr(self.settings["units"]), self.overlay.name)

    @property
    def source_files(self) -> tuple[SourceFile, ...]:
        """The archives of ONNX Runtime and of what it is built from; of archives that serve as well as one another the first."""
        return tuple(
            SourceFile(component=part.name, version=part.version, file=archive.file, sha256=archive.sha256)
            for part in self.tree.parts.values()
            for archive in part.archives[:1]
        )

    @property
    def build(self) -> Path:
        """The folder that upstream's CMake was configured in."""
        return self.folder / "build"

    @property
    def objects(self) -> Path:
        return self.folder / "objects"

    @property
    def log_file(self) -> Path:
        return self.folder / "compile.log"

    @property
    def link_log(self) -> Path:
        return self.folder / "link.log"

    @cached_property
    def sources(self) -> Mapping[str, Path]:
        """Unit → the file that it is compiled from."""
        return {name: Path(self.expand(unit.source)) for name, unit in self.units.items()}

    @cached_property
    def header_rules(self) -> tuple[HeaderRule, ...]:
        """Headers that units of this archive may take compiled."""
        return header_rules(
            self.release.precompiled,
            version=self.release.version,
            kind=self.kind,
            toolchain=self.toolchain.identity,
        )

    @cached_property
    def exports(self) -> tuple[str, ...]:
        """Symbols that a runtime library exports."""
        named = self.toolchain.exports
        if named is None:
            named = (self.tree.onnxruntime / self.release.api_symbols).read_text().split()
        return tuple(named)

    def request(self, needs: Operators, isa: Sequence[str] = ()) -> RuntimeRequest:
        """Request to patches for a runtime of these operators."""
        return RuntimeRequest(
            kind=self.kind,
            arch=self.toolchain.arch,
            needs=needs,
            possible=self.release.possible(self.tree.onnxruntime, self.kind, needs),
            isa=tuple(isa),
        )

    def patches(self) -> Iterator[Patch]:
        """The release's patches that this toolchain's runtimes get, and the toolchain's own."""
        trims = self.toolchain.trims
        yield from (patch for patch in self.release.patches if not patch.trim or patch.trim in trims)
        yield from self.toolchain.patches

    def origin(self, name: str) -> str:
        """Whose source a unit is compiled from, in words."""
        if self.units[name].source.startswith(tuple(self.toolchain.places)):
            return self.toolchain.identity
        return f"ONNX Runtime {self.release.version}"

    def patched_units(self, patch: Patch) -> Mapping[str, frozenset[str]]:
        """The units that a patch changes, with what they name of a header's operators."""
        if patch.name not in self._read_by:
            if patch.readers is None:
                found = {name: frozenset[str]() for name in self.units if patch.matches(name)}
            else:
                own = {name: path for name, path in self.sources.items() if name.startswith("onnxruntime_")}
                found = dict(patch.readers(own, self.tree.onnxruntime / "onnxruntime"))
            self._read_by[patch.name] = found
        return self._read_by[patch.name]

    def compile(
        self,
        names: Collection[str],
        *,
        changed: Mapping[str, CompileJob] | None = None,
        context: BuildContext,
    ) -> Mapping[str, Symbols]:
        """Make sure of these units' objects; ``changed`` are compiled in the place of units of the same name."""
        special = changed or {}
        jobs = [special.get(name) or self.job(name) for name in sorted(names)]
        # Another process may hold the lock for minutes, for other units.
        if (done := compiled_already(jobs)) is not None:
            return done
        with context.store.lock(self.folder):
            require_whole(self.tree)
            return compile_objects(
                jobs,
                read=self.toolchain.symbols,
                log_file=self.log_file,
                label="compile ONNX Runtime",
                context=context,
            )

    def job(self, name: str, change: Change | None = None, *, generated: Path | None = None) -> CompileJob:
        """How a unit is compiled; with a change it has an object of its own.

        ``generated`` is the folder that the change's file lies in, which is searched before everything else.
        """
        unit, change = self.units[name], change or Change()
        command = self.toolchain.command(unit.language)
        if generated:
            command.append(f"-I{generated}")
        command += [self.expand(flag) for flag in (*unit.flags, *change.flags)]
        command += ["-w", *self._prefix_maps(generated)]
        source = generated / change.file if generated and change.is_source else self.sources[name]
        command += ["-c", str(source)]
        content = change.text or ""
        over = self.overlay.name if any(OVERLAY in text for text in (unit.source, *unit.flags)) else ""
        identity = identity_of(self.key, unit.name, unit.source, *unit.flags, *change.flags, content, over)
        suffix = f".{identity[:16]}.o" if content or change.flags else ".o"
        return CompileJob(
            name=unit.name,
            object=self.objects / (unit.name + suffix),
            command=tuple(command),
            identity=identity,
            header=None if change.flags or change.text is not None else self._header(unit),
            long=unit.name in self.release.precompiled.get("long", ()),
        )

    def _header(self, unit: Unit) -> Header | None:
        """Header that a unit may take compiled, as long as nothing of it was changed."""
        rule = rule_for(unit, self.header_rules, self.units)
        if rule is None:
            return None
        flags = [self.expand(flag) for flag in self.units[rule.like].flags]
        return header_of(rule, (*self.toolchain.command("CXX"), *flags, "-w", *self._prefix_maps(None)))

    def expand(self, text: str) -> str:
        """A unit's source or flag, with folders in the place of what stands for them."""
        if "@" not in text:
            return text
        places = {TREE: self.tree.folder, BUILD: self.build, OVERLAY: self.overlay, **self.toolchain.places}
        for placeholder, folder in places.items():
            text = text.replace(placeholder, str(folder))
        return text

    def _prefix_maps(self, generated: Path | None) -> list[str]:
        """Messages name source files: by short paths that do not depend on where the folders are."""
        tree = self.tree.folder
        places = {str(tree): "", str(self.build): "build", str(tree / "onnxruntime/onnxruntime"): ""}
        places[str(self.overlay)] = ""
        for placeholder, folder in self.toolchain.places.items():
            places[str(folder)] = placeholder.strip("@").lower()
        if generated:
            places[str(generated)] = ""
        return [f"-ffile-prefix-map={folder}={name}" for folder, name in places.items()]


def open_archive(
    *,
    kind: str,
    toolchain: Toolchain,
    features: Sequence[str] = (),
    release: Release = RELEASE,
    context: BuildContext,
) -> KernelArchive:
    """The archive in the store; sources are fetched and configured when that has not been done yet.

    How single units are compiled is no part of its key but of each object's identity: where that changes, the other
    objects stay.
    """
    settings = release.build_settings(toolchain.platform)
    variables = plan.cmake_variables(settings, kind, features)
    tree = source_tree(release.catalogue, context=context)
    inputs = archive_inputs(
        release, kind=kind, features=features, tree_key=tree.key, toolchain=toolchain.identity
    )
    folder = context.store.folder("kernel-archive", inputs)
    take_installed(folder, release, context=context)
    changed = write_overlay(release, tree, folder / "overlay")
    planned = planned_file(folder, settings, room=release.room)
    units = _planned(planned)
    if units is None:
        # Only now: whoever compiles holds the lock for minutes.
        with context.store.lock(folder):
            if not features and not (folder / "build" / plan.CONFIGURED).is_file():
                lay_configured(release, tree, folder / "build", kind=kind, toolchain=toolchain)
            units = _planned(planned) or _plan(
                planned, tree, variables, toolchain, release=release, settings=settings, context=context
            )
    return KernelArchive(
        folder=folder,
        key=key_of(inputs),
        kind=kind,
        release=release,
        toolchain=toolchain,
        tree=tree,
        overlay=changed,
        units=units,
        settings=settings,
    )


def _planned(file: Path) -> Mapping[str, Unit] | None:
    try:
        return plan.load_units(file)
    except (OSError, ValueError):
        return None


def _plan(
    file: Path,
    tree: SourceTree,
    variables: Mapping[str, str],
    toolchain: Toolchain,
    *,
    release: Release,
    settings: Mapping[str, Any],
    context: BuildContext,
) -> Mapping[str, Unit]:
    """Configure ONNX Runtime, and write down how its units are compiled."""
    build = file.parent / "build"
    if not (build / plan.CONFIGURED).is_file():
        with context.progress("configure ONNX Runtime"):
            plan.configure(tree, build, variables=variables, toolchain=toolchain, context=context)
    units = plan.read_units(tree, build, release=release, settings=settings, family=toolchain.family)
    units |= {unit.name: unit for unit in toolchain.units(settings, variables)}
    plan.write_units(units, file)
    return units
