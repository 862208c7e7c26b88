"""A check of whether model and runtime fit, registered: asked in every build when both are made, before anything is linked."""

from collections.abc import Iterable

from edgepack import api
from edgepack.api.axes import Check

TABLE = "acme"
"""A target asks for the check by a table [x-acme]; `largest` in it is in bytes."""


def fits(
    model: api.PreparedModel, runtime: api.RuntimeArtifact | None, target: api.Target
) -> Iterable[str] | None:
    """Sentences that refuse the build; none: the check passed; ``None``: it does not apply to this target."""
    table = target.extra.get(TABLE)
    if table is None:
        return None
    size, largest = model.file.stat().st_size, int(table["largest"])
    return [f"the model has {size:,} bytes, the device takes {largest:,}"] if size > largest else []


def make() -> Check:
    """The check; this, and not the import of this module, is where it may be heavy."""
    return fits


@api.hookimpl
def edgepack_specs() -> Iterable[api.Spec]:
    return [api.Spec(axis="checks", name="acme", summary="what the device can hold", make=make)]
