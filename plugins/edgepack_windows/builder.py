"""The builder of bundles for Windows: edgepack's native program, linked for Linux's calling convention and laid out as Windows wants it."""

import shlex
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
from edgepack.api.kit import fetch_sources, sha256_of
from edgepack_windows.import_library import lay_import_library
from edgepack_windows.imports import exports_of, require_imports
from edgepack_windows.pe import windows_library, windows_program
from edgepack_windows.registers import require_no_thread_register
from edgepack_windows.wine import wine_program

PROGRAM = "embed.exe"
LIBRARY, IMPORT_LIBRARY, HEADER = "lib/embed.dll", "lib/embed.lib", "include/embed.h"
SCHEMA = "1"
"""Changes when the same program is laid out otherwise."""
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
    library: bool = False
    serve: bool = False
    sign: tuple[str, ...] = ()
    """The command that signs the program (Authenticode), with ``{unsigned}`` and ``{signed}`` for files."""
    gives: tuple[str, ...] = ("scores", "sparse", "tokens")

    def prepare_model(self, source: ModelSource) -> PreparedModel:
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
        folder = self.context.work_dir / "windows-runner"
        folder.mkdir()
        program = folder / PROGRAM
        self._sign(self._laid_out(made.directory / made.program, PROGRAM), program)
        program.chmod(0o755)
        self.context.note(f"laid out for Windows, {program.stat().st_size / 1e6:.2f} MB")
        if made.library:
            self._lay_library(made.directory, made.library, folder)
        library = LIBRARY if made.library else None
        return replace(
            made, directory=folder, program=PROGRAM, library=library, check_at_start=self.check_at_start
        )

    def _serves(self, name: str) -> bool:
        """Whether a file has the server, and with it sockets: the program may, the library never does."""
        return self.serve and name == PROGRAM

    def _lay_library(self, made: Path, elf: str, folder: Path) -> None:
        """The library, what links to it and its header."""
        name = Path(LIBRARY).name
        (folder / LIBRARY).parent.mkdir()
        self._sign(self._laid_out(made / elf, name), folder / LIBRARY)
        exported = exports_of((folder / LIBRARY).read_bytes())
        lay_import_library(name, exported, folder / IMPORT_LIBRARY, context=self.context)
        (folder / HEADER).parent.mkdir()
        (folder / HEADER).write_bytes((made / HEADER).read_bytes())
        self.context.note(f"{name}, {(folder / LIBRARY).stat().st_size / 1e6:.2f} MB")

    def _sign(self, unsigned: Path, program: Path) -> None:
        """A file, signed where the target says by what: before the manifest is, which has its digest. Raises ``TargetError``."""
        if not self.sign:
            program.write_bytes(unsigned.read_bytes())
            return
        places = {"{unsigned}": str(unsigned), "{signed}": str(program)}
        self.context.run([places.get(word, word) for word in self.sign])
        if not program.is_file():
            raise TargetError(
                f"target {self.target.name}: {self.sign[0]} signed nothing: there is no {program.name}",
                hint="authenticode names {unsigned} and {signed}, each as a word of its own (docs/windows.md)",
            )
        require_imports(program.read_bytes(), name=program.name, serves=self._serves(program.name))
        self.context.note(f"{program.name} signed by {Path(self.sign[0]).name}")

    def _laid_out(self, elf: Path, name: str) -> Path:
        """A program or a library for Windows, made once of a file that was linked."""

        def make(folder: Path) -> None:
            require_no_thread_register(elf)
            lay_out = windows_program if name == PROGRAM else windows_library
            laid_out = lay_out(elf.read_bytes(), name=name)
            require_imports(laid_out, name=name, serves=self._serves(name))
            (folder / name).write_bytes(laid_out)

        inputs = {"program": sha256_of(elf), "schema": SCHEMA}
        return self.context.store.cached("windows-program", inputs, make) / name


def missing(target: Target) -> Iterable[str]:
    """Tools that compiling a program needs, and wine, which runs it."""
    yield from missing_tools("cmake", "ninja", "objcopy", packages={"ziglang": "zig", "capstone": "capstone"})
    if wine_program() is None:
        yield "wine64"


def fetch(target: Target, context: BuildContext) -> None:
    """ONNX Runtime's sources."""
    fetch_sources(context=context)


def create_builder(target: Target, context: BuildContext) -> TargetBuilder:
    """Check the target's options, and that a runtime can be made for its platform."""
    options = read_options(target, OPTIONS)
    if target.platform.os != "windows":
        raise TargetError(
            f"target {target.name}: builder windows makes bundles for windows, not for {target.platform.os}"
        )
    require_runtime(target.platform, kind=options["runtime"], shared=False, context=context)
    if target.model.format == "onnx":
        raise TargetError(
            f"target {target.name}: a {options['runtime']} runtime reads ORT format models, not .onnx",
            hint="--set model.format=ort",
        )
    words = tuple(shlex.split(options["authenticode"] or ""))
    if words and not {"{unsigned}", "{signed}"} <= set(words):
        raise TargetError(
            f"target {target.name}: authenticode = {options['authenticode']!r} does not say where the program is",
            hint="authenticode names {unsigned} and {signed}, each as a word of its own (docs/windows.md)",
        )
    return WindowsBuilder(
        target=target,
        context=context,
        runtime=options["runtime"],
        check_at_start=options["check"] == "start",
        library=options["library"],
        serve=options["serve"],
        sign=words,
    )
