"""edgepack's own check of whether model and runtime fit: the operator kernels."""

from edgepack.operators.config import operators_of_ort_model, unmet
from edgepack.records.model import PreparedModel
from edgepack.records.runtime import RuntimeArtifact
from edgepack.records.target import Target

OPERATORS = "operators"
"""The check's name."""


def operators_fit(
    model: PreparedModel, runtime: RuntimeArtifact | None, target: Target
) -> tuple[str, ...] | None:
    """Operators that the runtime lacks (a ``Check``); ``None`` where what the model needs or what the runtime has is not known.

    Operators are read again from the file that ships where its format says them.
    """
    if runtime is None or runtime.provides is None:
        return None
    needs = operators_of_ort_model(model.file) if model.format == "ort" else model.needs
    return None if needs is None else unmet(needs, runtime.provides)
