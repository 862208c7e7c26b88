"""The builder of bundles for Windows: edgepack's native program, linked for Linux's calling convention and laid out as Windows wants it."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from edgepack import api
from edgepack.api import (
    BuildContext,
    ModelSource,
    OptionTable,
    PreparedModel,
    RunnerArtifact,
    RuntimeArtifact,
    Target,
    TargetBuilder,
    TargetError,
    missing_tools,
    read_options,
    require_runtime,
)
from edgepack.api.kit import fetch_sources
from edgepack_windows.import_library import lay_import_library
from edgepack_windows.imports import exports_of
from edgepack_windows.layout import PeLayout, lay_file, layout_of
from edgepack_windows.wine import can_have_wine, find_wine

PROGRAM = "embed.exe"
LIBRARY, IMPORT_LIBRARY, HEADER = "lib/embed.dll", "lib/embed.lib", "include/embed.h"
OPTIONS: OptionTable = {
    "runtime": ("minimal", "minimal-extended"),
    "library": False,
    "serve": False,
    "check": ("size", "start"),
    "authenticode": None,
}


@dataclass(frozen=True, kw_only=True)
class WindowsBuilder:
    """Makes bundles that need of their device what kernel32 has, with a server ws2_32 too, and nothing else."""

    target: Target
    context: BuildContext
    runtime: api.RuntimeKind
    check_at_start: bool
    layout: PeLayout
    library: bool = False
    serve: bool = False
    outputs: tuple[str, ...] = ("scores", "sparse", "tokens")

    def require_model(self, source: ModelSource) -> None:
        from edgepack.recipes.prepare import try_passes
        from edgepack.runner.native.build import require_native

        require_native(source, context=self.context)
        if source.onnx is not None:
            try_passes(source, (), context=self.context)

    def prepare_model(self, source: ModelSource) -> PreparedModel:
        find_wine(
            context=self.context
        )  # What the gate runs the program by is missed now, not after compiling.
        return api.prepare_model(
            source, options=self.target.model, platform=self.target.platform, context=self.context
        )

    def provide_runtime(self, model: PreparedModel) -> RuntimeArtifact:
        return api.linked_runtime(
            model, platform=self.target.platform, kind=self.runtime, context=self.context
        )

    def make_runner(self, model: PreparedModel, runtime: RuntimeArtifact | None) -> RunnerArtifact:
        made = api.link_native_runner(
            model,
            platform=self.target.platform,
            kind=self.runtime,
            library=self.library,
            serve=self.serve,
            context=self.context,
        )
        folder = lay_program(made, self.layout)
        if made.library:
            self._lay_library(made.directory, made.library, folder)
        library = LIBRARY if made.library else None
        return replace(
            made, directory=folder, program=PROGRAM, library=library, check_at_start=self.check_at_start
        )

    def _lay_library(self, made: Path, elf: str, folder: Path) -> None:
        """The library, what links to it and its header."""
        name = Path(LIBRARY).name
        (folder / LIBRARY).parent.mkdir()
        lay_file(made / elf, folder / LIBRARY, layout=replace(self.layout, serves=False))
        exported = exports_of((folder / LIBRARY).read_bytes())
        lay_import_library(name, exported, folder / IMPORT_LIBRARY, context=self.context)
        (folder / HEADER).parent.mkdir()
        (folder / HEADER).write_bytes((made / HEADER).read_bytes())
        self.context.note(f"{name}, {(folder / LIBRARY).stat().st_size / 1e6:.2f} MB")


def lay_program(made: RunnerArtifact, layout: PeLayout) -> Path:
    """A folder with ``embed.exe``, of a program that was linked."""
    folder = layout.context.work_dir / "windows-runner"
    folder.mkdir()
    program = folder / PROGRAM
    lay_file(made.directory / made.program, program, layout=layout)
    program.chmod(0o755)
    layout.context.note(f"laid out for Windows, {program.stat().st_size / 1e6:.2f} MB")
    return folder


def missing(target: Target) -> Iterable[str]:
    """Tools that compiling a program needs, and wine where it cannot be fetched."""
    yield from missing_tools("cmake", "ninja", "objcopy", packages={"ziglang": "zig", "capstone": "capstone"})
    if not can_have_wine():
        yield "wine64"


def fetch(target: Target, context: BuildContext) -> None:
    """ONNX Runtime's sources, and wine."""
    fetch_sources(context=context)
    find_wine(context=context)


def require_windows(target: Target) -> None:
    """Raises ``TargetError`` for another system."""
    if target.platform.os != "windows":
        raise TargetError(
            f"target {target.name}: builder {target.builder} makes bundles for windows, not for {target.platform.os}"
        )


def create_builder(target: Target, context: BuildContext) -> TargetBuilder:
    """Check the target's options, and that a runtime can be made for its platform."""
    options = read_options(target, OPTIONS)
    require_windows(target)
    require_runtime(target.platform, kind=options["runtime"], shared=False, context=context)
    if target.model.format == "onnx":
        raise TargetError(
            f"target {target.name}: a {options['runtime']} runtime reads ORT format models, not .onnx",
            hint="--set model.format=ort",
        )
    return WindowsBuilder(
        target=target,
        context=context,
        runtime=options["runtime"],
        check_at_start=options["check"] == "start",
        library=options["library"],
        serve=options["serve"],
        layout=layout_of(target, options, context=context),
    )
