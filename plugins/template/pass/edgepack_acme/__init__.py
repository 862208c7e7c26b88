"""A pass and a recipe that uses it, registered. numpy and onnx are imported when the pass is asked for."""

from collections.abc import Iterable
from typing import Any

from edgepack import api
from edgepack.api.axes import Transform


def make_pass() -> Transform:
    """The pass; this, and not the import of this module, is where it may be heavy."""
    from .transform import shorten

    return shorten


def recipe() -> list[dict[str, Any]]:
    """Passes of `--recipe acme`, in this order; the keys beside `pass` are its parameters."""
    return [{"pass": "fuse"}, {"pass": "acme", "bits": 12}]


@api.hookimpl
def edgepack_specs() -> Iterable[api.Spec]:
    return [
        # Another revision whenever the pass would make another model than before: prepared models are kept under it.
        api.Spec(axis="pass", name="acme", summary="weights of fewer bits", make=make_pass, revision="1"),
        api.Spec(axis="recipe", name="acme", summary="fused, weights that compress better", make=recipe),
    ]
