"""What upstream knows of operators' types (onnxruntime.tools.ort_format_model), and what it leaves out."""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from edgepack.errors import MissingToolError

FIRST_INPUT = (
    ("ai.onnx", "LayerNormalization"),
    ("ai.onnx", "SimplifiedLayerNormalization"),
    ("com.microsoft", "SkipLayerNormalization"),
    ("com.microsoft", "SkipSimplifiedLayerNormalization"),
)
"""Operators that are registered once for each type of input 0, which upstream does not track: every type is linked."""


def usage_manager(*, exact: bool) -> Any:
    """Upstream's ``OperatorTypeUsageManager``, which also tracks the operators above.

    With ``exact``, registrations for types that no node of the model has are not kept for later: upstream keeps
    those for integers, for nodes that its optimizers may add; a minimal build has no optimizers.
    """
    processing = upstream("operator_type_usage_processors")
    default_processor: type[Any] = processing.DefaultTypeUsageProcessor
    manager = processing.OperatorTypeUsageManager()
    # Upstream has no public way to add a processor; the package is pinned to this very version.
    processors = manager._all_operator_processors
    for domain, name in FIRST_INPUT:
        processors.setdefault(f"{domain}:{name}", default_processor(domain, name))
    if exact:
        for processor in processors.values():
            if isinstance(processor, default_processor):
                processor._required_input_types = {}
    return manager


def upstream(module: str) -> Any:
    """A module of ``onnxruntime.tools.ort_format_model``, alone: the packages above it import onnxruntime, and torch."""
    package = "edgepack_ort_format_model"
    if package not in sys.modules:
        found = importlib.util.find_spec("onnxruntime")
        folder = Path(found.origin).parent / "tools/ort_format_model" if found and found.origin else None
        if folder is None or not folder.is_dir():
            raise MissingToolError(
                "the onnxruntime package is not installed", hint="pip install onnxruntime==1.21.0"
            )
        sys.modules[package] = ModuleType(package)
        sys.modules[package].__path__ = [str(folder)]
        # Where these modules look for their flatbuffers bindings.
        sys.path.append(str(folder))
    return importlib.import_module(f"{package}.{module}")
