"""What the page shows beside the report: bytes, comparisons, and what is read of the bundle's folder."""

import json
from collections.abc import Iterator
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper
from tests.support.golden import ROOT

from edgepack.context import BuildContext
from edgepack.errors import ModelError, UsageError
from edgepack.foundry.explain.sizes import Explanation, MemberRow, Row
from edgepack.models.ort.convert import convert_to_ort
from edgepack.models.ort.tensors import Tensor, tensors_of
from edgepack.records.bundle import Bundle
from edgepack.reports.page.beside import stock
from edgepack.reports.page.contents import Node, contents_of, object_parts, tensor_parts
from edgepack.reports.page.facts import components_of, passes_of, read_bench


@pytest.fixture
def model() -> onnx.ModelProto:
    weights = helper.make_tensor("layer.0.dense.weight", TensorProto.FLOAT, [4, 8], list(range(32)))
    bias = helper.make_tensor("layer.0.dense.bias", TensorProto.FLOAT, [8], list(range(8)))
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 4])
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 8])
    nodes = [
        helper.make_node("MatMul", ["x", "layer.0.dense.weight"], ["h"]),
        helper.make_node("Add", ["h", "layer.0.dense.bias"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", [given], [out], [weights, bias])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    made.ir_version = 10
    return made


def test_the_tensors_of_both_formats_are_read(model: onnx.ModelProto, tmp_path: Path) -> None:
    onnx.save(model, tmp_path / "model.onnx")
    ort = convert_to_ort(model, tmp_path / "model.ort", level="none")
    found = {each.name: each for each in tensors_of(ort)}
    assert found["layer.0.dense.weight"] == Tensor(
        name="layer.0.dense.weight", type="float", shape=(4, 8), bytes=128
    )
    assert found["layer.0.dense.bias"].bytes == 32
    by_onnx = {each.name: each for each in tensors_of(tmp_path / "model.onnx")}
    assert by_onnx["layer.0.dense.weight"].shape == (4, 8)
    assert 128 <= by_onnx["layer.0.dense.weight"].bytes < 200


def test_a_damaged_model_is_said(model: onnx.ModelProto, tmp_path: Path) -> None:
    ort = convert_to_ort(model, tmp_path / "model.ort", level="none")
    content = ort.read_bytes()
    for name, wrong in (
        ("a.ort", b"nothing"),
        ("b.ort", content[:64]),
        ("c.ort", b""),
        ("d.onnx", b"\xff" * 99),
    ):
        (tmp_path / name).write_bytes(wrong)
        with pytest.raises(ModelError, match=f"^{name} cannot be read: "):
            tensors_of(tmp_path / name)


def every(node: Node) -> Iterator[Node]:
    yield node
    for part in node.parts:
        yield from every(part)


def test_tensors_are_grouped_by_the_words_of_their_names_and_sum_to_the_file() -> None:
    tensors = [
        Tensor(name=f"encoder.layer.{layer}.{part}", type="int8", shape=(10, 10), bytes=size)
        for layer in range(2)
        for part, size in (("attention.weight", 30_000), ("attention.scales", 3), ("attention.zeros", 2))
    ]
    tensors += [Tensor(name="embeddings", type="float", shape=(5,), bytes=10_000)]
    parts = tensor_parts(tensors, 71_000)
    assert [(part.name, part.bytes) for part in parts] == [
        ("encoder", 60_010),
        ("embeddings", 10_000),
        ("graph, names and padding", 990),
    ]
    assert [part.name for part in parts[0].parts] == ["layer.0.attention", "layer.1.attention"]
    assert [part.name for part in parts[0].parts[0].parts] == ["weight", "2 smaller ones"]
    assert parts[0].parts[0].parts[0].what == "int8 [10, 10]"
    for node in (each for part in parts for each in every(part)):
        assert not node.parts or node.bytes == sum(part.bytes for part in node.parts)


def test_a_bundle_is_its_files_and_a_model_in_pieces_is_its_tensors(
    model: onnx.ModelProto, tmp_path: Path
) -> None:
    content = convert_to_ort(model, tmp_path / "model.ort", level="none").read_bytes()
    folder = tmp_path / "bundle"
    folder.mkdir()
    step = len(content) // 10
    pieces = [content[at * step : (at + 1) * step if at < 10 else None] for at in range(11)]
    texts = {f"model-{at}.0a1b.bin": piece for at, piece in enumerate(pieces, 1)}
    texts |= {"index.html": b"<!doctype html>", "index.html.br": b"x"}
    for name, text in texts.items():
        (folder / name).write_bytes(text)
    (folder / "manifest.json").write_bytes(b"{}")
    part = {"index.html": "runner", "index.html.br": "encoded"}
    files = [{"path": name, "mode": "0644", "part": part.get(name, "model")} for name in texts]
    made = contents_of(Bundle(directory=folder, manifest={"name": "b", "files": files}), lambda path: None)
    assert {node.name: node.bytes for node in made.parts} == {
        "model": len(content),
        "runner": 15,
        "manifest": 2,
    }
    assert made.bytes == len(content) + 17
    assert {"layer.0.dense", "weight", "bias"} <= {node.name for node in every(made.parts[0])}
    assert made.parts[0].what == "in 11 files"
    (folder / "model-1.0a1b.bin").write_bytes(bytes(step))
    whole = contents_of(Bundle(directory=folder, manifest={"name": "b", "files": files}), lambda path: None)
    assert len(whole.parts[0].parts) == 11, "what cannot be read is shown by its files"


def test_objects_are_grouped_by_the_operator_that_asks_for_them_and_sum_to_the_file() -> None:
    def member(name: str, area: str, size: int, *operators: str) -> MemberRow:
        return MemberRow(name=name, area=area, bytes=size, operators=operators, why=())

    members = (
        member("a.cc", "kernels", 40, "MatMul"),
        member("b.cc", "kernels", 20, "MatMul", "Add"),
        member("c.cc", "session", 30),
        member("d.cc", "graph", 5),
    )
    found = Explanation(library="lib", bytes=100, about="", sections=(), members=members)
    parts = object_parts(found)
    assert {part.name: part.bytes for part in parts} == {
        "MatMul": 40,
        "every runtime": 35,
        "several operators": 20,
        "headers and alignment": 5,
    }
    shared = next(part for part in parts if part.name == "every runtime")
    assert [part.name for part in shared.parts] == ["session", "graph"]
    assert next(part for part in parts if part.name == "several operators").parts[0].what == "for MatMul, Add"
    rows = (Row(name=".text", bytes=90), Row(name="headers", bytes=10))
    bare = object_parts(Explanation(library="lib", bytes=100, about="", sections=rows))
    assert [(part.name, part.bytes) for part in bare] == [(".text", 90), ("headers", 10)]


def test_each_figure_of_the_usual_stack_is_in_the_benchmarks() -> None:
    text = (ROOT / "docs/benchmarks.md").read_text()
    known = stock()
    sizes = (known.library.raw, known.library.zstd)
    measured = [figure for each in known.measured for figure in (*each.own.values(), *each.others.values())]
    for figure in (*sizes, *measured):
        assert f" {figure:,g} " in text.replace("*", " ") or f" {figure:,} " in text.replace("*", " "), figure


def test_what_a_device_measured_is_read(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    lengths = [{"tokens": tokens, "texts_per_second": 1000.0 / tokens} for tokens in (8, 32, 128)]
    said = {"threads": 2, "peak_mb": 26.2, "lengths": lengths}
    file.write_text(json.dumps(said))
    found = read_bench(file)
    assert (found.tokens, found.texts_per_second, found.peak_mb) == (32, 31.25, 26.2)
    for wrong in (
        "",
        "[]",
        "{}",
        json.dumps({**said, "lengths": []}),
        json.dumps({**said, "peak_mb": "much"}),
        json.dumps({**said, "peak_mb": -1}),
        json.dumps({**said, "threads": float("inf")}),
        json.dumps({**said, "threads": 10**400}),
        json.dumps({**said, "peak_mb": float("nan")}),
        "[" * 200_000,
    ):
        file.write_text(wrong)
        with pytest.raises(UsageError, match="does not hold what a device measured"):
            read_bench(file)


def test_components_are_read_off_the_bill_and_files_are_none(tmp_path: Path) -> None:
    bill = {
        "components": [
            {"type": "library", "name": "a", "version": "1", "licenses": [{"license": {"id": "MIT"}}]},
            {"type": "library", "name": "b", "licenses": [{"expression": "MIT OR Apache-2.0"}]},
            {"type": "library", "name": "c"},
            {"type": "file", "name": "embed"},
        ]
    }
    (tmp_path / "LICENSES").mkdir()
    file = tmp_path / "LICENSES/sbom.cdx.json"
    files = [{"path": "LICENSES/c.txt", "part": "licenses"}]
    for text, expected in (
        (
            json.dumps(bill),
            [("a", "1", "MIT"), ("b", "", "MIT OR Apache-2.0"), ("c", "", "in LICENSES/c.txt")],
        ),
        ("[]", []),
        ("", []),
        (json.dumps({"components": [{}]}), []),
        ("[" * 200_000, []),
    ):
        file.write_text(text)
        assert components_of(Bundle(directory=tmp_path, manifest={"files": files})) == expected


@pytest.mark.parametrize("recipe", ["a(" * 2_000_000, "a" * 4_000_000 + "!"])
def test_a_recipe_of_any_length_is_read_to_an_end(recipe: str, context: BuildContext) -> None:
    """By the square, these would take days."""
    assert len(list(passes_of(recipe, context))) < 4000
