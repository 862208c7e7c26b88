"""Recipes by name, and as lists of passes: what is misspelt is said with the nearest name."""

import inspect
import subprocess
import sys
from typing import Any

import pytest

from edgepack.errors import TargetError
from edgepack.recipes.registry import PASSES, parameters_of, passes_of, recipe_named, recipes, transform_of
from edgepack.records.target import Pass


@pytest.mark.parametrize("name", recipes())
def test_every_recipe_is_made_of_passes_that_exist(name: str) -> None:
    recipe = recipe_named(name)
    assert recipe.summary
    assert passes_of(name) == recipe.passes
    assert all(step.name in PASSES for step in recipe.passes)


@pytest.mark.parametrize("name", PASSES)
def test_every_pass_is_documented_with_its_parameters(name: str) -> None:
    transform = transform_of(Pass(name=name))
    assert transform.__doc__
    for parameter in parameters_of(Pass(name=name)):
        assert f"``{parameter}``" in transform.__doc__


@pytest.mark.parametrize("name", PASSES)
def test_every_pass_says_what_it_costs(name: str) -> None:
    module = inspect.getmodule(transform_of(Pass(name=name)))
    assert "\nCost: " in str(module.__doc__)


def test_int8_is_quantized_by_token_and_int8_dynamic_as_upstream_does_it() -> None:
    assert passes_of("int8")[-1] == Pass(name="int8-dynamic")
    assert passes_of("int8-dynamic")[-1].parameters["activations"] == "tensor"


def test_a_list_of_passes_is_taken_as_it_is() -> None:
    steps = (Pass(name="fuse"), Pass(name="int8-dynamic", parameters={"weight_range": "full"}))
    assert passes_of(steps) == steps


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        ("int9", "there is no recipe 'int9' (did you mean int8?)"),
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
def test_what_is_misspelt_is_said_with_the_nearest(recipe: Any, said: str) -> None:
    with pytest.raises(TargetError) as caught:
        passes_of(recipe)
    assert caught.value.message == said
    assert caught.value.hint or "expected" in said


def test_a_whole_number_will_do_for_a_float() -> None:
    passes_of((Pass(name="smooth", parameters={"strength": 1}),))


@pytest.mark.tools("python")
def test_knowing_the_names_imports_nothing_heavy() -> None:
    code = (
        "import sys, edgepack.recipes.registry as registry\n"
        "try:\n    registry.recipe_named('int9')\nexcept Exception:\n    pass\n"
        "print({'onnx', 'numpy', 'onnxruntime', 'torch'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
