"""Whether a target takes a model: decided once, for `edgepack bundle` and for the table of `edgepack inspect`."""

from dataclasses import dataclass

from edgepack.context import BuildContext
from edgepack.errors import (
    BudgetError,
    MismatchError,
    ModelError,
    TargetError,
    UnsupportedModelError,
    UsageError,
)
from edgepack.plugins.builder import Builder
from edgepack.plugins.supported_outputs import with_supported_outputs
from edgepack.recipes.expected import Expected, expected
from edgepack.recipes.registry import passes_for
from edgepack.records.model import ModelSource
from edgepack.records.target import Target
from edgepack.reports.budget import foretell_from_weights

REFUSALS = (UnsupportedModelError, ModelError, TargetError, UsageError, BudgetError, MismatchError)
"""Errors that say something of model and target; others are of this machine, such as a file that is not in the cache."""


@dataclass(frozen=True, kw_only=True)
class Suited:
    """A model as a target takes it."""

    source: ModelSource
    expected: Expected | None


def require_suitable(
    source: ModelSource, target: Target, builder: Builder, *, context: BuildContext
) -> Suited:
    """The model as the target takes it. Raises what the target refuses it with, before anything is made of it."""
    source = with_supported_outputs(source, builder.outputs, target.name, context=context)
    foretold = expected(source, passes_for(source, target.model, context))
    foretell_from_weights(target, foretold)
    builder.require_model(source)
    return Suited(source=source, expected=foretold)
