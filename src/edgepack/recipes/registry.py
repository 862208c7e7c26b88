"""Which recipes and passes there are, by name; a recipe in a target is a name or a list of passes."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from edgepack.errors import TargetError
from edgepack.records.recipe import Recipe
from edgepack.records.target import Pass
from edgepack.targets import read_pass
from edgepack.typed import Malformed, check_value, load_toml
from edgepack.words import did_you_mean

if TYPE_CHECKING:
    import onnx

    from edgepack.records.recipe import Material, Note

    Transform = Callable[..., onnx.ModelProto]

PASSES: Mapping[str, str] = {
    "fuse": "edgepack.models.fuse.fusion:fuse",
    "smooth": "edgepack.passes.smooth:smooth",
    "sequence-first": "edgepack.passes.sequence_first:sequence_first",
    "fast-gelu": "edgepack.passes.fast_gelu:fast_gelu",
    "prune-vocabulary": "edgepack.passes.prune_vocabulary:prune_vocabulary",
    "fp16": "edgepack.passes.fp16:fp16",
    "half": "edgepack.passes.half:half",
    "half-fused": "edgepack.passes.half_fused:half_fused",
    "merge-projections": "edgepack.passes.merge_projections:merge_projections",
    "float-levels": "edgepack.passes.float_levels:float_levels",
    "int8-dynamic": "edgepack.passes.int8_dynamic:int8_dynamic",
    "int8-static": "edgepack.passes.int8_static:int8_static",
    "int8-weights": "edgepack.passes.int8_weights:int8_weights",
    "int4": "edgepack.passes.int4:int4",
}
"""Name → function ``(model, note, *, parameters) -> model``, or one whose third argument is a ``Material``."""


@cache
def recipes() -> Mapping[str, Recipe]:
    """Every recipe of ``recipes.toml`` by its name, in the order of listings."""
    return {
        name: Recipe(name=name, summary=said["summary"], passes=tuple(map(read_pass, said["passes"])))
        for name, said in load_toml(files("edgepack.recipes") / "recipes.toml").items()
    }


def recipe_named(name: str) -> Recipe:
    """The recipe of that name; or ``TargetError`` with the nearest."""
    known = recipes()
    if name not in known:
        raise TargetError(
            f"there is no recipe {name!r}{did_you_mean(name, known)}", hint=f"recipes: {', '.join(known)}"
        )
    return known[name]


def passes_of(recipe: str | tuple[Pass, ...]) -> tuple[Pass, ...]:
    """The passes that a target asks for, every name and parameter checked; or ``TargetError``."""
    passes = recipe_named(recipe).passes if isinstance(recipe, str) else recipe
    for each in passes:
        _check(each)
    return passes


def transform_of(step: Pass) -> Transform:
    """The function of a pass, ``(model, note[, material], **parameters) -> model``."""
    if step.name not in PASSES:
        raise TargetError(
            f"there is no pass {step.name!r}{did_you_mean(step.name, PASSES)}",
            hint=f"passes: {', '.join(PASSES)}",
        )
    module, _, function = PASSES[step.name].partition(":")
    transform: Transform = getattr(import_module(module), function)
    return transform


def apply(step: Pass, model: onnx.ModelProto, note: Note, material: Material) -> onnx.ModelProto:
    """What a pass makes of a model."""
    transform = transform_of(step)
    wanted = (material,) if "material" in inspect.signature(transform).parameters else ()
    parameters = {
        name: tuple(value) if isinstance(value, list) else value for name, value in step.parameters.items()
    }
    return transform(model, note, *wanted, **parameters)


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
                f"pass {step.name} has no parameter {name!r}{did_you_mean(name, known)}",
                hint=f"parameters of {step.name}: {', '.join(known) or 'none'}",
            )
        try:
            check_value(known[name][0], value, name)
        except Malformed as error:
            raise TargetError(f"pass {step.name}: {error}", hint=error.hint) from error
