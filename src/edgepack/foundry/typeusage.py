"""What upstream knows of operators' types (onnxruntime.tools.ort_format_model), and what it leaves out."""

from __future__ import annotations

from typing import Any

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
    from onnxruntime.tools.ort_format_model import OperatorTypeUsageManager
    from onnxruntime.tools.ort_format_model.operator_type_usage_processors import DefaultTypeUsageProcessor

    manager = OperatorTypeUsageManager()
    # Upstream has no public way to add a processor; the package is pinned to this very version.
    processors = manager._all_operator_processors
    for domain, name in FIRST_INPUT:
        processors.setdefault(f"{domain}:{name}", DefaultTypeUsageProcessor(domain, name))
    if exact:
        for processor in processors.values():
            if isinstance(processor, DefaultTypeUsageProcessor):
                processor._required_input_types = {}
    return manager
