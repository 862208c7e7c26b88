"""Browsers as a platform that runtimes are made for, without a bundle: a WebAssembly module and its JavaScript."""

from dataclasses import dataclass
from pathlib import Path

from edgepack.api import (
    BuildContext,
    BundleError,
    Levels,
    MissingToolError,
    Operators,
    PreparedModel,
    RuntimeArtifact,
    UsageError,
)
from edgepack.api.axes import Emulator, RuntimeOptions
from edgepack.api.kit import Fit, Form, LevelProof, Release, Toolchain
from edgepack_web.foundry.composition import MODULE, is_module
from edgepack_web.foundry.emscripten import emscripten
from edgepack_web.foundry.prove import module_artifact, prove_module, prove_web
from edgepack_web.foundry.reduce import reduce_web_runtime
from edgepack_web.foundry.toolchain import WEB_RELEASE, EmscriptenToolchain


@dataclass(frozen=True, kw_only=True)
class WebPlatform:
    """WebAssembly for one thread or several."""

    os: str = "web"
    libc: None = None
    architectures: tuple[str, ...] = ("wasm32",)
    processor: None = None
    release: Release = WEB_RELEASE
    form: Form = MODULE
    next_step: str = "{library}"

    def check(self, options: RuntimeOptions) -> None:
        if options.kind != "minimal":
            raise UsageError(f"there are no {options.kind} runtimes for wasm32", hint="--kind minimal")
        if options.glibc:
            raise UsageError("a runtime for browsers needs no C library", hint="omit --glibc")

    def toolchain(self, options: RuntimeOptions, *, context: BuildContext) -> Toolchain:
        return EmscriptenToolchain(tools=emscripten(context=context), threads=options.threads)

    def reduce(self, needs: Operators, options: RuntimeOptions, *, context: BuildContext) -> RuntimeArtifact:
        return reduce_web_runtime(needs, threads=options.threads, context=context)

    def recognizes(self, file: Path) -> bool:
        return is_module(file)

    def prove(
        self, model: PreparedModel, runtime: RuntimeArtifact, *, levels: Levels, context: BuildContext
    ) -> tuple[LevelProof, ...]:
        return (prove_web(model, runtime, context=context),)

    def prove_file(
        self, model: Path, library: Path, *, levels: Levels, context: BuildContext
    ) -> tuple[LevelProof, ...]:
        return (prove_module(model, module_artifact(library), context=context),)

    def try_model(self, library: Path, model: Path, *, context: BuildContext) -> Fit:
        raise BundleError(
            f"what {library.name} holds is not known: no required_operators_and_types.config lies beside it, "
            "or the model is no .ort",
            hint="`edgepack runtime prove` runs a model on it",
        )

    def emulator(self, *, context: BuildContext) -> Emulator:
        raise MissingToolError("WebAssembly is not emulated", hint="install Node 20 or newer, which runs it")

    def lay(self, runtime: RuntimeArtifact, folder: Path, *, context: BuildContext) -> None:
        """The module and its JavaScript are all there is."""
