"""Converting ONNX to ORT format, the only format that a minimal build of ONNX Runtime reads.

The converter is the runtime itself (https://onnxruntime.ai/docs/performance/model-optimizations/ort-format-models.html):
a session optimizes the graph and writes it down. A minimal build cannot optimize, so what is not done here is never done.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import onnx

from edgepack.errors import ModelError
from edgepack.models.ort_layout import settle_layout
from edgepack.models.session import open_session, session_options
from edgepack.store import written_beside

BLOCK = 1 << 20
Level = Literal["none", "basic", "extended", "all"]


def convert_to_ort(
    model: onnx.ModelProto,
    destination: Path,
    *,
    level: Level = "all",
    runtime_optimizations: bool = False,
) -> Path:
    """Write ``model`` to ``destination`` in ORT format.

    With ``runtime_optimizations`` only basic optimizations are applied, and the others are saved for the device to
    apply (minimal-extended builds, for compiling execution providers); otherwise all of ``level`` is baked in.
    The same model gives the same bytes.
    Raises ``ModelError`` or ``UnsupportedModelError`` when ONNX Runtime refuses the model.
    """
    import onnxruntime

    options = session_options()
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = {
        "none": levels.ORT_DISABLE_ALL,
        "basic": levels.ORT_ENABLE_BASIC,
        "extended": levels.ORT_ENABLE_EXTENDED,
        "all": levels.ORT_ENABLE_ALL,
    }[level]
    options.add_session_config_entry("session.save_model_format", "ORT")
    if runtime_optimizations:
        options.add_session_config_entry("optimization.minimal_build_optimizations", "save")
    content = model.SerializeToString(deterministic=True)
    with written_beside(destination) as temporary:
        options.optimized_model_filepath = str(temporary)
        try:
            open_session(content, options)
        except ModelError:
            _require_space(temporary, len(content))
            raise
        settle_layout(temporary)
    return destination


def _require_space(file: Path, size: int) -> None:
    """ONNX Runtime only says that it could not write a file; what the system says of writing one gives the reason."""
    with file.open("wb") as stream:
        for _ in range(0, size, BLOCK):
            stream.write(bytes(BLOCK))
