"""A bundle for checks that need any: its program is a Python script on this machine's own packages. It ships nowhere."""

from __future__ import annotations

import json
import platform
import sys
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from edgepack.records.bundle import Bundle, RunnerArtifact
from edgepack.records.target import ModelOptions, Platform, Target

if TYPE_CHECKING:
    from edgepack.context import BuildContext
    from edgepack.records.model import ModelSource, PreparedModel
    from edgepack.records.runtime import RuntimeArtifact
    from edgepack.testing.kit import Kit

PROGRAM = """#!PYTHON -IS
import json, os, pathlib, sys
sys.path[:0] = json.loads(PATHS)
import numpy, onnxruntime, tokenizers
root = pathlib.Path(__file__).resolve().parent
MISDEED
options = onnxruntime.SessionOptions()
options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # other checks run beside this one
session = onnxruntime.InferenceSession(root / "model" / "model.onnx", options)
tokenizer = tokenizers.Tokenizer.from_file(str(root / "model" / "tokenizer.json"))
tokenizer.enable_truncation(json.loads((root / "manifest.json").read_text())["model"]["max_length"])
for line in sys.stdin:
    text = json.loads(line)["text"].encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    ids = tokenizer.encode(text).ids or [0]  # padding, where there are no special tokens
    feeds = {one.name: numpy.full((1, len(ids)), one.name == "attention_mask", dtype=numpy.int64) for one in session.get_inputs()}
    feeds["input_ids"] = numpy.array([ids])
    print(json.dumps({"embedding": session.run(None, feeds)[0][0].tolist()}))
""".replace("PYTHON", sys.executable).replace("PATHS", repr(json.dumps(sys.path)))
"""The program. Tests of the kit put a misdeed into it."""
HAS = tuple(dict.fromkeys(path for path in (sys.prefix, sys.base_prefix, *sys.path) if path.startswith("/")))
"""What it needs of this machine, as its target says."""
NAME = "edgepack-kit"


@dataclass(frozen=True, kw_only=True)
class ScriptBuilder:
    """Makes it (``TargetBuilder``)."""

    target: Target
    context: BuildContext

    def prepare_model(self, source: ModelSource) -> PreparedModel:
        from edgepack.recipes.prepare import prepare_model

        return prepare_model(source, options=self.target.model, context=self.context)

    def provide_runtime(self, model: PreparedModel) -> RuntimeArtifact | None:
        return None

    def make_runner(self, model: PreparedModel, runtime: RuntimeArtifact | None) -> RunnerArtifact:
        folder = self.context.work_dir / "runner"
        folder.mkdir()
        (folder / "embed").write_text(PROGRAM.replace("MISDEED", ""))
        (folder / "embed").chmod(0o755)
        return RunnerArtifact(directory=folder, program="embed", kind="script")


def script_target() -> Target:
    """Linux on this machine's kind of processor."""
    return Target(
        name=NAME,
        summary="the kit's own",
        builder=NAME,
        platform=Platform(os="linux", arch=platform.machine(), glibc="2.28", has=HAS),
        model=ModelOptions(recipe="fp32", format="onnx"),
    )


@cache
def script_bundle(kit: Kit) -> Bundle:
    """The kit's model as a bundle for that target, assembled and not verified."""
    from edgepack.bundles.assemble import assemble

    context = kit.context()
    target = script_target()
    builder = ScriptBuilder(target=target, context=context)
    model = builder.prepare_model(kit.source)
    runner = builder.make_runner(model, None)
    folder = context.work_dir / f"kit-model-{NAME}"
    folder.mkdir()
    return assemble(target=target, model=model, runtime=None, runner=runner, folder=folder, context=context)
