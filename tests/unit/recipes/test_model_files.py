"""A model by itself: quantized or converted, without a bundle."""

import json
from pathlib import Path

import onnx
import pytest
from tests.support.berts import write_bert
from tests.support.command import edgepack
from tokenizers import Tokenizer

from edgepack.errors import OutputError
from edgepack.models.reference import embed_with_onnxruntime, reference_vectors
from edgepack.plugins.context import HostContext
from edgepack.recipes.model_files import convert_model, quantize_model
from edgepack.records.model import ModelSource
from edgepack.records.target import ModelOptions

pytestmark = pytest.mark.tools("python")

TEXTS = ("hello world", "a small model")


@pytest.fixture
def source(tmp_path: Path) -> ModelSource:
    return write_bert(tmp_path / "model")[0]


def test_a_quantized_model_and_its_tokenizer(
    source: ModelSource, tmp_path: Path, context: HostContext
) -> None:
    made, file = quantize_model(
        source, tmp_path / "out", options=ModelOptions(recipe="int8-weights"), context=context
    )
    assert file == tmp_path / "out" / "model.ort"
    assert made.precision == "int8"
    cosines = embed_with_onnxruntime(file, source, TEXTS) * reference_vectors(source, TEXTS, context=context)
    assert cosines.sum(axis=1).min() > 0.99
    tokenizer = Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    assert tokenizer.encode("hello").tokens == ["[CLS]", "hello", "[SEP]"]
    assert {"model.ort", "tokenizer.json", "config.json"} < {
        each.name for each in (tmp_path / "out").iterdir()
    }


@pytest.mark.parametrize("runtime_optimizations", [False, True])
def test_both_styles_give_the_same_vectors(
    source: ModelSource, tmp_path: Path, context: HostContext, runtime_optimizations: bool
) -> None:
    made = convert_model(
        source, tmp_path / "model.ort", runtime_optimizations=runtime_optimizations, context=context
    )
    assert made.file.read_bytes()[4:8] == b"ORTM"
    cosines = embed_with_onnxruntime(made.file, source, TEXTS) * reference_vectors(
        source, TEXTS, context=context
    )
    assert cosines.sum(axis=1).min() > 0.99999


def test_the_optimized_graph_can_be_looked_at(
    source: ModelSource, tmp_path: Path, context: HostContext
) -> None:
    nodes = {}
    for level in ("none", "all"):
        optimized = tmp_path / f"{level}.onnx"
        convert_model(source, tmp_path / f"{level}.ort", level=level, optimized=optimized, context=context)
        nodes[level] = len(onnx.load(optimized).graph.node)
    assert nodes["all"] < nodes["none"]


def test_a_folder_is_no_file(source: ModelSource, tmp_path: Path, context: HostContext) -> None:
    with pytest.raises(OutputError, match="is a folder"):
        convert_model(source, tmp_path, context=context)


@pytest.mark.slow
def test_the_commands_figures_are_numbers(source: ModelSource, tmp_path: Path) -> None:
    environment = {"EDGEPACK_CACHE": str(tmp_path / "cache")}
    output = tmp_path / "out"
    done = edgepack(
        "quantize", str(source.directory), "-r", "int8", "-o", str(output), "--json", env=environment
    )
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert made["bytes"] == (output / "model.ort").stat().st_size
    assert made["precision"] == "int8" and made["batch_dependent"] is False
    assert made["operators"] > 10
    assert 0.9 < made["quality"]["mean_cosine"] < 1 and made["quality"]["texts"] == 200
    assert made["quality"]["batch_cosine"] > 0.9999
    done = edgepack(
        "quantize",
        str(source.directory),
        *("-r", "int8-dynamic"),
        "-o",
        str(output),
        "--json",
        env=environment,
    )
    dependent = json.loads(done.stdout)
    assert dependent["batch_dependent"] is True
    assert dependent["quality"]["batch_cosine"] < 0.9999, "measured in a batch, not text by text"
    done = edgepack(
        "convert", str(source.directory), "-o", str(tmp_path / "m.ort"), "--json", env=environment
    )
    assert json.loads(done.stdout)["bytes"] == (tmp_path / "m.ort").stat().st_size
