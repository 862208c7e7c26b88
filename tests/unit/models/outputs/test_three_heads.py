"""BGE-M3: dense, sparse and multi-vector of one run, as FlagEmbedding's code makes them of transformers' vectors."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tests.support.checkpoints import change, with_tokenizer
from tests.support.families import FAMILIES
from tests.support.tiny import write_json

from edgepack.errors import ModelError
from edgepack.models.find.source import ingest
from edgepack.models.read.tokenizer import load_tokenizer
from edgepack.models.reference import reference_vectors
from edgepack.models.token_reference import reference_outputs
from edgepack.plugins.context import HostContext

pytestmark = pytest.mark.tools("python")

TEXTS = ("hello world hello", "a small model of models", "hello " * 30, "")
HIDDEN = 32


def write_three(folder: Path, *, sparse: int = 1, inputs: int = HIDDEN) -> tuple[Any, Any, Any]:
    """The folder of an XLM-R with BGE-M3's two layers; the torch modules."""
    torch.manual_seed(8)
    model: Any = transformers.XLMRobertaModel(transformers.XLMRobertaConfig(**FAMILIES["xlm-roberta"].small))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.normal_(mean=1.0 if "LayerNorm.weight" in name else 0.0, std=0.3)
    model.eval().save_pretrained(folder)
    with_tokenizer(folder, longest=20)
    change(folder / "tokenizer_config.json", eos_token="[SEP]")
    weights, vectors = torch.nn.Linear(inputs, sparse), torch.nn.Linear(HIDDEN, HIDDEN)
    with torch.no_grad():
        weights.bias.fill_(1.5)
    torch.save(weights.state_dict(), folder / "sparse_linear.pt")
    torch.save(vectors.state_dict(), folder / "colbert_linear.pt")
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
    return model, weights, vectors


def test_all_three_are_those_of_the_original(tmp_path: Path, context: HostContext) -> None:
    model, weights, vectors = write_three(tmp_path / "model")
    source = ingest(str(tmp_path / "model"), context=context)
    assert source.outputs is not None and source.outputs.sparse is not None
    assert (source.outputs.dense, source.gives) == (True, ("sparse", "tokens"))
    assert source.outputs.sparse.skip == (0, 1, 2, 3)
    tokenizer = load_tokenizer(source)
    found = False
    dense = reference_vectors(source, TEXTS, context=context)
    for text, one, row in zip(TEXTS, reference_outputs(source, TEXTS, context=context), dense, strict=True):
        ids = tokenizer.encode(text).ids
        with torch.no_grad():
            hidden = model(input_ids=torch.tensor([ids])).last_hidden_state[0]
            exact = torch.nn.functional.normalize(vectors(hidden[1:]), dim=-1)
            weight = torch.relu(weights(hidden))[:, 0].tolist()
            vector = torch.nn.functional.normalize(hidden[0], dim=-1)
        lexical: dict[int, float] = {}
        for token, each in zip(ids, weight, strict=True):
            if token > 3 and each > 0:
                lexical[token] = max(each, lexical.get(token, 0.0))
        found |= bool(lexical)
        assert one.sparse == pytest.approx(lexical, abs=1e-4)
        assert one.vectors.shape == exact.shape
        assert np.abs(one.vectors - exact.numpy()).max(initial=0) < 1e-4
        assert np.abs(row - vector.numpy()).max() < 1e-4
    assert found


def test_one_layer_alone_is_used(tmp_path: Path, context: HostContext) -> None:
    write_three(tmp_path / "model")
    (tmp_path / "model/colbert_linear.pt").unlink()
    source = ingest(str(tmp_path / "model"), context=context)
    assert source.outputs is not None
    assert (source.outputs.multi_vector, source.outputs.width, source.gives) == (
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
    torch.save({"other": torch.zeros(3)}, tmp_path / "model/sparse_linear.pt")
    with pytest.raises(ModelError, match=r"sparse_linear\.pt has no tensor weight"):
        ingest(str(tmp_path / "model"), context=context)
