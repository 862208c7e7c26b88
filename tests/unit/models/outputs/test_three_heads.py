"""BGE-M3: dense, sparse and multi-vector of one run, as FlagEmbedding's code makes them of transformers' vectors."""

from pathlib import Path

import numpy as np
import pytest
from tests.support.checkpoints import change, says, with_tokenizer
from tests.support.recorded import Judged, Numbers, Weights, form_of, save_model
from tests.support.tiny import write_json
from tests.support.torch_files import write_torch_file

from edgepack.errors import ModelError
from edgepack.models.find.source import ingest
from edgepack.models.read.tokenizer import load_tokenizer
from edgepack.models.reference import reference_vectors
from edgepack.models.token_reference import reference_outputs
from edgepack.plugins.context import HostContext

pytestmark = pytest.mark.tools("python")

TEXTS = ("hello world hello", "a small model of models", "hello " * 30, "")
HIDDEN = 32
Layers = dict[str, dict[str, Numbers]]


def through(layer: dict[str, Numbers], hidden: Numbers) -> Numbers:
    made: Numbers = hidden @ layer["weight"].T + layer["bias"]
    return made


def normalized(vectors: Numbers) -> Numbers:
    made: Numbers = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return made


def write_three(folder: Path, *, sparse: int = 1, inputs: int = HIDDEN) -> tuple[Judged, Layers]:
    """The folder of an XLM-R with BGE-M3's two layers; whom to ask about it, and the layers."""
    model = save_model(folder, form_of("xlm-roberta", {}), Weights(seed=8))
    with_tokenizer(folder, longest=20)
    change(folder / "tokenizer_config.json", eos_token="[SEP]")
    random = np.random.default_rng(8)
    layers = {
        name: {
            "weight": random.uniform(-0.17, 0.17, (outputs, width)).astype(np.float32),
            "bias": np.full(outputs, bias, np.float32),
        }
        for name, outputs, width, bias in (("sparse", sparse, inputs, 1.5), ("colbert", HIDDEN, HIDDEN, 0.1))
    }
    for name, tensors in layers.items():
        write_torch_file(folder / f"{name}_linear.pt", tensors)
    kinds = ("Transformer", "Pooling", "Normalize")
    modules = [
        {
            "idx": at,
            "name": str(at),
            "path": f"{at}_{kind}" if at else "",
            "type": f"sentence_transformers.models.{kind}",
        }
        for at, kind in enumerate(kinds)
    ]
    write_json(folder / "modules.json", modules)
    (folder / "1_Pooling").mkdir()
    write_json(
        folder / "1_Pooling/config.json", {"word_embedding_dimension": HIDDEN, "pooling_mode_cls_token": True}
    )
    return model, layers


def test_all_three_are_those_of_the_original(tmp_path: Path, context: HostContext) -> None:
    model, layers = write_three(tmp_path / "model")
    source = ingest(str(tmp_path / "model"), context=context)
    assert source.outputs is not None and source.outputs.sparse is not None
    assert (source.outputs.dense, source.further_outputs) == (True, ("sparse", "tokens"))
    assert source.outputs.sparse.skip == (0, 1, 2, 3)
    tokenizer = load_tokenizer(source)
    found = False
    dense = reference_vectors(source, TEXTS, context=context)
    for text, one, row in zip(TEXTS, reference_outputs(source, TEXTS, context=context), dense, strict=True):
        encoding = tokenizer.encode(text)
        hidden = says(model, "hidden", encoding)
        exact = normalized(through(layers["colbert"], hidden[1:]))
        weight = np.maximum(through(layers["sparse"], hidden), 0)[:, 0].tolist()
        vector = normalized(hidden[:1])[0]
        lexical: dict[int, float] = {}
        for token, each in zip(encoding.ids, weight, strict=True):
            if token > 3 and each > 0:
                lexical[token] = max(each, lexical.get(token, 0.0))
        found |= bool(lexical)
        assert one.sparse == pytest.approx(lexical, abs=1e-4)
        assert one.vectors.shape == exact.shape
        assert np.abs(one.vectors - exact).max(initial=0) < 1e-4
        assert np.abs(row - vector).max() < 1e-4
    assert found


def test_one_layer_alone_is_used(tmp_path: Path, context: HostContext) -> None:
    write_three(tmp_path / "model")
    (tmp_path / "model/colbert_linear.pt").unlink()
    source = ingest(str(tmp_path / "model"), context=context)
    assert source.outputs is not None
    assert (source.outputs.multi_vector, source.outputs.width, source.further_outputs) == (
        None,
        1,
        ("sparse", "tokens"),
    )
    assert any(one.sparse for one in reference_outputs(source, TEXTS, context=context))


@pytest.mark.parametrize("wrong", [{"sparse": 2}, {"inputs": 24}])
def test_a_layer_of_a_wrong_shape_is_named(
    tmp_path: Path, context: HostContext, wrong: dict[str, int]
) -> None:
    write_three(tmp_path / "model", **wrong)
    with pytest.raises(
        ModelError, match=r"sparse_linear\.pt: weight has shape \[\d+, \d+\], the model requires \[1, 32\]"
    ) as found:
        ingest(str(tmp_path / "model"), context=context)
    assert "another model" in (found.value.hint or "")


def test_a_layer_that_is_none_is_named(tmp_path: Path, context: HostContext) -> None:
    write_three(tmp_path / "model")
    write_torch_file(tmp_path / "model/sparse_linear.pt", {"other": np.zeros(3, np.float32)})
    with pytest.raises(ModelError, match=r"sparse_linear\.pt has no tensor weight"):
        ingest(str(tmp_path / "model"), context=context)
