"""What plugins may import to write a builder; everything else is edgepack's own business and may change.

``Spec`` and ``hookimpl`` register a builder, ``TargetBuilder`` is what it has to be, ``BuildContext`` what it is given; it takes
and returns the records. ``prepare_model``, ``reduce_runtime`` and the runners are what builders share. A builder whose
runtime comes in wheels, or is compiled for a platform of its own, finds more in ``edgepack.api.kit``.

Importing this is light: a name is looked up where it lives when it is first asked for.
"""

from typing import TYPE_CHECKING

from edgepack.api.names import lookup

if TYPE_CHECKING:
    from edgepack.context import BuildContext as BuildContext
    from edgepack.context import Progress as Progress
    from edgepack.errors import BundleError as BundleError
    from edgepack.errors import EdgepackError as EdgepackError
    from edgepack.errors import MissingToolError as MissingToolError
    from edgepack.errors import ModelError as ModelError
    from edgepack.errors import ProofError as ProofError
    from edgepack.errors import TargetError as TargetError
    from edgepack.errors import ToolError as ToolError
    from edgepack.errors import UnsupportedModelError as UnsupportedModelError
    from edgepack.errors import UsageError as UsageError
    from edgepack.foundry.link.library import reduce_runtime as reduce_runtime
    from edgepack.options import OptionTable as OptionTable
    from edgepack.options import read_options as read_options
    from edgepack.options import require_platform as require_platform
    from edgepack.plugins.hookspecs import hookimpl as hookimpl
    from edgepack.plugins.spec import API_VERSION as API_VERSION
    from edgepack.plugins.spec import Spec as Spec
    from edgepack.plugins.spec import TargetBuilder as TargetBuilder
    from edgepack.plugins.spec import Transform as Transform
    from edgepack.plugins.spec import lazy as lazy
    from edgepack.recipes.prepare import prepare_model as prepare_model
    from edgepack.records.bundle import Bundle as Bundle
    from edgepack.records.bundle import Placement as Placement
    from edgepack.records.bundle import RunnerArtifact as RunnerArtifact
    from edgepack.records.model import ModelSource as ModelSource
    from edgepack.records.model import PreparedModel as PreparedModel
    from edgepack.records.operators import Operator as Operator
    from edgepack.records.operators import Operators as Operators
    from edgepack.records.report import Report as Report
    from edgepack.records.runtime import ExecutionProvider as ExecutionProvider
    from edgepack.records.runtime import Levels as Levels
    from edgepack.records.runtime import RuntimeArtifact as RuntimeArtifact
    from edgepack.records.runtime import RuntimeKind as RuntimeKind
    from edgepack.records.target import ModelOptions as ModelOptions
    from edgepack.records.target import Platform as Platform
    from edgepack.records.target import Target as Target
    from edgepack.runner.freeze.runner import freeze_runner as freeze_runner
    from edgepack.runner.native.build import link_native_runner as link_native_runner
    from edgepack.runner.native.build import linked_runtime as linked_runtime
    from edgepack.runner.tokenizer.tables import TokenizerTables as TokenizerTables
    from edgepack.runner.tokenizer.tables import tokenizer_tables as tokenizer_tables
    from edgepack.targets import parse_size as parse_size
    from edgepack.tools import is_installed as is_installed
    from edgepack.tools import missing_tools as missing_tools

HOMES = {
    "edgepack.context": ("BuildContext", "Progress"),
    "edgepack.errors": (
        "BundleError",
        "EdgepackError",
        "MissingToolError",
        "ModelError",
        "ProofError",
        "TargetError",
        "ToolError",
        "UnsupportedModelError",
        "UsageError",
    ),
    "edgepack.foundry.link.library": ("reduce_runtime",),
    "edgepack.options": ("OptionTable", "read_options", "require_platform"),
    "edgepack.plugins.hookspecs": ("hookimpl",),
    "edgepack.plugins.spec": ("API_VERSION", "Spec", "TargetBuilder", "Transform", "lazy"),
    "edgepack.recipes.prepare": ("prepare_model",),
    "edgepack.records.bundle": ("Bundle", "Placement", "RunnerArtifact"),
    "edgepack.records.model": ("ModelSource", "PreparedModel"),
    "edgepack.records.operators": ("Operator", "Operators"),
    "edgepack.records.report": ("Report",),
    "edgepack.records.runtime": ("ExecutionProvider", "Levels", "RuntimeArtifact", "RuntimeKind"),
    "edgepack.records.target": ("ModelOptions", "Platform", "Target"),
    "edgepack.runner.freeze.runner": ("freeze_runner",),
    "edgepack.runner.native.build": ("link_native_runner", "linked_runtime"),
    "edgepack.runner.tokenizer.tables": ("TokenizerTables", "tokenizer_tables"),
    "edgepack.targets": ("parse_size",),
    "edgepack.tools": ("is_installed", "missing_tools"),
}
"""Module → what is said there."""
__all__ = sorted(name for names in HOMES.values() for name in names)

if not TYPE_CHECKING:
    # Hidden from type checkers, who would take any name for granted.
    __getattr__ = lookup(__name__, HOMES)
