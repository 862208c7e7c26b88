"""What `edgepack inspect` prints, word for word."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from tests.support.families import write_family
from tests.support.golden import in_rows, matches_golden

from edgepack.models.inspection import ModelInspection, as_dict, inspect_model
from edgepack.plugins.context import HostContext
from edgepack.records.suitability import Choice, Suitability
from edgepack.reports.inspection import render_inspection


@pytest.fixture
def inspection(tmp_path: Path, context: HostContext) -> ModelInspection:
    source, _ = write_family(tmp_path / "model", "nomic_bert")
    known = replace(source, prompts={"query": "search_query: "}, matryoshka=(32, 16), max_length=8192)
    return inspect_model(known, context=context)


def test_the_text_is_as_it_was_approved(inspection: ModelInspection, update_golden: bool) -> None:
    stream = io.StringIO()
    Console(file=stream, width=150, highlight=False).print(render_inspection(inspection))
    text = "".join(f"{line.rstrip()}\n" for line in stream.getvalue().splitlines())
    matches_golden("inspect.txt", text, update=update_golden)


def test_no_name_is_broken_where_lines_have_80_columns(inspection: ModelInspection) -> None:
    stream = io.StringIO()
    Console(file=stream, width=80, highlight=False).print(render_inspection(inspection))
    words = set(stream.getvalue().replace(",", " ").split())
    for operator in (*inspection.operators, *inspection.fused_operators):
        assert f"{operator.domain}.{operator.name}".removeprefix("ai.onnx.") in words
    assert {f"{fit.supported}/{fit.nodes}" for fit in inspection.providers} <= words


def test_the_json_is_as_it_was_approved(inspection: ModelInspection, update_golden: bool) -> None:
    plain = json.loads(json.dumps(as_dict(replace(inspection, files=()))))
    matches_golden("inspect.json", in_rows(plain), update=update_golden)


def test_what_each_provider_lacks_is_named(inspection: ModelInspection) -> None:
    fits = {fit.provider: fit for fit in inspection.providers}
    assert fits["CPU"].verdict == "all" and fits["CPU"].missing == ()
    assert 0 < fits["WebGPU"].supported < fits["WebGPU"].nodes
    assert "com.microsoft.EmbedLayerNormalization" in fits["WebGPU"].missing
    assert fits["TensorRT"].verdict == "all", "the graph as exported has ONNX's own operators only"
    assert fits["NNAPI"].partitions is not None and fits["NNAPI"].supported < fits["NNAPI"].nodes
    assert any("8192 tokens" in hindrance for hindrance in inspection.hindrances)


def test_recipes_to_choose_from_stand_with_what_they_weigh(inspection: ModelInspection) -> None:
    choices = tuple(
        Choice(recipe=recipe, archive=archive, mean_cosine=cosine, min_cosine=0.97)
        for recipe, archive, cosine in (("int8-compact", 9_900_000, 0.9915), ("int8", 20_600_000, 0.9989))
    )
    row = Suitability(
        target="linux-x86-fast",
        best_for="x",
        device="linux x86_64",
        taken=True,
        choices=choices,
        measured_with="all-MiniLM-L6-v2",
    )
    for found, shown in ((row, True), (replace(row, choices=choices[:1]), False)):
        stream = io.StringIO()
        Console(file=stream, width=120, highlight=False).print(
            render_inspection(replace(inspection, recommended=found))
        )
        text = stream.getvalue()
        assert ("recipes for linux-x86-fast" in text) is shown
        assert ("int8-compact" in text and "9.9" in text and "cosine of all-MiniLM-L6-v2" in text) is shown
