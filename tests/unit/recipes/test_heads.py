"""Poolings and Dense modules through every recipe: what is behind the encoder comes out right, however small the encoder is made."""

from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from tests.support.berts import onnx_vectors
from tests.support.families import tokens_of, write_family
from tests.support.quick import quick

from edgepack.errors import ModelError
from edgepack.models.reference import exported_model
from edgepack.plugins.context import HostContext
from edgepack.recipes.prepare import prepare_model
from edgepack.records.layers import Dense
from edgepack.records.model import ModelSource, Pooling
from edgepack.records.target import ModelOptions
from edgepack.toml_schema import load_toml


def headed(folder: Path, pooling: Pooling) -> ModelSource:
    source, _ = write_family(folder / "model", "bert", std=0.15)
    random = np.random.default_rng(1)
    weight = random.normal(0, 0.3, (24, 32)).astype(np.float32)
    (folder / "2_Dense").mkdir()
    file = folder / "2_Dense" / "model.safetensors"
    save_file({"linear.weight": weight, "linear.bias": random.normal(0, 0.3, 24).astype(np.float32)}, file)
    layer = Dense(file=file, inputs=32, outputs=24, bias=True, activation="Tanh")
    return replace(source, pooling=replace(pooling, dense=(layer,)), dimension=24)


def test_a_bias_that_the_configuration_denies(tmp_path: Path, context: HostContext) -> None:
    source = headed(tmp_path, Pooling())
    (layer,) = source.pooling.dense
    assert isinstance(layer, Dense)
    denied = replace(source, pooling=replace(source.pooling, dense=(replace(layer, bias=False),)))
    with pytest.raises(ModelError, match=r"2_Dense/model\.safetensors has linear\.bias, and its config.json"):
        exported_model(denied, context=context)


LEAST = {"int4": 0.8, "int4-int8": 0.8, "int8-dynamic": 0.95} | dict.fromkeys(
    # Ranges measured on other texts: one short text's random activations leave them.
    ("int8-static", "int8-fastest", "int8-compact", "int8-tiny"),
    0.98,
)


@pytest.mark.sample(4)
@pytest.mark.parametrize("mode", quick(["cls", "max"], "max"))
@pytest.mark.parametrize("recipe", load_toml(files("edgepack.recipes") / "recipes.toml"))
def test_every_recipe(tmp_path: Path, context: HostContext, recipe: str, mode: Any) -> None:
    source = headed(tmp_path, Pooling(mode=mode))
    tokens = tokens_of("bert", lengths=(9, 30, 2, 12))
    exact = onnx_vectors(exported_model(source, context=context), tokens)
    made = prepare_model(source, options=ModelOptions(recipe=recipe), context=context)
    vectors = onnx_vectors(made.file, tokens)
    assert vectors.shape == exact.shape == (4, 24)
    assert (vectors * exact).sum(axis=1).min() > LEAST.get(recipe, 0.99)


@pytest.mark.parametrize(
    "recipe", quick(load_toml(files("edgepack.recipes") / "recipes.toml"), "int8-near", "int4-int8")
)
def test_dense_modules_without_bias_behind_one_another(
    tmp_path: Path, context: HostContext, recipe: str
) -> None:
    """EmbeddingGemma's: what one matrix makes goes into the next as it is."""
    source, _ = write_family(tmp_path / "model", "bert", std=0.15)
    random, layers = np.random.default_rng(5), []
    for inputs, outputs in ((32, 96), (96, 32)):
        file = tmp_path / f"{inputs}.safetensors"
        save_file({"linear.weight": random.normal(size=(outputs, inputs)).astype(np.float32)}, file)
        layers.append(Dense(file=file, inputs=inputs, outputs=outputs, bias=False, activation=None))
    source = replace(source, pooling=Pooling(dense=tuple(layers)))
    tokens = tokens_of("bert", lengths=(9, 30, 2, 12))
    exact = onnx_vectors(exported_model(source, context=context), tokens)
    made = prepare_model(source, options=ModelOptions(recipe=recipe), context=context)
    assert (onnx_vectors(made.file, tokens) * exact).sum(axis=1).min() > LEAST.get(recipe, 0.99)
