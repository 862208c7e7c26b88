"""The builder: OpenVINO's own form of the model, its libraries, and edgepack's native program around its C API."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from edgepack import api
from edgepack.api import (
    BuildContext,
    ModelSource,
    PreparedModel,
    RunnerArtifact,
    RuntimeArtifact,
    Target,
    TargetBuilder,
    read_options,
    require_platform,
)
from edgepack.api.kit import link_encoder
from edgepack_openvino.libraries import VERSION, openvino_runtime, openvino_wheel

FILE = "model.xml"
SCRIPT = """\
import sys, openvino
openvino.serialize(openvino.Core().read_model(sys.argv[1]), sys.argv[2])
"""


@dataclass(frozen=True, kw_only=True)
class OpenvinoBuilder:
    """Makes bundles for processors that OpenVINO has code for."""

    target: Target
    context: BuildContext
    outputs: tuple[str, ...] = ()

    def prepare_model(self, source: ModelSource) -> PreparedModel:
        options = replace(self.target.model, format="onnx")
        made = api.prepare_model(source, options=options, platform=self.target.platform, context=self.context)

        def convert(folder: Path) -> None:
            # OpenVINO's own converter, out of the wheel whose libraries ship; nothing is installed.
            command: list[str | Path] = [sys.executable, "-c", SCRIPT, made.file, folder / FILE]
            self.context.run(command, env={"PYTHONPATH": str(openvino_wheel(self.context))})

        inputs = {"onnx": made.file.parent.name, "openvino": VERSION, "script": SCRIPT}
        folder = self.context.store.cached("openvino-model", inputs, convert)
        # The ONNX file is what both were made of: it says what the bundle must answer, and stays here.
        return replace(
            made,
            file=folder / FILE,
            companions=((folder / FILE).with_suffix(".bin"),),
            format="openvino",
            needs=None,
            oracle=made.file,
        )

    def provide_runtime(self, model: PreparedModel) -> RuntimeArtifact | None:
        return openvino_runtime(self.context)

    def make_runner(self, model: PreparedModel, runtime: RuntimeArtifact | None) -> RunnerArtifact:
        sources = (Path(__file__).parent / "csrc").iterdir()
        encoder = {path.name: path.read_text(encoding="utf-8") for path in sources}
        return link_encoder(model, encoder, platform=self.target.platform, context=self.context)


def fetch(target: Target, context: BuildContext) -> None:
    """The wheel."""
    openvino_wheel(context)


def create_builder(target: Target, context: BuildContext) -> TargetBuilder:
    """Check the target's options and platform."""
    require_platform(target, os="linux", architectures=("x86_64",))
    read_options(target, {})
    return OpenvinoBuilder(target=target, context=context)
