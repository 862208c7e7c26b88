"""Models of strangers, as `edgepack inspect` and the first steps of `edgepack bundle` read them."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from edgepack.console import Story
from edgepack.files.store import Store
from edgepack.models.find.source import ingest
from edgepack.models.inspection import as_dict, inspect_model
from edgepack.models.ort.convert import convert_to_ort
from edgepack.models.read.tokenizer import minimal_json
from edgepack.models.reference import reference_vectors
from edgepack.operators.config import operators_of_ort_model
from edgepack.plugins.context import host_context
from edgepack.runner.tokenizer.compile import compile_tokenizer
from edgepack.testing.model import write_model
from tests.fuzz.readers import mutated, reader_campaign
from tests.fuzz.rounds import Campaign
from tests.support import tiny
from tests.support.tiny import HIDDEN, WORDS

TEXTS = ("hello small models", "")


FILES = ("model.onnx", "model.ort", "model.safetensors", "tokenizer.json", "config.json")


def read_model(file: Path) -> None:
    """What is done with a model before a recipe: inspected, tried on texts, its tokenizer compiled."""
    if file.suffix == ".ort":
        operators_of_ort_model(file)
        return
    model = file if file.suffix == ".onnx" else file.parent
    with TemporaryDirectory() as folder:
        store = Store(root=Path(folder))
        with host_context(story=Story(quiet=True), offline=True, store=store) as context:
            source = ingest(str(model), context=context)
            json.dumps(as_dict(inspect_model(source, context=context)), default=str)
            reference_vectors(source, TEXTS, context=context)
            compile_tokenizer(minimal_json(source))


def sound(folder: Path, name: str) -> bytes:
    """A sound file of that name, and in its folder what a reader finds beside it."""
    if name == "model.onnx":
        tiny.write_model(folder)
        return small_graph()
    if name == "model.ort":
        return convert_to_ort(ModelProto.FromString(small_graph()), folder / name).read_bytes()
    return (write_model(folder) / name).read_bytes()


def small_graph() -> bytes:
    """A graph of few bytes with what readers look at: tables, positions, constants, a subgraph."""
    node, info = helper.make_node, helper.make_tensor_value_info
    tables = {"words": np.ones((len(WORDS), HIDDEN), np.float32), "places": np.ones((9, HIDDEN), np.float32)}
    numbers = {"zero": np.array(0), "one": np.array(1), "two": np.array([2])}
    value = info("places_of", TensorProto.FLOAT, None)
    branches = {
        f"{name}_branch": helper.make_graph([node("Identity", ["placed"], ["places_of"])], name, [], [value])
        for name in ("then", "else")
    }
    nodes = [
        node("Shape", ["input_ids"], ["shape"]),
        node("Constant", [], ["at"], value=numpy_helper.from_array(np.array(1), "at")),
        node("Gather", ["shape", "at"], ["length"]),
        node("Range", ["zero", "length", "one"], ["range"]),
        node("Identity", ["range"], ["positions"]),
        node("Gather", ["places", "positions"], ["placed"]),
        node("Cast", ["one"], ["true"], to=TensorProto.BOOL),
        node("If", ["true"], ["chosen"], **branches),
        node("Gather", ["words", "input_ids"], ["worded"]),
        node("Add", ["worded", "chosen"], ["sum"]),
        node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        node("Unsqueeze", ["mask", "two"], ["column"]),
        node("Mul", ["sum", "column"], ["last_hidden_state"]),
    ]
    weights = [numpy_helper.from_array(array, name) for name, array in (tables | numbers).items()]
    inputs = [info(name, TensorProto.INT64, ["b", "s"]) for name in ("input_ids", "attention_mask")]
    output = info("last_hidden_state", TensorProto.FLOAT, ["b", "s", HIDDEN])
    graph = helper.make_graph(nodes, "small", inputs, [output], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def rewired(seed: bytes, chance: random.Random) -> bytes:
    """A graph that is whole as a file and wrong as a graph: names, sizes and types exchanged, parts left out."""
    model = ModelProto.FromString(seed)
    graph = model.graph
    names = [name for node in graph.node for name in (*node.input, *node.output)] + [""]
    for _ in range(chance.randint(1, 3)):
        node, tensor = chance.choice(graph.node), chance.choice(graph.initializer)
        value = chance.choice([*graph.input, *graph.output])
        kind = chance.randrange(8)
        if kind == 0:
            del chance.choice([node.input, node.output])[:1]
        elif kind == 1:
            wired = chance.choice([node.input, node.output])
            wired[:] = [*wired[:-1], chance.choice(names)]
        elif kind == 2:
            del node.attribute[:]
        elif kind == 3:
            tensor.dims[:] = [chance.choice((-1, 0, 1, 3, 1 << 40)) for _ in range(chance.randrange(4))]
        elif kind == 4:
            tensor.data_type = chance.randrange(30)
        elif kind == 5:
            tensor.ClearField("raw_data")
        elif kind == 6:
            value.type.tensor_type.elem_type = chance.randrange(30)
        elif kind == 7:
            del chance.choice([value.type.tensor_type.shape.dim, graph.output, model.opset_import])[:]
    return bytes(model.SerializeToString())


CHANGES = (*((name, mutated) for name in FILES), ("model.onnx", rewired))


def campaigns(folder: Path) -> Iterator[Campaign]:
    for at, (name, change) in enumerate(CHANGES):
        file = folder / str(at) / name
        file.parent.mkdir()
        seed = sound(file.parent, name)
        yield reader_campaign(f"{name}, {change.__name__}", read_model, seed, file, change)
