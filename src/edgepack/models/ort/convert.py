"""Converting ONNX to ORT format, the only format that a minimal build of ONNX Runtime reads.

The converter is the runtime itself (https://onnxruntime.ai/docs/performance/model-optimizations/ort-format-models.html):
a session optimizes the graph and writes it down. A minimal build cannot optimize, so what is not done here is never done.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import onnx

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.files.store import require_space, written_beside
from edgepack.models.ort.canonical import make_canonical
from edgepack.models.ort.session import DISABLED_OPTIMIZERS, open_session, session_options

if TYPE_CHECKING:
    import onnxruntime

Level = Literal["none", "basic", "extended", "all"]
EXPANDING = ("Cast", "DequantizeLinear")
"""Operators that make more bytes of a weight than it has."""
WORTH_KEEPING = 1 << 12
"""Elements of a weight from which on it is not to be expanded in the file."""


def convert_to_ort(
    model: onnx.ModelProto, destination: Path, *, level: Level = "all", runtime_optimizations: bool = False
) -> Path:
    """Write ``model`` to ``destination`` in ORT format.

    With ``runtime_optimizations`` only basic optimizations are applied, and the others are saved for the device to
    apply (minimal-extended builds, for compiling execution providers); otherwise all of ``level`` is baked in.
    Weights that the graph itself expands stay as they are: upstream's constant folding would write them down expanded.
    The same model gives the same bytes.
    Raises ``ModelError`` or ``UnsupportedModelError`` when ONNX Runtime refuses the model, or what it saved itself.
    """
    options = _options(level)
    if runtime_optimizations:
        options.add_session_config_entry("optimization.minimal_build_optimizations", "save")
    with written_beside(destination) as temporary:
        try:
            _save(model, temporary, options, form="ORT")
        except ModelError:
            # ONNX Runtime only says that it could not write; the system says why.
            require_space(destination, model.ByteSize())
            raise
        make_canonical(temporary)
        if runtime_optimizations:
            _require_loadable(temporary, destination)
    return destination


def save_optimized(model: onnx.ModelProto, destination: Path, *, level: Level = "all") -> Path:
    """Write the graph that ``convert_to_ort`` bakes in, as ONNX: for Netron, which shows no ORT format."""
    with written_beside(destination) as temporary:
        _save(model, temporary, _options(level), form="ONNX")
    return destination


def _save(model: onnx.ModelProto, file: Path, options: onnxruntime.SessionOptions, *, form: str) -> None:
    """Have a session write down what it optimizes a model to."""
    options.add_session_config_entry("session.save_model_format", form)
    options.optimized_model_filepath = str(file)
    disabled = DISABLED_OPTIMIZERS + (("ConstantFolding",) if expands_weights(model) else ())
    open_session(model.SerializeToString(deterministic=True), options, disabled=disabled)


def expands_weights(model: onnx.ModelProto) -> bool:
    """Whether a node makes a large weight wider: what a minimal build does when it runs, constant folding does for good."""
    large = {each.name for each in model.graph.initializer if math.prod(each.dims) >= WORTH_KEEPING}
    return any(node.op_type in EXPANDING and node.input[0] in large for node in model.graph.node)


def _require_loadable(file: Path, destination: Path) -> None:
    """ONNX Runtime 1.21.0 saves integer products for pairs around MatMul and does not find them again when it loads."""
    try:
        open_session(file.read_bytes(), session_options())
    except ModelError as error:
        raise UnsupportedModelError(
            f"ONNX Runtime cannot load the runtime optimizations that it saves for {destination.name}",
            hint='use the fixed style (format = "ort", --style fixed), which applies them now',
        ) from error


def _options(level: Level) -> onnxruntime.SessionOptions:
    import onnxruntime

    options = session_options()
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = {
        "none": levels.ORT_DISABLE_ALL,
        "basic": levels.ORT_ENABLE_BASIC,
        "extended": levels.ORT_ENABLE_EXTENDED,
        "all": levels.ORT_ENABLE_ALL,
    }[level]
    return options
