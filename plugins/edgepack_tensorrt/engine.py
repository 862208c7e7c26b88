"""The engine: TensorRT-RTX's builder in a process of its own, on a machine with or without a GPU."""

import hashlib
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgepack.api import BuildContext, ToolError, UnsupportedModelError
from edgepack_tensorrt.pins import BINDINGS_VERSION
from edgepack_tensorrt.profile import Profile

SCRIPT = Path(__file__).with_name("build_engine.py")
ENGINE = "model.engine"
FACTS = "engine.json"
REFUSED = 3


@dataclass(frozen=True, kw_only=True)
class Engine:
    """A serialized engine, of one version of TensorRT-RTX and for GPUs of some compute capabilities."""

    file: Path
    tensorrt: str
    layers: int


def build_engine(
    model: Path,
    *,
    profile: Profile,
    capabilities: Sequence[str],
    libraries: Path,
    bindings: Path,
    context: BuildContext,
) -> Engine:
    """Build an engine of an ONNX file; the same inputs give the same bytes, and one that is in the store is taken.

    ``libraries`` is a folder with TensorRT's, ``bindings`` one with its Python module. Raises ``UnsupportedModelError``
    for a model that TensorRT refuses, ``ToolError`` when its builder fails.
    """
    job = {"shapes": [list(shape) for shape in profile.shapes], "capabilities": list(capabilities)}

    def make(folder: Path) -> None:
        said = _run(
            model, {**job, "model": str(model)}, folder / ENGINE, libraries, bindings, context=context
        )
        (folder / FACTS).write_text(said, encoding="utf-8")

    inputs = {
        "model": _digest(model),
        "job": json.dumps(job, sort_keys=True),
        "tensorrt": BINDINGS_VERSION,
        "script": _digest(SCRIPT),
    }
    folder = context.store.cached("tensorrt-engine", inputs, make)
    facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    return Engine(file=folder / ENGINE, tensorrt=facts["tensorrt"], layers=facts["layers"])


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _run(
    model: Path, job: object, output: Path, libraries: Path, bindings: Path, *, context: BuildContext
) -> str:
    command: list[str | Path] = [sys.executable, "-I", SCRIPT, bindings, json.dumps(job), output]
    try:
        with context.progress("build the TensorRT engine"):
            said = context.run(command, env={"LD_LIBRARY_PATH": str(libraries)})
    except ToolError as error:
        raise _refusal(model, error) from error
    return said.splitlines()[-1]


def _refusal(model: Path, error: ToolError) -> Exception:
    if f"exit code {REFUSED}" not in error.message:
        return ToolError(f"TensorRT's builder failed: {error.message}", hint=error.hint)
    reasons = [line for line in error.message.splitlines()[1:] if line.strip() and "[TRT]" not in line]
    nodes = re.findall(r'\[(\w+) -> "?([^"\]]+)', error.message)
    where = f" at {nodes[0][0]} {nodes[0][1]}" if nodes else ""
    return UnsupportedModelError(
        f"TensorRT cannot take {model.name}{where}: {reasons[-1].strip() if reasons else 'no reason given'}",
        hint="take target linux-x64-cuda, or --recipe unfused if types are the problem",
    )
