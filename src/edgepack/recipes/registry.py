"""Which recipes and passes there are, by name; a recipe in a target is a name or a list of passes."""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from edgepack.context import BuildContext, Extension, perhaps_broken
from edgepack.errors import PluginError, TargetError
from edgepack.files.store import digest_of_code
from edgepack.plugins.blame import blamed_on, listed
from edgepack.records.recipe import Recipe
from edgepack.records.target import ModelOptions, Pass
from edgepack.targets import is_pass, read_pass
from edgepack.terminal_text import did_you_mean
from edgepack.toml_schema import Malformed, check_value

if TYPE_CHECKING:
    import onnx

    from edgepack.plugins.spec import Transform
    from edgepack.records.model import ModelSource
    from edgepack.records.recipe import Material, Note

PASS, RECIPE = "pass", "recipe"
"""Axes of plugins, edgepack's own among them (``edgepack.own``)."""
TABLES = 'tables {"pass": NAME, PARAMETER: VALUE, …} or {"recipe": NAME}'


def recipe_named(name: str, context: BuildContext) -> Recipe:
    """The recipe of that name; or ``TargetError`` with the nearest."""
    known = context.extensions(RECIPE)
    if name not in known:
        raise TargetError(
            f"there is no recipe {name!r}{did_you_mean(name, known)}",
            hint=f"recipes: {', '.join(known)}{perhaps_broken(known)}",
        )
    found = known[name]
    tables = listed(found.plugin, f"recipe {name}", found.make(), TABLES)
    if wrong := [each for each in tables if not is_pass(each)]:
        raise PluginError(
            f"plugin {found.plugin}: recipe {name} returned a list with {repr(wrong[0])[:80]}, expected {TABLES}"
        )
    return Recipe(name=name, summary=found.summary, passes=tuple(map(read_pass, tables)))


def passes_of(recipe: str | tuple[Pass, ...], context: BuildContext) -> tuple[Pass, ...]:
    """The passes that a target asks for, those of recipes in recipes too, every name and parameter checked; or ``TargetError``."""
    passes = tuple(
        _flat(recipe_named(recipe, context).passes if isinstance(recipe, str) else recipe, context)
    )
    for each in passes:
        _check(each, context)
    return passes


def _flat(steps: Iterable[Pass], context: BuildContext, within: tuple[str, ...] = ()) -> Iterator[Pass]:
    for step in steps:
        if step.recipe in within:
            raise TargetError(
                f"recipe {step.recipe} contains itself, by {' and '.join(within)}",
                hint="name the passes in its place; `edgepack recipes` lists those of every recipe",
            )
        if step.recipe:
            yield from _flat(recipe_named(step.recipe, context).passes, context, (*within, step.recipe))
        else:
            yield step


def passes_for(source: ModelSource, options: ModelOptions, context: BuildContext) -> tuple[Pass, ...]:
    """Those for this model: ``options.score_recipe``'s where it gives no vector for comparing texts."""
    return passes_of((options.for_scores() if source.ranks else options).recipe, context)


def pass_named(name: str, context: BuildContext) -> Extension:
    """The pass of that name; or ``TargetError`` with the nearest."""
    known = context.extensions(PASS)
    if name not in known:
        raise TargetError(
            f"there is no pass {name!r}{did_you_mean(name, known)}",
            hint=f"passes: {', '.join(known)}{perhaps_broken(known)}",
        )
    return known[name]


def key_of_passes(passes: tuple[Pass, ...], context: BuildContext) -> str:
    """Key of passes in the key of a prepared model: names, parameters, and who brought those that are not edgepack's; the code of its own plugins'."""

    def made_by(found: Extension) -> list[str]:
        if found.identity:
            return [found.identity]
        return [] if found.package in ("", "edgepack") else [digest_of_code(found.package)]

    return json.dumps(
        [
            [step.name, dict(sorted(step.parameters.items())), *made_by(pass_named(step.name, context))]
            for step in passes
        ]
    )


def whose_passes(passes: tuple[Pass, ...], context: BuildContext) -> dict[str, dict[str, str]]:
    """For the manifest: distribution, version and revision of the passes that plugins brought; nothing where none did."""
    theirs = {step.name: pass_named(step.name, context).identity for step in passes}
    brought = {name: identity for name, identity in sorted(theirs.items()) if identity}
    return {"passes": brought} if brought else {}


def apply(
    step: Pass, model: onnx.ModelProto, note: Note, material: Material, context: BuildContext
) -> onnx.ModelProto:
    """Model changed by a pass. Raises ``PluginError`` for a plugin's pass that fails, or makes none."""
    import onnx

    from edgepack.models.graph.external_weights import gathered_where_they_fit

    found = pass_named(step.name, context)
    transform = _transform_of(found)
    wanted = (material,) if "material" in inspect.signature(transform).parameters else ()
    parameters = {
        name: tuple(value) if isinstance(value, list) else value for name, value in step.parameters.items()
    }
    if not found.identity:
        return transform(model, note, *wanted, **parameters)
    with blamed_on(found.plugin, f"pass {step.name}"):
        made = transform(gathered_where_they_fit(model), note, *wanted, **parameters)
    if not isinstance(made, onnx.ModelProto):
        raise PluginError(
            f"plugin {found.plugin}: pass {step.name} returned {repr(made)[:80]}, expected an onnx.ModelProto"
        )
    return made


def parameters_of(step: Pass, context: BuildContext) -> dict[str, tuple[Any, Any]]:
    """A pass's parameters: name → (type, default)."""
    found = pass_named(step.name, context)
    transform = _transform_of(found)
    with blamed_on(found.plugin, f"pass {step.name}"):
        kinds = typing.get_type_hints(transform)
        return {
            name: (kinds[name], parameter.default)
            for name, parameter in inspect.signature(transform).parameters.items()
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        }


def _transform_of(found: Extension) -> Transform:
    """Function that the pass's ``make`` returns; ``PluginError`` where it is none."""
    transform: Transform = found.make()
    if not callable(transform):
        raise PluginError(
            f"plugin {found.plugin}: make of pass {found.name} returned {repr(transform)[:80]}, expected a function",
            hint="let make return the function itself, not what it returns",
        )
    return transform


def _check(step: Pass, context: BuildContext) -> None:
    known = parameters_of(step, context)
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
