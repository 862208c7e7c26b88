"""Ready-made ONNX graphs such as exporters write them, made from the graph that edgepack writes."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

from edgepack.records.model import ModelSource
from tests.support.installed import export_onnx

TOKENS = "encoder.layer.1.output.LayerNorm"
"""The token vectors of a BERT of two layers, as edgepack's graph names them."""


def token_graph(source: ModelSource, file: Path, *, output: str = "last_hidden_state") -> onnx.ModelProto:
    """The encoder of a source without pooling: one output [batch, sequence, hidden], called ``output``."""
    whole = file.with_suffix(".whole")
    model = onnx.load(export_onnx(source, whole))
    whole.unlink()
    keep_output(model, TOKENS, output, rank=3, dimension=source.dimension)
    return model


def vector_graph(source: ModelSource, file: Path, *, output: str = "sentence_embedding") -> onnx.ModelProto:
    """A source's graph with pooling, its output called ``output``."""
    whole = file.with_suffix(".whole")
    model = onnx.load(export_onnx(source, whole))
    whole.unlink()
    keep_output(model, "sentence_embedding", output, rank=2, dimension=source.dimension)
    return model


def keep_output(model: onnx.ModelProto, value: str, name: str, *, rank: int, dimension: int) -> None:
    """Make a value the only output, under a name of its own."""
    for node in model.graph.node:
        for names in (node.input, node.output):
            for place, each in enumerate(names):
                if each == value:
                    names[place] = name
    del model.graph.output[:]
    axes: list[Any] = ["batch", "sequence", dimension] if rank == 3 else ["batch", dimension]
    model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, axes))


def expand_layer_norms(model: onnx.ModelProto) -> None:
    """Every LayerNormalization as exporters wrote it before opset 17."""
    nodes = []
    scalars = {"two": 2.0, "epsilon": 1e-12}
    for node in model.graph.node:
        if node.op_type != "LayerNormalization":
            nodes.append(node)
            continue
        x, gamma, beta = node.input
        out = node.output[0]
        nodes += [
            helper.make_node("ReduceMean", [x], [f"{out}.mean"], axes=[-1]),
            helper.make_node("Sub", [x, f"{out}.mean"], [f"{out}.centred"]),
            helper.make_node("Pow", [f"{out}.centred", "two"], [f"{out}.squares"]),
            helper.make_node("ReduceMean", [f"{out}.squares"], [f"{out}.variance"], axes=[-1]),
            helper.make_node("Add", [f"{out}.variance", "epsilon"], [f"{out}.floor"]),
            helper.make_node("Sqrt", [f"{out}.floor"], [f"{out}.deviation"]),
            helper.make_node("Div", [f"{out}.centred", f"{out}.deviation"], [f"{out}.unit"]),
            helper.make_node("Mul", [f"{out}.unit", gamma], [f"{out}.scaled"]),
            helper.make_node("Add", [f"{out}.scaled", beta], [out]),
        ]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(
        helper.make_tensor(name, TensorProto.FLOAT, [], [value]) for name, value in scalars.items()
    )


def write(model: onnx.ModelProto, file: Path) -> Path:
    file.write_bytes(model.SerializeToString())
    return file


def one_node(
    operator: str,
    file: Path,
    *,
    domain: str = "",
    inputs: Sequence[str] = ("input_ids",),
    kind: int = TensorProto.INT64,
    **attributes: Any,
) -> Path:
    """A graph of a single node that makes ``last_hidden_state``, of inputs [batch, sequence]."""
    node = helper.make_node(operator, inputs, ["last_hidden_state"], domain=domain, name="it", **attributes)
    names = dict.fromkeys((*inputs, "input_ids", "attention_mask"))
    graph = helper.make_graph(
        [node],
        "one-node",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"]) for name in names],
        [helper.make_tensor_value_info("last_hidden_state", kind, None)],
    )
    opsets = [helper.make_opsetid("", 17)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    return write(helper.make_model(graph, opset_imports=opsets, ir_version=8), file)


def write_graph_alone(folder: Path) -> None:
    """One .onnx file with token vectors beside a tokenizer.json: no config.json, as packages carry models."""
    from tests.support.berts import write_bert

    source, _ = write_bert(folder / "whole")
    write(token_graph(source, folder / "model.onnx"), folder / "model.onnx")
    (folder / "tokenizer.json").write_bytes((folder / "whole/tokenizer.json").read_bytes())
    shutil.rmtree(folder / "whole")
