"""Weights of few levels, which compress well: the pass ``float-levels`` and a recipe of it."""

from collections.abc import Iterable
from typing import Any

from edgepack.api import Spec, hookimpl

SUMMARY = "float32 weights of 256 levels: the size and speed of fp32, a quarter of its download"


def make_pass() -> object:
    from edgepack_levels.float_levels import float_levels

    return float_levels


def make_recipe() -> list[dict[str, Any]]:
    return [{"pass": "fuse"}, {"pass": "float-levels"}]


@hookimpl
def edgepack_specs() -> Iterable[Spec]:
    return [
        Spec(axis="pass", name="float-levels", summary="", make=make_pass),
        Spec(axis="recipe", name="float-levels", summary=SUMMARY, make=make_recipe),
    ]
