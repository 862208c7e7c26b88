"""Large models, whose weights lie beside the graph: recipes make of them what they make of weights inside, as far as one file holds it."""

from importlib.resources import files
from pathlib import Path

import numpy as np
import onnx
import pytest
from tests.support.berts import change_config
from tests.support.families import FAMILIES, write_family
from tests.support.installed import export_onnx
from tests.support.quick import quick

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.inspection import inspect_model
from edgepack.models.reference import embed_with_onnxruntime, exported_model, reference_vectors
from edgepack.plugins.context import HostContext
from edgepack.recipes.model_files import convert_model
from edgepack.recipes.prepare import prepare_model
from edgepack.records.model import ModelSource, PreparedModel
from edgepack.records.target import ModelOptions, Pass
from edgepack.toml_schema import load_toml

RECIPES = tuple(load_toml(files("edgepack.recipes") / "recipes.toml"))
TEXTS = ("hello world", "a small model", "hello")


@pytest.fixture
def source(tmp_path: Path) -> ModelSource:
    return write_family(tmp_path / "model", "qwen3")[0]


def with_small_files(patch: pytest.MonkeyPatch) -> None:
    """A file holds less than this model has in full precision."""
    with_large_weights(patch)
    for module in ("models.export.from_source", "recipes.prepare"):
        patch.setattr(f"edgepack.{module}.LARGEST_MODEL", 70_000)


def with_large_weights(patch: pytest.MonkeyPatch) -> None:
    """A model of 30 kB is large, and so is a weight of 1 kB."""
    patch.setattr("edgepack.models.export.from_source.LARGE", 30_000)
    patch.setattr("edgepack.models.graph.writer.SMALLEST", 1_000)


@pytest.mark.slow
@pytest.mark.parametrize(
    "recipe",
    ["int8", *(pytest.param(each, marks=pytest.mark.slow) for each in ("int8-download", "int4"))],
)
def test_vectors_files_and_counts_are_those_of_weights_inside(
    source: ModelSource, context: HostContext, monkeypatch: pytest.MonkeyPatch, recipe: str
) -> None:
    inside = prepared(source, recipe, context).file.read_bytes()
    exact = reference_vectors(source, TEXTS, context=context)
    parameters = inspect_model(source, context=context).parameters
    with_small_files(monkeypatch)
    again = change_config(source, kept_apart=True)
    graph = exported_model(again, context=context)
    assert graph.stat().st_size < 60_000
    assert graph.with_name("model.onnx.data").stat().st_size > 70_000
    np.testing.assert_array_equal(reference_vectors(again, TEXTS, context=context), exact)
    assert prepared(again, recipe, context).file.read_bytes() == inside
    assert inspect_model(again, context=context).parameters == parameters


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", quick(FAMILIES, "xlm-roberta", "gemma3_text"))
@pytest.mark.parametrize("recipe", quick(RECIPES, "fp32", "half-fused", "int8"))
def test_one_file_is_the_same_wherever_the_weights_were(
    tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch, kind: str, recipe: str
) -> None:
    source, _ = write_family(tmp_path / "model", kind, std=0.15)
    if "half" in recipe and "gemma" in kind:
        pytest.skip("EmbeddingGemma is not computed in float16")
    inside = prepared(source, recipe, context).file.read_bytes()
    with_large_weights(monkeypatch)
    again = change_config(source, kept_apart=True)
    assert exported_model(again, context=context).with_name("model.onnx.data").is_file()
    assert prepared(again, recipe, context).file.read_bytes() == inside


def test_a_pass_of_a_plugin_is_given_weights_inside(
    source: ModelSource, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code of others reads them with onnx's own functions, which follow no absolute path."""
    with_large_weights(monkeypatch)
    recipe = (Pass(name="float-levels", parameters={"levels": 16}),)
    made = prepare_model(source, options=ModelOptions(recipe=recipe), context=context)
    assert (embed_with_onnxruntime(made.file, source, TEXTS)).shape == (3, 32)


def prepared(source: ModelSource, recipe: str, context: HostContext) -> PreparedModel:
    return prepare_model(source, options=ModelOptions(recipe=recipe), context=context)


def test_a_recipe_that_leaves_a_model_too_large_is_refused_by_its_size(
    source: ModelSource, context: HostContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with_small_files(monkeypatch)
    with pytest.raises(UnsupportedModelError, match="GB of weights by this recipe") as caught:
        prepared(source, "fp32", context)
    assert "--recipe int8" in str(caught.value.hint)
    with pytest.raises(UnsupportedModelError, match="GB of weights by this recipe"):
        convert_model(source, tmp_path / "model.ort", context=context)
    assert not (tmp_path / "model.ort").exists()


def test_what_is_left_aside_comes_inside_where_it_fits(
    source: ModelSource, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recipe that makes matrices small and leaves the table as it is."""
    with_small_files(monkeypatch)
    recipe = (Pass(name="int8-dynamic", parameters={"tables": False}),)
    made = prepare_model(source, options=ModelOptions(recipe=recipe, format="onnx"), context=context)
    model = onnx.load(made.file, load_external_data=False)
    assert not any(tensor.external_data for tensor in model.graph.initializer)
    vectors = embed_with_onnxruntime(made.file, source, TEXTS)
    assert (vectors * reference_vectors(source, TEXTS, context=context)).sum(axis=1).min() > 0.99


def test_an_export_that_fails_leaves_nothing(
    source: ModelSource, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with_small_files(monkeypatch)
    with pytest.raises(ModelError, match=r"no tensor layers\.4"):
        export_onnx(change_config(source, num_hidden_layers=5, layer_types=None), tmp_path / "out" / "m.onnx")
    assert list((tmp_path / "out").iterdir()) == []
