"""A program without a runtime: one's own sources, and what of the C++ runtime they ask for. No source of ONNX Runtime is needed."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.files.hardening import require_hardened
from edgepack.foundry.compile.objects import CompileJob, compile_objects, identity_of
from edgepack.foundry.link.demand import find_demand
from edgepack.foundry.link.index import load_index
from edgepack.foundry.link.one_object import keep_global
from edgepack.foundry.link.postlink import MAP, linked_files, write_toolchain_licenses
from edgepack.foundry.link.search import may_define
from edgepack.foundry.link.sources import FLAGS, PROGRAMS, flags_for, objects_folder, source_jobs
from edgepack.foundry.releases.registry import RELEASE
from edgepack.foundry.symbols import Symbols, check_floor
from edgepack.foundry.toolchain import Link, NativeToolchain, ProgramMaker
from edgepack.foundry.toolchains.choose import choose, choose_for_library
from edgepack.foundry.units import OBJECT, ProgramSources, Unit
from edgepack.records.target import Platform

SCHEMA = "3"
"""Changes when the same sources are compiled or linked otherwise."""
QUICK = tuple("-O2" if flag == "-Oz" else flag for flag in FLAGS)
"""Beside a runtime, a program's own code is small and hardly runs; here it is all there is."""
ONCE = frozenset(
    (
        *(f"program/{name}.cc" for name in ("about", "bench", "embed_main", "main", "options")),
        *("embedder/bundle.cc", "embedder/processor.cc", "search/index.cc", "search/search.cc"),
    )
)
"""Of edgepack's own program, what runs once per start and not per text: compiled to be small all the same."""
SMALL = ("serve/", "features/", "chunks/", "libembed/beside/")
"""Folders of the same kind: of a request, or a chunk, they are the smallest part."""


def build_standalone(
    sources: ProgramSources,
    *,
    platform: Platform,
    glibc: str | None = None,
    any_libc: bool = False,
    context: BuildContext,
) -> Path:
    """A folder in the store with the finished file, ``licenses/`` and ``link.map``; ``any_libc``: a library that any C library loads.

    Raises ``FloorError``, ``MissingToolError`` or ``ToolError``.
    """
    toolchain = (
        choose_for_library(platform, context=context)
        if any_libc
        else choose(platform, glibc=glibc, context=context)
    )
    if isinstance(toolchain, ProgramMaker):
        whole = {"schema": SCHEMA, "toolchain": toolchain.identity, "sources": _text_of(sources)}
        make = partial(toolchain.make_program, sources, context=context)
        return context.store.cached("standalone", {**whole, "output": sources.output}, make)
    build = _Build(toolchain=toolchain, folder=objects_folder(toolchain, context=context), context=context)
    inputs = {
        "schema": SCHEMA,
        "toolchain": toolchain.identity,
        "units": repr(sorted(build.units.items())),
        "sources": _text_of(sources),
        "output": f"{sources.output} {' '.join(sources.exports)}",
        "flags": " ".join((*build.flags, *sorted(ONCE))),
        **({"libc": toolchain.revision} if toolchain.revision else {}),
    }
    return context.store.cached("standalone", inputs, lambda made: build.link(sources, made))


@dataclass(frozen=True, kw_only=True)
class _Build:
    """A toolchain, and the folder that its objects are kept in."""

    toolchain: NativeToolchain
    folder: Path
    context: BuildContext

    @cached_property
    def units(self) -> Mapping[str, Unit]:
        """The C++ runtime, as it is compiled for code without exceptions."""
        variables = {"onnxruntime_DISABLE_EXCEPTIONS": "ON"}
        protection = self.toolchain.protection.flags if self.toolchain.protection else ()
        units = self.toolchain.units({}, variables)
        return {unit.name: replace(unit, flags=(*unit.flags, *protection)) for unit in units}

    @property
    def flags(self) -> tuple[str, ...]:
        return (*QUICK, *self.toolchain.cxx_flags)

    def flags_of(self, name: str) -> tuple[str, ...]:
        small = name in ONCE or name.startswith(SMALL)
        return tuple(flags_for(name, (*(FLAGS if small else QUICK), *self.toolchain.cxx_flags)))

    def link(self, sources: ProgramSources, folder: Path) -> None:
        own = self._own_jobs(sources)
        found = self._compile(own)
        defined = {symbol for each in found.values() for symbol in (*each.defines, *each.weak)}
        asked = {symbol for each in found.values() for symbol in each.needs} - defined
        libraries = self.toolchain.libraries(context=self.context)
        runtime = self._runtime(asked, libraries.offered)
        link = Link(
            objects=[job.object for job in (*own, *runtime)],
            output=folder / sources.output,
            map_file=folder / MAP,
            log_file=self.folder / "link.log",
            exports=sources.exports,
            libraries=libraries,
        )
        self.toolchain.link(link, context=self.context)
        link.map_file.write_text(link.map_file.read_text().replace(f"{self.folder}/", ""))
        if link.output.suffix == OBJECT:
            keep_global(link.output, link.exports)
        else:
            link.output.chmod(0o755)
            check_floor(link.output, self.toolchain.glibc)
            require_hardened(link.output, marks=self.toolchain.marks)
        pieces = self.toolchain.pieces(link.map_file)
        write_toolchain_licenses(self.toolchain, list(linked_files(pieces)), folder / "licenses")

    def _runtime(self, asked: Collection[str], offered: Collection[str]) -> Sequence[CompileJob]:
        """Compiled units of the C++ runtime that define these symbols."""
        jobs = {name: self._job(unit) for name, unit in self.units.items()}
        sources = {name: Path(job.command[-1]) for name, job in jobs.items()}
        demand = find_demand(
            (),
            sorted(asked),
            units=self.units,
            index=load_index(RELEASE, "minimal", self.toolchain.arch),
            compile=lambda names: self._compile([jobs[name] for name in sorted(names)]),
            search=lambda symbols, rest: may_define(symbols, {name: sources[name] for name in rest}),
            offered=offered,
        )
        return [jobs[name] for name in demand.units]

    def _compile(self, jobs: Sequence[CompileJob]) -> Mapping[str, Symbols]:
        with self.context.store.lock(self.folder):
            return compile_objects(
                jobs,
                read=self.toolchain.symbols,
                log_file=self.folder / "compile.log",
                label="compile the program",
                context=self.context,
            )

    def _own_jobs(self, sources: ProgramSources) -> list[CompileJob]:
        return source_jobs(
            sources,
            self.folder / PROGRAMS,
            command=self.toolchain.command,
            flags=self.flags_of,
            identity=self.toolchain.identity,
        )

    def _job(self, unit: Unit) -> CompileJob:
        command = [*self.toolchain.command(unit.language), *map(self._expand, unit.flags), "-w"]
        command += [f"-ffile-prefix-map={place}=" for place in self.toolchain.places.values()]
        return CompileJob(
            name=unit.name,
            object=self.folder / "runtime" / f"{unit.name}.o",
            command=(*command, "-c", self._expand(unit.source)),
            identity=identity_of(self.toolchain.identity, unit.name, unit.source, *unit.flags),
        )

    def _expand(self, text: str) -> str:
        for placeholder, folder in self.toolchain.places.items():
            text = text.replace(placeholder, str(folder))
        return text


def _text_of(sources: ProgramSources) -> str:
    return json.dumps(dict(sorted(sources.files.items())))
