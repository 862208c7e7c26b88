"""The builder of Linux bundles, one method a step."""

import platform
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgepack import api
from edgepack.api import (
    BuildContext,
    Levels,
    ModelSource,
    OptionTable,
    PreparedModel,
    RunnerArtifact,
    RuntimeArtifact,
    RuntimeKind,
    Target,
    TargetBuilder,
    TargetError,
    UsageError,
    kit,
    read_options,
    require_runtime,
)
from edgepack.api.kit import RELEASE, Wheel, fetch_sources, find_emulator, load_public
from edgepack_linux.stock import fetch_stock, stock_runtime, wheel_for

OPTIONS: OptionTable = {
    "runner": ("pyinstaller", "native"),
    "library": False,
    "serve": False,
    "runtime": ("minimal", "minimal-extended", "full", "stock"),
    "onnxruntime": RELEASE.version,
    "prove": ("here", "all"),
    "runtime_glibc": None,
    "check": ("size", "start"),
    "signatures": False,
    "require_signature": None,
}


@dataclass(frozen=True, kw_only=True)
class LinuxBuilder:
    """Makes bundles that need a kernel and a libc of their device, and nothing else."""

    target: Target
    context: BuildContext
    runtime: RuntimeKind
    """Of a runtime that is compiled."""
    stock: Wheel | None
    """What the runtime is taken out of instead."""
    levels: Levels
    runtime_glibc: str | None
    runner: str = "pyinstaller"
    library: bool = False
    serve: bool = False
    check_at_start: bool = False
    signatures: bool = False
    public_key: str = ""

    @property
    def outputs(self) -> tuple[str, ...]:
        return ("scores", "sparse", "tokens")

    def require_model(self, source: ModelSource) -> None:
        from edgepack.recipes.prepare import try_passes
        from edgepack.runner.native.build import require_native

        self._require_runner(source)
        if self.runner == "native":
            require_native(source, context=self.context)
        if source.onnx is not None:
            try_passes(source, (), whole_runtime=self.stock is not None, context=self.context)

    def _require_runner(self, source: ModelSource) -> None:
        # Not when the target is created: a bundle that was made elsewhere is verified here.
        if self.runner == "pyinstaller" and self.target.platform.arch != platform.machine():
            raise TargetError(
                f"target {self.target.name}: the frozen runner can only be made for this machine's architecture, {platform.machine()}",
                hint=f"--set runner=native, or edgepack runtime lib --target {self.target.name} for just the library",
            )
        if self.target.module is not None and source.further_outputs:
            raise TargetError(
                f"target {self.target.name}: runner.module goes around models with one vector a text; {source.name} is {source.noun}",
                hint="leave the module out",
            )

    def prepare_model(self, source: ModelSource) -> PreparedModel:
        self._require_runner(source)  # A builder that makes its parts by this one asks for the steps alone.
        with self._ahead(source):
            return api.prepare_model(
                source,
                options=self.target.model,
                platform=self.target.platform,
                whole_runtime=self.stock is not None,
                context=self.context,
            )

    def _ahead(self, source: ModelSource) -> AbstractContextManager[None]:
        from edgepack.runner.native.build import native_runner_ahead

        if self.runner != "native" or self.stock is not None:
            return nullcontext()
        return native_runner_ahead(source, kind=self.runtime, glibc=self.runtime_glibc, **self._asked())

    def provide_runtime(self, model: PreparedModel) -> RuntimeArtifact:
        return replace(self._runtime(model), levels=self.levels)

    def _runtime(self, model: PreparedModel) -> RuntimeArtifact:
        if self.stock is not None:
            return stock_runtime(self.stock, self.target.platform, context=self.context)
        asked: Any = {
            "platform": self.target.platform,
            "kind": self.runtime,
            "glibc": self.runtime_glibc,
            "context": self.context,
        }
        native = self.runner == "native"
        return api.linked_runtime(model, **asked) if native else api.reduce_runtime(model.needs, **asked)

    def make_runner(self, model: PreparedModel, runtime: RuntimeArtifact | None) -> RunnerArtifact:
        made = self._native(model) if self.runner == "native" else self._frozen(model)
        return replace(made, check_at_start=self.check_at_start)

    def _native(self, model: PreparedModel) -> RunnerArtifact:
        if self.stock is not None:
            return kit.link_loading_runner(model, **self._asked())
        return api.link_native_runner(model, kind=self.runtime, glibc=self.runtime_glibc, **self._asked())

    def _asked(self) -> dict[str, Any]:
        """Options of the program, whatever it gets its runtime from."""
        return {
            "platform": self.target.platform,
            "library": self.library,
            "serve": self.serve,
            "signatures": self.signatures,
            "public_key": self.public_key,
            "context": self.context,
        }

    def _frozen(self, model: PreparedModel) -> RunnerArtifact:
        return api.freeze_runner(
            model=model,
            platform=self.target.platform,
            signatures=self.signatures,
            public_key=self.public_key,
            module=self.target.module,
            context=self.context,
        )


def fetch(target: Target, context: BuildContext) -> None:
    """ONNX Runtime's sources or wheel, and an emulator where the target's programs run under one here."""
    if (wheel := _stock(target, read_options(target, OPTIONS))) is not None:
        fetch_stock(wheel, target.platform, context=context)
    else:
        fetch_sources(context=context)
    if target.platform.arch != platform.machine():
        find_emulator(target.platform.arch, context=context)


def create_builder(target: Target, context: BuildContext) -> TargetBuilder:
    """Check the target's options, and that a runtime can be made for its platform."""
    options = read_options(target, OPTIONS)
    if target.platform.os != "linux":
        raise TargetError(
            f"target {target.name}: builder linux makes bundles for linux, not for {target.platform.os}"
        )
    stock = _stock(target, options)
    kind: RuntimeKind = "minimal" if stock else options["runtime"]
    shared = options["library"] or options["runner"] != "native"
    require_runtime(
        target.platform, kind=kind, glibc=options["runtime_glibc"], shared=shared, context=context
    )
    if target.model.format == "onnx" and options["runtime"] not in ("full", "stock"):
        raise TargetError(
            f"target {target.name}: a {options['runtime']} runtime reads ORT format models, not .onnx",
            hint="--set runtime=full or runtime=stock, or --set model.format=ort",
        )
    if options["library"] and options["runner"] != "native":
        raise TargetError(
            f"target {target.name}: library goes with the native runner", hint="--set runner=native"
        )
    if target.module is not None and options["runner"] == "native":
        raise TargetError(
            f"target {target.name}: runner.module goes with the frozen runner",
            hint="--set runner=pyinstaller",
        )
    return LinuxBuilder(
        target=target,
        context=context,
        runtime=kind,
        stock=stock,
        levels=options["prove"],
        runtime_glibc=options["runtime_glibc"],
        runner=options["runner"],
        library=options["library"],
        serve=options["serve"],
        check_at_start=options["check"] == "start",
        signatures=options["signatures"],
        public_key=_public_key(target, options["require_signature"]),
    )


def _stock(target: Target, options: Mapping[str, Any]) -> Wheel | None:
    """The wheel that the runtime is taken out of; none where it is compiled. Raises ``TargetError``."""
    named = options["onnxruntime"]
    if options["runtime"] != "stock":
        if named != RELEASE.version:
            raise TargetError(
                f"target {target.name}: edgepack compiles ONNX Runtime {RELEASE.version}, not {named}",
                hint="--set runtime=stock takes the library of that release's wheel",
            )
        return None
    if options["runtime_glibc"]:
        raise TargetError(
            f"target {target.name}: runtime_glibc is for a runtime that is compiled",
            hint="leave it out: a wheel's library needs the glibc that it was made for",
        )
    try:
        return wheel_for(named, target.platform)
    except UsageError as error:
        raise TargetError(f"target {target.name}: onnxruntime: {error.message}", hint=error.hint) from error


def _public_key(target: Target, file: str | None) -> str:
    """The key's text. Raises ``TargetError`` for a file that is no public key."""
    if file is None:
        return ""
    try:
        return load_public(Path(file)).pem.decode()
    except UsageError as error:
        raise TargetError(
            f"target {target.name}: require_signature: {error.message}", hint=error.hint
        ) from error
