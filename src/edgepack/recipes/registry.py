"""Which recipes and passes there are, by name; a recipe in a target is a name or a list of passes."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from edgepack.errors import TargetError
from edgepack.records import Pass
from edgepack.targets import nearest

if TYPE_CHECKING:
    import onnx

    from edgepack.recipes.recipe import Recipe

    Transform = Callable[..., onnx.ModelProto]

RECIPES: Mapping[str, str] = {
    "fp32": "edgepack.recipes.fp32",
    "int8": "edgepack.recipes.int8_dynamic",
    "int8-dynamic": "edgepack.recipes.int8_dynamic",
}
"""Name → module whose ``RECIPE`` it is. ``int8`` is the one that edgepack recommends today."""

PASSES: Mapping[str, str] = {
    "fuse": "edgepack.models.fuse:fuse",
    "int8-dynamic": "edgepack.recipes.int8_dynamic:int8_dynamic",
    "smooth": "edgepack.recipes.smooth:smooth",
}
"""Name → function ``(model, note, *, parameters) -> model``."""


def recipe_named(name: str) -> Recipe:
    """The recipe of that name; or ``TargetError`` with the nearest."""
    if name not in RECIPES:
        raise TargetError(
            f"there is no recipe {name!r}{nearest(name, RECIPES)}",
            hint=f"recipes: {', '.join(RECIPES)}",
        )
    recipe: Recipe = import_module(RECIPES[name]).RECIPE
    return recipe


def passes_of(recipe: str | tuple[Pass, ...]) -> tuple[Pass, ...]:
    """The passes that a target asks for, every name and parameter checked; or ``TargetError``."""
    passes = recipe_named(recipe).passes if isinstance(recipe, str) else recipe
    for each in passes:
        _check(each)
    return passes


def transform_of(step: Pass) -> Transform:
    """The function of a pass, ``(model, note, **parameters) -> model``."""
    if step.name not in PASSES:
        raise TargetError(
            f"there is no pass {step.name!r}{nearest(step.name, PASSES)}",
            hint=f"passes: {', '.join(PASSES)}",
        )
    module, _, function = PASSES[step.name].partition(":")
    transform: Transform = getattr(import_module(module), function)
    return transform


def parameters_of(step: Pass) -> dict[str, tuple[Any, Any]]:
    """A pass's parameters: name → (type, default)."""
    transform = transform_of(step)
    kinds = typing.get_type_hints(transform)
    return {
        name: (kinds[name], parameter.default)
        for name, parameter in inspect.signature(transform).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }


def _check(step: Pass) -> None:
    known = parameters_of(step)
    for name, value in step.parameters.items():
        if name not in known:
            raise TargetError(
                f"pass {step.name} has no parameter {name!r}{nearest(name, known)}",
                hint=f"parameters of {step.name}: {', '.join(known) or 'none'}",
            )
        _check_value(step.name, name, value, known[name][0])


def _check_value(step: str, name: str, value: object, kind: Any) -> None:
    if choices := typing.get_args(kind):
        if value not in choices:
            raise TargetError(
                f"pass {step}: {name} is {value!r}{nearest(str(value), map(str, choices))}",
                hint=f"one of: {', '.join(map(str, choices))}",
            )
    elif type(value) is not kind and not (kind is float and type(value) is int):
        raise TargetError(f"pass {step}: {name} is {value!r}, expected a {kind.__name__}")
