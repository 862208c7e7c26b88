"""What is foretold of a recipe holds for what it makes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tests.support.berts import write_bert

from edgepack.files.frames import compress
from edgepack.models.find.source import ingest
from edgepack.models.reference import exported_model
from edgepack.plugins.context import HostContext
from edgepack.recipes.expected import expected
from edgepack.recipes.prepare import prepare_model
from edgepack.recipes.registry import passes_of
from edgepack.records.target import ModelOptions

SHAPE: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 256, "vocab_size": 60}


@pytest.mark.parametrize(("recipe", "bits"), [("fp32", 32), ("fp16", 16), ("int8", 8), ("int4", 4)])
def test_sizes_are_those_of_the_recipe(tmp_path: Path, context: HostContext, recipe: str, bits: int) -> None:
    write_bert(tmp_path / "m", **SHAPE)
    source = ingest(str(tmp_path / "m"), context=context)
    weights = sum(tensor.size for tensor in load_file(tmp_path / "m/model.safetensors").values())
    found = expected(source, passes_of(recipe, context))
    assert found is not None
    assert (found.full, found.made) == (4 * weights, weights * bits // 8)
    assert 0.5 * found.made < found.least < found.made
    file = prepare_model(source, options=ModelOptions(recipe=recipe), context=context).file
    assert found.least < file.stat().st_size


def test_a_graph_counts_by_its_size(tmp_path: Path, context: HostContext) -> None:
    write_bert(tmp_path / "m", **SHAPE)
    source = ingest(str(tmp_path / "m"), context=context)
    graph = tmp_path / "m/model.onnx"
    graph.write_bytes(exported_model(source, context=context).read_bytes())
    found = expected(ingest(str(graph), context=context), passes_of("fp32", context))
    assert found is not None
    assert found.full == graph.stat().st_size // 4 * 4


def test_weights_that_are_mostly_zero_are_foretold_to_be_small(tmp_path: Path, context: HostContext) -> None:
    write_bert(tmp_path / "m", **SHAPE)
    file = tmp_path / "m/model.safetensors"
    save_file({name: np.zeros_like(tensor) for name, tensor in load_file(file).items()}, file)
    found = expected(ingest(str(tmp_path / "m"), context=context), passes_of("int8", context))
    assert found is not None
    assert found.least < found.made / 10


@pytest.mark.parametrize("recipe", ["float-levels"])
def test_of_passes_that_may_do_anything_nothing_is_foretold(
    tmp_path: Path, context: HostContext, recipe: str
) -> None:
    write_bert(tmp_path / "m")
    source = ingest(str(tmp_path / "m"), context=context)
    assert expected(source, passes_of(recipe, context)) is None


@pytest.mark.sample(1)
@pytest.mark.usefixtures("few_texts")
@pytest.mark.parametrize("recipe", ["int8-download", "int8-smallest"])
def test_few_integers_are_foretold_to_be_fewer_bytes_to_download(
    tmp_path: Path, context: HostContext, recipe: str
) -> None:
    write_bert(tmp_path / "m", **SHAPE | {"vocab_size": 4096})
    source = ingest(str(tmp_path / "m"), context=context)
    full, found = expected(source, passes_of("int8", context)), expected(source, passes_of(recipe, context))
    assert full is not None
    assert found is not None
    assert found.made == full.made
    assert found.least < found.packed < 0.8 * full.packed
    file = prepare_model(source, options=ModelOptions(recipe=recipe), context=context).file
    assert found.least < len(compress(file.read_bytes()))
