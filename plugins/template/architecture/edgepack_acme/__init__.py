"""An architecture, registered by the `model_type` of its models' config.json."""

from collections.abc import Iterable

from edgepack import api
from edgepack.api.axes import Architecture


def make() -> Architecture:
    """Function that writes the graph; this, and not the import of this module, is where it may be heavy."""
    from .graph import write

    return write


@api.hookimpl
def edgepack_specs() -> Iterable[api.Spec]:
    # Another revision whenever the graph of a model would be another than before: models are kept under it.
    return [api.Spec(axis="architecture", name="acme", summary="our encoder", make=make, revision="1")]
