"""Graphs as plans: the steps of a plan give the vectors that ONNX Runtime gives with the graph."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from tests.support.berts import onnx_vectors
from tests.support.engine_plan import vectors_of
from tests.support.families import FAMILIES, tokens_of, write_family
from tests.support.quick import quick

from edgepack.errors import UnsupportedModelError
from edgepack.plugins.context import HostContext
from edgepack.recipes.prepare import prepare_model
from edgepack.records.target import ModelOptions
from edgepack_engine.lower import lower
from edgepack_engine.plan import (
    MOST_BYTES,
    MOST_DEPTH,
    MOST_SIZE,
    Buffer,
    Flag,
    Operation,
    Plan,
    packed,
    shared_buffers,
    write_plan,
)

WIDE = {
    **dict.fromkeys(("hidden_size", "dim"), 64),
    **dict.fromkeys(("intermediate_size", "hidden_dim"), 128),
    **dict.fromkeys(("num_attention_heads", "n_heads"), 4),
    "head_dim": 32,
}
"""Widths that the kernels take."""
ALBERT = {
    "embedding_size": 128,
    "hidden_size": 768,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "num_attention_heads": 12,
    "num_hidden_groups": 1,
    "num_hidden_layers": 2,
}
"""Those of the real one, of fewer layers."""
LOWERED = (
    *("albert", "deberta-v2"),
    *("bert", "roberta", "xlm-roberta", "camembert", "distilbert", "mpnet", "modernbert", "gte", "new"),
    *("nomic_bert", "llama", "mistral", "qwen2", "qwen3", "gemma3_text", "embedding_gemma2_text"),
)


def quantized(folder: Path, kind: str, context: HostContext, **shape: Any) -> Path:
    """The graph of a small model of an architecture by recipe ``int8``."""
    wide = {name: size for name, size in WIDE.items() if name in FAMILIES[kind].small}
    # Of EmbeddingGemma 2, only the smallest is recorded.
    wide = {"albert": ALBERT, "embedding_gemma2_text": {}}.get(kind, wide)
    source, _ = write_family(folder, kind, std=0.1, **{**wide, **shape})
    options = ModelOptions(recipe="int8", format="onnx")
    return prepare_model(source, options=options, context=context).file


def plan_of(file: Path | onnx.ModelProto, longest: int = 40, *, in_floats: bool = False) -> Plan:
    model = onnx.load(file) if isinstance(file, Path) else file
    return lower(model, longest=longest, in_floats=in_floats)


@pytest.mark.parametrize("kind", quick(LOWERED, "bert", "modernbert", "qwen3"))
def test_a_plan_gives_the_vectors_of_its_graph(tmp_path: Path, context: HostContext, kind: str) -> None:
    graph = quantized(tmp_path, kind, context)
    tokens = tokens_of(kind)
    wanted = onnx_vectors(graph, tokens)
    for in_floats in (True, False):
        plan = plan_of(graph, in_floats=in_floats)
        made = vectors_of(plan, tokens.ids, tokens.mask, tokens.types)
        # What float32 rounds otherwise may move a byte of a quantized value by one. Attention in bytes, which the graph does not have,
        # is as far off again as the weights are.
        # Tables of DeBERTa's distances are bytes, too, and so is what they meet.
        near = 5e-3 if kind == "deberta-v2" else 2e-3
        np.testing.assert_allclose(made, wanted, atol=near if in_floats else 5e-2)


@pytest.mark.parametrize(
    "kind", quick(tuple(kind for kind in LOWERED if kind != "albert"), "bert", "nomic_bert", "qwen3")
)
def test_widths_and_heads_of_any_size_are_filled_up(tmp_path: Path, context: HostContext, kind: str) -> None:
    """A hidden size of 32, inner ones of 48, heads of 8 and of 12."""
    source, _ = write_family(tmp_path, kind, std=0.1)
    options = ModelOptions(recipe="int8", format="onnx")
    graph = prepare_model(source, options=options, context=context).file
    tokens = tokens_of(kind)
    made = vectors_of(plan_of(graph, in_floats=True), tokens.ids, tokens.mask, tokens.types)
    np.testing.assert_allclose(made, onnx_vectors(graph, tokens), atol=2e-3)


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from edgepack.console import Story
    from edgepack.plugins.context import host_context

    with host_context(story=Story(quiet=True)) as context:
        return quantized(tmp_path_factory.mktemp("bert"), "bert", context)


def test_what_is_between_two_attentions_is_computed_a_few_tokens_at_a_time(
    bert: Path,
) -> None:
    plan = plan_of(bert)
    kinds, places = shared_buffers(plan)
    kept = {buffer for buffer, place in places.items() if kinds[place][2]}
    for step in plan.steps:
        if step.operation == Operation.ATTENTION:
            assert {*step.inputs, *step.outputs} - {None} <= kept
        if step.operation == Operation.PRODUCT and step.sizes[2]:
            assert not {*step.inputs, *step.outputs} & kept
    assert {*plan.pooled[0].inputs} <= kept


def test_no_buffer_is_used_again_while_it_is_read(bert: Path) -> None:
    plan = plan_of(bert)
    _, places = shared_buffers(plan)
    assert len(set(places.values())) < len(places)
    held: dict[int, Buffer] = {}
    for step in (*plan.steps, *plan.pooled):
        for buffer in (each for each in step.inputs if isinstance(each, Buffer)):
            assert held[places[buffer]] is buffer
        for buffer in (each for each in step.outputs if each is not None):
            held[places[buffer]] = buffer
    assert held[places[plan.vector]] is plan.vector


def test_weights_that_one_instruction_multiplies_lie_together() -> None:
    weights = np.arange(32 * 64, dtype=np.int64).reshape(32, 64)
    found = packed(weights.astype(np.int8))
    assert found.shape == (4, 8, 16, 4)
    assert found[1, 2, 3].tolist() == weights[8:12, 19].astype(np.int8).tolist()


def test_the_same_plan_gives_the_same_file(bert: Path, tmp_path: Path) -> None:
    for name in ("one", "other"):
        write_plan(plan_of(bert), tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


def test_layers_that_share_weights_have_them_once(tmp_path: Path, context: HostContext) -> None:
    graph = quantized(tmp_path, "albert", context)
    plan = plan_of(graph)
    write_plan(plan, tmp_path / "plan")
    products = [step for step in plan.steps if step.operation == Operation.PRODUCT]
    assert len(products) == 1 + 2 * 4
    assert len({id(step.tensors[0]) for step in products}) == 1 + 4
    assert (tmp_path / "plan").stat().st_size < 1.1 * (4 * 768**2 + 2 * 768 * 3072)


@pytest.mark.slow
def test_what_the_program_would_call_damaged_is_refused(
    tmp_path: Path,
    context: HostContext,
    bert: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as lower:
        lower.setattr("edgepack_engine.lower.MOST_DEPTH", 100)
        with pytest.raises(
            UnsupportedModelError, match="a product of 128 numbers could exceed 32 bits"
        ) as caught:
            plan_of(bert)
        assert "--target linux-x86" in str(caught.value.hint)
        lower.setattr("edgepack_engine.attention.MOST_SIZE", 15)
        with pytest.raises(UnsupportedModelError, match="heads of 16 numbers are above 15"):
            plan_of(bert)
    graph = quantized(tmp_path / "far", "mpnet", context)
    plan = plan_of(graph)
    (known,) = {step.sizes[6] // 2 + 1 for step in plan.steps if step.operation == Operation.ATTENTION}
    with pytest.raises(
        UnsupportedModelError, match=f"distances in texts of {known} tokens, not of {known + 1}"
    ):
        plan_of(graph, longest=known + 1)


def test_tokens_that_need_too_much_room_are_refused(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgepack_engine.lower.MOST_BYTES", 1000)
    with pytest.raises(UnsupportedModelError, match=r"a token needs [\d,]+ bytes of buffers, above 1,000"):
        plan_of(bert)


def changed(file: Path, name: str, by: Any) -> onnx.ModelProto:
    model = onnx.load(file)
    tensor = next(each for each in model.graph.initializer if name in each.name)
    numbers = numpy_helper.to_array(tensor).copy()
    tensor.CopyFrom(numpy_helper.from_array(by(numbers), tensor.name))
    return model


def test_weights_whose_sums_could_clip_are_refused(bert: Path) -> None:
    def large(weights: Any) -> Any:
        weights[4:6, 7] = 100, -29
        return weights

    with pytest.raises(UnsupportedModelError, match="two neighbouring weights are 129 together, above 128"):
        plan_of(changed(bert, "intermediate.dense.weight.smoothed.int8", large))


@pytest.mark.parametrize("name", ["token.zero_signed", "token.step_signed", "query.weight.smoothed.zeros"])
def test_numbers_that_the_kernels_do_not_know_are_refused(bert: Path, name: str) -> None:
    with pytest.raises(UnsupportedModelError, match="the engine has no step"):
        plan_of(changed(bert, name, lambda numbers: numbers + numbers.dtype.type(1)))


def test_a_graph_of_floats_is_refused(tmp_path: Path, context: HostContext) -> None:
    source, _ = write_family(tmp_path, "bert", std=0.1)
    graph = prepare_model(source, options=ModelOptions(recipe="fp32", format="onnx"), context=context).file
    with pytest.raises(UnsupportedModelError, match="the engine has no step for operator"):
        plan_of(graph)


def test_limits_are_those_of_the_program() -> None:
    folder = Path(__file__).parents[3] / "plugins/edgepack_engine/csrc"
    code = "".join((folder / name).read_text() for name in ("sound.cc", "kernels.h"))
    assert MOST_DEPTH == 1 << 17
    assert "MOST_DEPTH = 1 << 17;" in code
    assert MOST_BYTES == 1 << 22
    assert "MOST_BYTES = 1 << 22;" in code
    assert f"MOST_SIZE = {MOST_SIZE};" in code


def test_flags_are_those_of_the_program() -> None:
    """``plan.h`` has the same numbers."""
    header = (Path(__file__).parents[3] / "plugins/edgepack_engine/csrc/plan.h").read_text()
    for flag in Flag:
        if flag:
            assert f"{flag.name} = {int(flag)}" in header
    names = (
        header.partition("enum Operation : uint32_t { ")[2].partition(" }")[0].replace(" = 1", "").split(", ")
    )
    assert names == [each.name for each in Operation]
