"""The builder: one method a step. The host matches, assembles, runs, verifies and measures what it makes."""

import shutil
from dataclasses import dataclass, replace

from edgepack import api
from edgepack.api.kit import fetch_sources

OPTIONS: api.OptionTable = {"prefix": "/opt/acme"}
"""Keys of `[options]` in a target, with their defaults; flags of `edgepack bundle`, too (--prefix)."""
INSTALL = """#!/bin/sh
set -e
here=$(dirname "$0")
mkdir -p "{prefix}"
cp -R "$here"/. "{prefix}"/
echo "installed: {prefix}/embed"
"""


@dataclass(frozen=True, kw_only=True)
class AcmeBuilder:
    """Makes the parts of one bundle (``api.TargetBuilder``)."""

    target: api.Target
    context: api.BuildContext
    prefix: str

    def prepare_model(self, source: api.ModelSource) -> api.PreparedModel:
        """The model, quantized by the target's recipe."""
        return api.prepare_model(
            source, options=self.target.model, platform=self.target.platform, context=self.context
        )

    def provide_runtime(self, model: api.PreparedModel) -> api.RuntimeArtifact:
        """ONNX Runtime with the operators of this model, to be linked into the program."""
        return api.linked_runtime(model, platform=self.target.platform, context=self.context)

    def make_runner(
        self, model: api.PreparedModel, runtime: api.RuntimeArtifact | None
    ) -> api.RunnerArtifact:
        """A folder with the program `embed`, and the installer beside it."""
        native = api.link_native_runner(model, platform=self.target.platform, context=self.context)
        # What api functions return lies in the cache: files are added to a copy.
        folder = self.context.work_dir / "runner"
        shutil.copytree(native.directory, folder, symlinks=True)
        installer = folder / "install.sh"
        installer.write_text(INSTALL.format(prefix=self.prefix))
        installer.chmod(0o755)
        return replace(native, directory=folder, parts={**native.parts, "install.sh": "installer"})


def create(target: api.Target, context: api.BuildContext) -> api.TargetBuilder:
    """The builder for a target. What it cannot make is refused here, before anything is fetched."""
    api.require_platform(target, os="linux", architectures=("x86_64", "aarch64"))
    options = api.read_options(target, OPTIONS)
    return AcmeBuilder(target=target, context=context, prefix=options["prefix"])


def fetch(target: api.Target, context: api.BuildContext) -> None:
    """For `edgepack fetch`: all that a build downloads beside the model."""
    fetch_sources(context=context)
