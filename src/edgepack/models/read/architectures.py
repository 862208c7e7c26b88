"""Architectures: those whose graph is written from config and weights, by name; others are PyTorch's, where it is installed."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from edgepack.context import BuildContext, Extension
from edgepack.tools import with_extra

AXIS = "architecture"
INSTALL_PYTORCH = with_extra("export")


def written_by(config: Mapping[str, Any], context: BuildContext) -> Extension | None:
    """Architecture that writes the graph of a model with this config.json, by its ``model_type``; ``None`` where nothing installed does."""
    return context.extensions(AXIS).get(str(config.get("model_type")))


def has_pytorch() -> bool:
    """Whether PyTorch and transformers are installed."""
    return find_spec("torch") is not None and find_spec("transformers") is not None
