"""MLAS's kernels that are written anew for WebAssembly, against what they have to give: whole numbers exactly, for every shape."""

import json
import math
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from edgepack.models.ort.convert import convert_to_ort
from edgepack.operators.config import operators_of_ort_model, union
from edgepack.plugins.context import HostContext
from edgepack.records.runtime import RuntimeArtifact
from edgepack_web.foundry.prove import node_scripts, place
from edgepack_web.foundry.reduce import reduce_web_runtime
from edgepack_web.npm.node import find_node

pytestmark = pytest.mark.e2e

DEPTHS = (1, 2, 3, 7, 8, 9, 127, 255, 256, 257, 511, 600)
WIDTHS = (1, 2, 3, 7, 8, 9, 15, 16, 17, 63, 65, 129, 257, 300)
ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 23, 24, 25, 31)
MIDDLE = 1200
"""The id that stands for 0: there are no negative ones."""
IDS = NDArray[np.int64]
SCRIPT = """\
import { readFileSync } from 'node:fs';
import { Session, startRuntime } from './session.mjs';
const { glue, wasm, model, batches, config } = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const m = await startRuntime((await import(glue)).default, readFileSync(wasm));
const create = m._OrtCreateSession;
m._OrtCreateSession = (at, size, options) => {
  for (const pair of Object.entries(config)) {
    const words = pair.map((word) => {
      const place = m._malloc(word.length + 1);
      m.stringToUTF8(word, place, word.length + 1);
      return place;
    });
    if (m._OrtAddSessionConfigEntry(options, ...words)) throw new Error(pair);
  }
  return create(at, size, options);
};
const bytes = readFileSync(model);
const at = Session.reserve(m, bytes.length);
m.HEAPU8.set(bytes, at);
const session = await Session.open(m, at, bytes.length);
const answers = [];
for (const rows of batches) {
  const { data, width } = await session.run({ input_ids: rows.flat() }, rows.length, rows[0].length);
  answers.push(rows.map((_, row) => [...data.subarray(row * width, (row + 1) * width)]));
}
console.log(JSON.stringify(answers));
"""


@dataclass(frozen=True, kw_only=True)
class Model:
    """In ORT format; ``factors`` are weights and their zero points."""

    file: Path
    factors: tuple[tuple[IDS, IDS], ...] = ()


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Model]:
    made = {"erf": _error_function(tmp_path_factory.mktemp("erf"))}
    for signed in (True, False):
        for columns in (True, False):
            made[f"{signed} {columns}"] = _products(tmp_path_factory.mktemp("products"), signed, columns)
    return made


@pytest.fixture(scope="module")
def runtime(models: dict[str, Model], online: HostContext) -> RuntimeArtifact:
    """One for all of them."""
    return reduce_web_runtime(
        union([operators_of_ort_model(model.file) for model in models.values()]), context=online
    )


@pytest.mark.parametrize("prepacked", [True, False])
@pytest.mark.parametrize("columns", [True, False])
@pytest.mark.parametrize("signed", [True, False])
def test_products_of_bytes_are_exact(
    signed: bool,
    columns: bool,
    prepacked: bool,
    models: dict[str, Model],
    runtime: RuntimeArtifact,
    tmp_path: Path,
) -> None:
    model = models[f"{signed} {columns}"]
    generator = np.random.default_rng(7)
    batches = [generator.integers(0, 256, (rows, max(DEPTHS))) for rows in ROWS]
    batches[3][:] = 255
    config = {} if prepacked else {"session.disable_prepacking": "1"}
    for ids, vectors in zip(batches, _run(runtime, model, batches, config, tmp_path), strict=True):
        expected = np.concatenate(
            [(ids[:, : len(weight)] - 131) @ (weight - zero) for weight, zero in model.factors], axis=1
        )
        assert np.array_equal(np.array(vectors), expected)


def test_the_error_function(models: dict[str, Model], runtime: RuntimeArtifact, tmp_path: Path) -> None:
    # On both sides of where the two polynomials meet, and lengths that are no multiple of eight.
    batches = [MIDDLE + np.arange(-count, count + 1)[None, :] * 3 for count in (0, 1, 3, 7, 400)]
    for ids, vectors in zip(batches, _run(runtime, models["erf"], batches, {}, tmp_path), strict=True):
        expected = [math.erf((value - MIDDLE) / 256) for value in ids[0]]
        assert np.abs(np.array(vectors[0]) - expected).max() < 2e-7


def _error_function(folder: Path) -> Model:
    graph = helper.make_graph(
        [
            helper.make_node("Cast", ["input_ids"], ["whole"], to=TensorProto.FLOAT),
            helper.make_node("Sub", ["whole", "middle"], ["signed"]),
            helper.make_node("Mul", ["signed", "scale"], ["x"]),
            helper.make_node("Erf", ["x"], ["y"]),
        ],
        "erf",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["b", "s"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["b", "s"])],
        [
            numpy_helper.from_array(np.array(value, np.float32), name)
            for name, value in (("middle", MIDDLE), ("scale", 1 / 256))
        ],
    )
    return Model(file=_ort_model(graph, folder))


def _products(folder: Path, signed: bool, columns: bool) -> Model:
    """A model that multiplies as many ids of each row as there are rows of weights by each of the weights."""
    generator = np.random.default_rng(3)
    kind: type[np.int8] | type[np.uint8] = np.int8 if signed else np.uint8
    limits = np.iinfo(kind)
    shapes = [(depth, WIDTHS[index % len(WIDTHS)]) for index, depth in enumerate(DEPTHS)]
    shapes += [(300, width) for width in WIDTHS]
    nodes = [helper.make_node("Cast", ["input_ids"], ["bytes"], to=TensorProto.UINT8)]
    constants = {"begin": np.array([0]), "axis": np.array([1]), "zero": np.array(131, np.uint8)}
    factors = []
    for index, (depth, width) in enumerate(shapes):
        weight = generator.integers(limits.min, limits.max, (depth, width), dtype=kind, endpoint=True)
        weight[:, 0] = limits.min
        zero = generator.integers(limits.min, limits.max, width if columns else (), dtype=kind, endpoint=True)
        constants |= {f"w{index}": weight, f"z{index}": zero, f"end{index}": np.array([depth])}
        nodes += [
            helper.make_node("Slice", ["bytes", "begin", f"end{index}", "axis"], [f"a{index}"]),
            helper.make_node("MatMulInteger", [f"a{index}", f"w{index}", "zero", f"z{index}"], [f"c{index}"]),
            helper.make_node("Cast", [f"c{index}"], [f"f{index}"], to=TensorProto.FLOAT),
        ]
        factors.append((weight.astype(np.int64), zero.astype(np.int64)))
    nodes.append(helper.make_node("Concat", [f"f{index}" for index in range(len(shapes))], ["y"], axis=1))
    graph = helper.make_graph(
        nodes,
        "products",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["b", "s"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["b", "n"])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return Model(file=_ort_model(graph, folder), factors=tuple(factors))


def _ort_model(graph: onnx.GraphProto, folder: Path) -> Path:
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    return convert_to_ort(model, folder / "model.ort")


def _run(
    runtime: RuntimeArtifact, model: Model, batches: list[IDS], config: dict[str, str], folder: Path
) -> list[list[list[float]]]:
    for name, text in {**node_scripts(), "run.mjs": SCRIPT}.items():
        (folder / name).write_text(text)
    asked = {"model": str(model.file), "config": config, "batches": [ids.tolist() for ids in batches]}
    (folder / "request.json").write_text(json.dumps({**place(runtime), **asked}))
    done = subprocess.run(
        [find_node(), folder / "run.mjs", folder / "request.json"], capture_output=True, text=True, check=True
    )
    answer: list[list[list[float]]] = json.loads(done.stdout)
    return answer
