"""What stands behind an encoder: poolings, Dense modules, heads, sparse vectors and vectors of tokens, as ONNX Runtime computes the same graph."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import onnx
import onnxruntime
import pytest
from safetensors.numpy import save_file
from tests.support.checkpoints import write_felt
from tests.support.engine_plan import given_of, vectors_of
from tests.support.families import tokens_of, write_family
from tests.support.quick import quick
from tests.unit.models.outputs.test_colbert import write_stanford
from tests.unit.models.outputs.test_splade import write_masked
from tests.unit.models.outputs.test_three_heads import write_three

from edgepack.models.find.source import ingest
from edgepack.plugins.context import HostContext
from edgepack.recipes.prepare import prepare_model
from edgepack.records.layers import Dense, DenseActivation, Layer, LayerNorm, Unit
from edgepack.records.model import ModelSource, Pooling
from edgepack.records.target import ModelOptions
from edgepack_engine.lower import lower
from edgepack_engine.plan import Operation, Plan

pytestmark = pytest.mark.tools("python")
HIDDEN, LONGER = 32, 40
Write = Callable[[Path, HostContext], ModelSource]


def layer(folder: Path, activation: DenseActivation | None, **others: Any) -> Dense:
    chance = np.random.default_rng(2)
    tensors = {
        "linear.weight": chance.normal(size=(LONGER, HIDDEN)).astype("<f4") / 4,
        "linear.bias": chance.normal(size=LONGER).astype("<f4"),
        "residual.weight": chance.normal(size=(LONGER, HIDDEN)).astype("<f4") / 4,
        "norm.weight": chance.normal(size=LONGER).astype("<f4"),
        "norm.bias": chance.normal(size=LONGER).astype("<f4"),
    }
    save_file(tensors, folder / "dense.safetensors")
    said = {"file": folder / "dense.safetensors", "inputs": HIDDEN, "outputs": LONGER, "bias": True}
    return Dense(**{**said, "activation": activation, **others})


def pooled(**how: Any) -> Write:
    return lambda folder, _: write_family(folder, "bert", std=0.1, pooling=Pooling(**how))[0]


def dense(activation: DenseActivation | None, **others: Any) -> Write:
    """A bare encoder with a Dense module of more numbers than its own."""

    def write(folder: Path, _: HostContext) -> ModelSource:
        source = write_family(folder, "bert", std=0.1)[0]
        layers: tuple[Layer, ...] = (Unit(), layer(folder, activation, **others))
        if others.get("residual"):
            layers += (LayerNorm(file=folder / "dense.safetensors", size=LONGER),)
        return replace(source, pooling=Pooling(dense=layers), dimension=LONGER)

    return write


def model(write: Callable[..., Any], *arguments: Any, **shape: Any) -> Write:
    def made(folder: Path, context: HostContext) -> ModelSource:
        write(folder, *arguments, **shape)
        return ingest(str(folder), context=context)

    return made


CLASSIFICATION = "ForSequenceClassification"
MODELS: dict[str, Write] = {
    **{mode: pooled(mode=mode) for mode in ("cls", "last", "max", "mean-sqrt-len", "weighted-mean")},
    "joined": lambda folder, context: replace(
        pooled(mode="cls", joined=("mean", "max"), normalize=False)(folder, context), dimension=3 * HIDDEN
    ),
    "cut": lambda folder, context: replace(pooled(cut=24)(folder, context), dimension=24),
    "residual": dense("Tanh", residual=True),
    "plain": dense(None),
    **{f"Dense {each}": dense(each) for each in get_args(DenseActivation)},
    **{
        f"{kind}, {labels} labels": model(write_felt, kind, CLASSIFICATION, num_labels=labels)
        for kind, labels in (
            *(("bert", 1), ("bert", 3), ("roberta", 1), ("xlm-roberta", 1), ("camembert", 1)),
            *(("distilbert", 1), ("modernbert", 1), ("mpnet", 1)),
        )
    },
    "SPLADE of BERT": model(write_masked, "bert"),
    "SPLADE of DistilBERT": model(write_masked, "distilbert"),
    "SPLADE of ModernBERT": model(write_masked, "modernbert"),
    "SPLADE of MPNet": model(write_masked, "mpnet"),
    "ColBERT": model(write_stanford),
    "BGE-M3": model(write_three),
}


def lowered(source: ModelSource, context: HostContext) -> tuple[Path, Plan]:
    options = ModelOptions(recipe="int8", format="onnx")
    graph = prepare_model(source, options=options, context=context).file
    return graph, lower(onnx.load(graph), longest=40, in_floats=True)


@pytest.mark.parametrize(
    "name", quick(tuple(MODELS), "joined", "Dense Tanh", "roberta, 1 labels", "SPLADE of BERT", "BGE-M3")
)
def test_a_plan_gives_what_its_graph_gives(tmp_path: Path, context: HostContext, name: str) -> None:
    source = MODELS[name](tmp_path / "splade", context)
    graph, plan = lowered(source, context)
    tokens = tokens_of("bert")
    session = onnxruntime.InferenceSession(str(graph), providers=["CPUExecutionProvider"])
    given = {"input_ids": tokens.ids, "attention_mask": tokens.mask, "token_type_ids": tokens.types}
    given = {each.name: given[each.name] for each in session.get_inputs()}
    wanted, *each_token = session.run(None, given)
    types = tokens.types if "token_type_ids" in given else np.zeros_like(tokens.types)
    made = vectors_of(plan, tokens.ids, tokens.mask, types)
    assert made.shape == wanted.shape == (len(tokens.ids), source.dimension)
    # What float32 rounds otherwise may move a byte of a quantized value by one.
    np.testing.assert_allclose(made, wanted, atol=1e-2 * max(1.0, np.abs(wanted).max()))
    assert bool(each_token) == bool(plan.given)
    for row in range(len(tokens.ids) if each_token else 0):
        size = int(tokens.mask[row].sum())
        ids, mask, kinds = (each[row, :size] for each in (tokens.ids, tokens.mask, types))
        np.testing.assert_allclose(given_of(plan, ids, mask, kinds), each_token[0][row, :size], atol=2e-2)


def test_numbers_of_a_vocabulary_are_made_some_at_a_time(
    tmp_path: Path, context: HostContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = MODELS["SPLADE of BERT"](tmp_path / "splade", context)
    _, whole = lowered(source, context)
    monkeypatch.setattr("edgepack_engine.lower.AT_ONCE", 16)
    _, plan = lowered(source, context)
    assert sum(step.operation == Operation.POOL for step in plan.pooled) == 4
    tokens = tokens_of("bert")
    made, wanted = (vectors_of(each, tokens.ids, tokens.mask, tokens.types) for each in (plan, whole))
    assert np.array_equal(made, wanted)
