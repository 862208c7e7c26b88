"""A model that ONNX Runtime runs since 1.25 only, and that cannot be said with older operators."""

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgepack.records.model import ModelSource, Pooling
from edgepack.runner.freeze.sample_bundle import WORDS, sample_tokenizer

DIMENSION = 8


def write_new_model(folder: Path) -> ModelSource:
    """Token vectors out of a table, each of whose bits is looked at twice: BitCast came with opset 26."""
    rng = np.random.default_rng(7)
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["found"]),
        helper.make_node("BitCast", ["found"], ["bits"], to=TensorProto.INT32),
        helper.make_node("BitCast", ["bits"], ["same"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask", "last"], ["wide"]),
        helper.make_node("Mul", ["same", "wide"], ["last_hidden_state"]),
    ]
    weights = [
        numpy_helper.from_array(rng.normal(size=(len(WORDS), DIMENSION)).astype(np.float32), "table"),
        numpy_helper.from_array(np.array([-1], np.int64), "last"),
    ]
    given = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["b", "s"])
        for name in ("input_ids", "attention_mask")
    ]
    made = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["b", "s", DIMENSION])
    graph = helper.make_graph(nodes, "g", given, [made], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 26)], ir_version=10)
    onnx.save(model, str(folder / "model.onnx"))
    config = {"model_type": "new", "hidden_size": DIMENSION, "max_position_embeddings": 16}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "tokenizer.json").write_text(sample_tokenizer(), encoding="utf-8")
    return ModelSource(
        name="new",
        origin="test",
        directory=folder,
        weights=None,
        onnx=folder / "model.onnx",
        tokenizer=folder / "tokenizer.json",
        config={},
        pooling=Pooling(),
        max_length=16,
        dimension=DIMENSION,
    )
