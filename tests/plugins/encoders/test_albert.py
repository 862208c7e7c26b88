"""ALBERT by the built-in plugin; what every architecture is asked is in tests/unit/models/export/test_families.py."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tests.support.berts import change_config, expected_vectors, onnx_vectors
from tests.support.families import tokens_of, write_family
from tests.support.installed import export_onnx, installed

from edgepack.errors import EdgepackError, ModelError, UnsupportedModelError
from edgepack.recipes.registry import apply, passes_of
from edgepack.records.recipe import Material
from edgepack_encoders.albert import shared_layers


@pytest.mark.parametrize(
    "shape",
    [
        {"num_hidden_groups": 1, "inner_group_num": 2, "hidden_act": "gelu_new"},
        {"num_hidden_layers": 5, "num_hidden_groups": 3, "embedding_size": 32},
    ],
    ids=str,
)
def test_settings_are_those_of_transformers(tmp_path: Path, shape: dict[str, Any]) -> None:
    source, model = write_family(tmp_path / "model", "albert", **shape)
    tokens = tokens_of("albert")
    expected = expected_vectors(model, tokens, source.pooling)
    vectors = onnx_vectors(export_onnx(source, tmp_path / "model.onnx"), tokens)
    np.testing.assert_allclose(vectors, expected, atol=1e-5, rtol=0)


@pytest.mark.sample(1)
@pytest.mark.parametrize("recipe", ["fp32", "int8", "int8-fast"])
def test_shared_weights_stay_shared_and_right(tmp_path: Path, recipe: str) -> None:
    """A recipe changes a weight for all layers that share it, or for none."""
    source, _ = write_family(tmp_path / "model", "albert", num_hidden_groups=1)
    exported = export_onnx(source, tmp_path / "model.onnx")
    model = onnx.load(exported)
    with installed() as context:
        for step in passes_of(recipe, context):
            model = apply(step, model, print, Material(source=source), context)
    onnx.save(model, tmp_path / "made.onnx")
    tokens = tokens_of("albert")
    exact, made = (onnx_vectors(file, tokens) for file in (exported, tmp_path / "made.onnx"))
    assert (exact * made).sum(axis=1).min() > 0.99
    if recipe != "fp32":
        kept = [each for each in model.graph.initializer if ".ffn." in each.name and len(each.dims) == 2]
        assert len(kept) == 1


def test_which_layer_is_of_which_group() -> None:
    names = shared_layers({"num_hidden_groups": 3}, 5)
    assert [name.split(".")[2] for name in names] == ["0", "0", "1", "1", "2"]


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"num_hidden_groups": 5}, ModelError, "4 layers cannot be of 5 groups"),
        ({"num_hidden_groups": 3}, ModelError, "no tensor encoder.albert_layer_groups.2"),
        ({"embedding_size": 16}, ModelError, r"has shape \[60, 12\]"),
        ({"position_embedding_type": "relative_key"}, UnsupportedModelError, "relative_key"),
    ],
    ids=str,
)
def test_what_contradicts_the_weights_or_is_not_written_is_said(
    tmp_path: Path, changes: dict[str, Any], error: type[EdgepackError], said: str
) -> None:
    source, _ = write_family(tmp_path / "model", "albert")
    with pytest.raises(error, match=said) as caught:
        export_onnx(change_config(source, **changes), tmp_path / "model.onnx")
    assert caught.value.hint
