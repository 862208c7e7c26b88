"""The proof: the shipped model, loaded and run on the shipped library, in a process that has nothing else."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

from edgepack.context import BuildContext
from edgepack.errors import ProofError, ToolError
from edgepack.records import PreparedModel, RuntimeArtifact

_SCRIPT = """\
import importlib.util, pathlib, sys
binding, library, model, inputs, dimension = sys.argv[1:6]
spec = importlib.util.spec_from_file_location("binding", binding)
module = importlib.util.module_from_spec(spec)
sys.modules["binding"] = module
spec.loader.exec_module(module)
session = module.Session(pathlib.Path(library), pathlib.Path(model), 1)
for length in (3, 17):
    ids = [[101, *range(1000, 1000 + length - 2), 102]]
    ones, zeros = [[1] * length], [[0] * length]
    vectors = session.run(ids, ones, zeros if "token_type_ids" in inputs.split(",") else None)
    values = list(vectors[0])
    if len(values) != int(dimension):
        sys.exit(f"the vector has {len(values)} dimensions, not {dimension}")
    if not all(abs(value) < 1e6 for value in values) or not any(values):
        sys.exit("the vector is zero, or not finite")
print("proved")
"""
_KERNEL = re.compile(r"(?:kernel|implementation) for (?:the node .*?:)?\s*(\S.*)", re.I)


def prove(model: PreparedModel, runtime: RuntimeArtifact, *, context: BuildContext) -> None:
    """Run the model on the library with no site-packages and an empty environment. Raises ``ProofError``."""
    script = context.work_dir / "prove.py"
    script.write_text(_SCRIPT)
    command: list[str | Path] = [
        "env",
        "-i",
        sys.executable,
        "-I",
        "-S",
        script,
        runner_binding(),
        runtime.library.absolute(),
    ]
    command += [model.file.absolute(), ",".join(model.inputs), str(model.source.dimension)]
    try:
        context.run(command, log_file=context.work_dir / "prove.log")
    except ToolError as error:
        raise ProofError(
            f"{model.file.name} does not run on {runtime.library.name}: {_reason(error.message)}",
            hint="a kernel that the message names is missing: build the runtime for the operators of this very file",
        ) from error


def runner_binding() -> Path:
    """The runner's own binding to the C API: what is proved is what is shipped."""
    found = importlib.util.find_spec("edgepack.runner.frozen.ort")
    if found is None or found.origin is None:
        raise ProofError("the runner's binding to ONNX Runtime is missing from this installation")
    return Path(found.origin)


def _reason(output: str) -> str:
    """The line that says it, of a traceback."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    telling = [line for line in lines if _KERNEL.search(line)] or lines[-1:]
    return telling[-1] if telling else "no message"
