"""The builder of Linux bundles, one method a step."""

import platform
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
    read_options,
    require_runtime,
)
from edgepack.api.kit import fetch_sources, find_emulator, load_public

OPTIONS: OptionTable = {
    "runner": ("pyinstaller", "native"),
    "library": False,
    "runtime": ("minimal", "minimal-extended", "full"),
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
    levels: Levels
    runtime_glibc: str | None
    runner: str = "pyinstaller"
    library: bool = False
    check_at_start: bool = False
    signatures: bool = False
    public_key: str = ""

    def prepare_model(self, source: ModelSource) -> PreparedModel:
        # The first step of a build, and not when the target is created: a bundle that was made elsewhere is verified here.
        if self.runner == "pyinstaller" and self.target.platform.arch != platform.machine():
            raise TargetError(
                f"target {self.target.name}: the frozen runner can only be made for this machine's architecture, {platform.machine()}",
                hint=f"--set runner=native, or edgepack runtime lib --target {self.target.name} for just the library",
            )
        return api.prepare_model(
            source, options=self.target.model, platform=self.target.platform, context=self.context
        )

    def provide_runtime(self, model: PreparedModel) -> RuntimeArtifact:
        asked: Any = {
            "platform": self.target.platform,
            "kind": self.runtime,
            "glibc": self.runtime_glibc,
            "context": self.context,
        }
        native = self.runner == "native"
        made = api.linked_runtime(model, **asked) if native else api.reduce_runtime(model.needs, **asked)
        return replace(made, levels=self.levels)

    def make_runner(self, model: PreparedModel, runtime: RuntimeArtifact | None) -> RunnerArtifact:
        if self.runner == "native":
            made = api.link_native_runner(
                model,
                platform=self.target.platform,
                kind=self.runtime,
                glibc=self.runtime_glibc,
                library=self.library,
                signatures=self.signatures,
                public_key=self.public_key,
                context=self.context,
            )
        else:
            made = api.freeze_runner(
                model=model,
                platform=self.target.platform,
                signatures=self.signatures,
                public_key=self.public_key,
                context=self.context,
            )
        return replace(made, check_at_start=self.check_at_start)


def fetch(target: Target, context: BuildContext) -> None:
    """ONNX Runtime's sources, and an emulator where the target's programs run under one here."""
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
    require_runtime(target.platform, kind=options["runtime"], glibc=options["runtime_glibc"], context=context)
    if target.model.format == "onnx" and options["runtime"] != "full":
        raise TargetError(
            f"target {target.name}: a {options['runtime']} runtime reads ORT format models, not .onnx",
            hint="--set runtime=full, or --set model.format=ort",
        )
    if options["library"] and options["runner"] != "native":
        raise TargetError(
            f"target {target.name}: library goes with the native runner", hint="--set runner=native"
        )
    return LinuxBuilder(
        target=target,
        context=context,
        runtime=options["runtime"],
        levels=options["prove"],
        runtime_glibc=options["runtime_glibc"],
        runner=options["runner"],
        library=options["library"],
        check_at_start=options["check"] == "start",
        signatures=options["signatures"],
        public_key=_public_key(target, options["require_signature"]),
    )


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
