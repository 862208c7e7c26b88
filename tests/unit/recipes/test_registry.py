"""Recipes by name, and as lists of passes: what is misspelt is said with the nearest name."""

import inspect
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from types import SimpleNamespace
from typing import Any

import pytest

from edgepack.console import Story
from edgepack.context import Extension
from edgepack.errors import TargetError
from edgepack.own import PASSES
from edgepack.plugins.context import HostContext, host_context
from edgepack.recipes.registry import (
    key_of_passes,
    parameters_of,
    pass_named,
    passes_for,
    passes_of,
    recipe_named,
)
from edgepack.records.model import ModelSource
from edgepack.records.target import ModelOptions, Pass
from edgepack.targets import read_pass
from edgepack.toml_schema import load_toml


@pytest.fixture(scope="module")
def context() -> Iterator[HostContext]:
    with host_context(story=Story(quiet=True), offline=True) as made:
        yield made


@pytest.mark.parametrize("name", load_toml(files("edgepack.recipes") / "recipes.toml"))
def test_every_recipe_is_made_of_passes_that_exist(name: str, context: HostContext) -> None:
    recipe = recipe_named(name, context)
    assert recipe.summary
    assert passes_of(name, context) == recipe.passes
    assert all(step.name in PASSES for step in recipe.passes)


@pytest.mark.parametrize("name", PASSES)
def test_every_pass_is_documented_with_its_parameters(name: str, context: HostContext) -> None:
    transform = pass_named(name, context).make()
    assert transform.__doc__
    for parameter in parameters_of(Pass(name=name), context):
        assert f"``{parameter}``" in transform.__doc__


@pytest.mark.parametrize("name", PASSES)
def test_every_pass_says_what_it_costs(name: str, context: HostContext) -> None:
    module = inspect.getmodule(pass_named(name, context).make())
    assert "\nCost: " in str(module.__doc__)


def test_int8_is_quantized_by_token_and_int8_dynamic_as_upstream_does_it(context: HostContext) -> None:
    assert passes_of("int8", context)[-1] == Pass(name="int8-dynamic")
    assert passes_of("int8-dynamic", context)[-1].parameters["activations"] == "tensor"


def test_models_with_scores_get_their_own_recipe(context: HostContext) -> None:
    ranking: Any = SimpleNamespace(ranks=True)
    vectors: Any = SimpleNamespace(ranks=False)
    options = ModelOptions(recipe="int8", score_recipe="int8-near")
    assert passes_for(vectors, options, context) == passes_of("int8", context)
    assert passes_for(ranking, options, context) == passes_of("int8-near", context)
    assert passes_for(ranking, ModelOptions(recipe="int4"), context) == passes_of("int4", context)


def test_of_scores_and_of_sparse_vectors_alone_the_order_counts() -> None:
    ranks: Any = ModelSource.ranks
    assert ranks.fget(SimpleNamespace(head=object(), outputs=None))
    assert ranks.fget(SimpleNamespace(head=None, outputs=SimpleNamespace(dense=False)))
    assert not ranks.fget(SimpleNamespace(head=None, outputs=SimpleNamespace(dense=True)))
    assert not ranks.fget(SimpleNamespace(head=None, outputs=None))


def test_a_list_of_passes_is_taken_as_it_is(context: HostContext) -> None:
    steps = (Pass(name="fuse"), Pass(name="int8-dynamic", parameters={"weight_range": "full"}))
    assert passes_of(steps, context) == steps


def test_a_recipe_in_a_list_stands_for_its_passes(context: HostContext) -> None:
    first = read_pass({"pass": "smooth", "strength": 0.5})
    whole = passes_of((first, read_pass({"recipe": "int8"})), context)
    assert whole == (first, *passes_of("int8", context))
    assert key_of_passes(whole[1:], context) == key_of_passes(passes_of("int8", context), context)


def test_the_code_of_edgepacks_own_plugins_is_in_the_key_of_passes(context: HostContext) -> None:
    """By its version alone an earlier edition's prepared model was taken."""

    def key(package: str) -> str:
        levels = Extension(name="", plugin="", summary="", make=list, identity="", package=package)
        known: Any = SimpleNamespace(extensions=lambda axis: {**context.extensions(axis), "levels": levels})
        return key_of_passes((Pass(name="levels"),), known)

    assert len({key("edgepack"), key("edgepack_levels"), key("edgepack_nomic")}) == 3


def test_a_recipe_of_a_plugin_may_be_one_of_others_and_not_of_itself(context: HostContext) -> None:
    def brought(*steps: dict[str, str]) -> Extension:
        return Extension(name="", plugin="odd", summary="", make=lambda: list(steps), identity="")

    plugins: Any = {
        "twice": brought({"recipe": "int8"}, {"recipe": "once"}),
        "once": brought({"pass": "fuse"}),
        "round": brought({"recipe": "about"}),
        "about": brought({"recipe": "round"}),
    }
    known: Any = SimpleNamespace(extensions=lambda axis: {**context.extensions(axis), **plugins})
    assert passes_of("twice", known) == (*passes_of("int8", context), Pass(name="fuse"))
    with pytest.raises(TargetError, match="recipe about contains itself, by about and round"):
        passes_of("round", known)


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        ("int9", "there is no recipe 'int9' (did you mean int8?)"),
        ((Pass(recipe="int9"),), "there is no recipe 'int9' (did you mean int8?)"),
        ("fp23", "there is no recipe 'fp23' (did you mean fp32?)"),
        ((Pass(name="fuze"),), "there is no pass 'fuze' (did you mean fuse?)"),
        (
            (Pass(name="int8-dynamic", parameters={"activation": "token"}),),
            "pass int8-dynamic has no parameter 'activation' (did you mean activations?)",
        ),
        (
            (Pass(name="int8-dynamic", parameters={"activations": "tokens"}),),
            "pass int8-dynamic: activations is 'tokens' (did you mean token?)",
        ),
        (
            (Pass(name="int8-dynamic", parameters={"tables": "yes"}),),
            "pass int8-dynamic: tables is 'yes', expected true or false",
        ),
        (
            (Pass(name="smooth", parameters={"strength": True}),),
            "pass smooth: strength is True, expected a number",
        ),
        (
            (Pass(name="int8-weights", parameters={"layers": "encoder.*"}),),
            "pass int8-weights: layers is 'encoder.*', expected a list",
        ),
    ],
    ids=str,
)
def test_what_is_misspelt_is_said_with_the_nearest(recipe: Any, said: str, context: HostContext) -> None:
    with pytest.raises(TargetError) as caught:
        passes_of(recipe, context)
    assert caught.value.message == said
    assert caught.value.hint or "expected" in said


def test_a_whole_number_will_do_for_a_float(context: HostContext) -> None:
    passes_of((Pass(name="smooth", parameters={"strength": 1}),), context)


@pytest.mark.tools("python")
def test_knowing_the_names_imports_nothing_heavy() -> None:
    code = (
        "import sys, edgepack.recipes.registry as registry\n"
        "from edgepack.plugins.context import host_context\n"
        "try:\n    with host_context() as context: registry.recipe_named('int9', context)\nexcept Exception:\n    pass\n"
        "print({'onnx', 'numpy', 'onnxruntime', 'torch'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
