"""A recipe: an ordered list of passes, registered under a name."""

from collections.abc import Iterable
from typing import Any

from edgepack import api


def recipe() -> list[dict[str, Any]]:
    """Passes of `--recipe acme`, in this order; the keys beside `pass` are its parameters."""
    return [{"pass": "fuse"}, {"pass": "fp16"}]


@api.hookimpl
def edgepack_specs() -> Iterable[api.Spec]:
    return [api.Spec(axis="recipe", name="acme", summary="float16 weights, fused", make=recipe)]
