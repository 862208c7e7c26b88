"""What a page computes with on a GPU: npm's WebAssembly with the WebGPU execution provider, and a model for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgepack import api
from edgepack.api import BuildContext, ModelOptions, ModelSource
from edgepack.bundles.golden import golden_document
from edgepack.files.store import digest_of_code
from edgepack_web.npm.package import npm_package

if TYPE_CHECKING:
    import onnx

VERSION = "1.30.0"
"""Newer than the converter: 1.21.0, which goes with it, gives wrong vectors and stops at masks."""
INTEGRITY = "sha512-q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ=="
WASM, GLUE = "ort-wasm-simd-threaded.jspi.wasm", "ort-wasm-simd-threaded.jspi.mjs"
"""Of the two that wait for a GPU the one that lets the browser do it (JSPI): 16.8 MB in the place of 26.8."""
LARGEST = 127
MODEL, GOLDEN = "model.onnx", "golden.json"


@dataclass(frozen=True, kw_only=True)
class OnGpu:
    """The parts, as files."""

    wasm: Path
    glue: Path
    model: Path
    golden: Path
    """The vectors that this model gives the golden texts, by the stock onnxruntime package."""


def webgpu_package(context: BuildContext) -> Path:
    """The folder ``dist/`` of onnxruntime-web, of which two files are kept."""
    keep = (f"dist/{WASM}", f"dist/{GLUE}")
    return npm_package("onnxruntime-web", VERSION, integrity=INTEGRITY, keep=keep, context=context) / "dist"


def on_gpu(source: ModelSource, *, context: BuildContext) -> OnGpu:
    """Runtime and model; the model is float32 on the device, and int8 with a scale a channel in its file."""
    dist = webgpu_package(context)
    plain = api.prepare_model(source, options=ModelOptions(recipe="fp32", format="onnx"), context=context)

    def make(folder: Path) -> None:
        import onnx

        onnx.save(stored_as_int8(onnx.load(plain.file)), folder / MODEL)
        (folder / GOLDEN).write_bytes(golden_document(folder / MODEL, source))

    key = {"plain": str(plain.file.parent.name), "by": digest_of_code("edgepack_web", "bundles")}
    folder = context.store.cached("webgpu-model", key, make)
    return OnGpu(wasm=dist / WASM, glue=dist / GLUE, model=folder / MODEL, golden=folder / GOLDEN)


def stored_as_int8(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same graph over float32 matrices that are int8 in the file: a cast and a product of constants each.

    ONNX Runtime computes those when the model is opened, on the processor; the GPU sees float32 alone. Of a matrix
    [inputs, outputs] every column has a scale, of a table every row.
    """
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    graph = changed.graph
    tables = _tables(graph)
    weights, nodes = [], []
    for tensor in graph.initializer:
        if tensor.data_type != TensorProto.FLOAT or len(tensor.dims) != 2 or min(tensor.dims) < 2:
            weights.append(tensor)
            continue
        name, values = tensor.name, numpy_helper.to_array(tensor)
        scales = np.abs(values).max(axis=1 if name in tables else 0, keepdims=True) / np.float32(LARGEST)
        scales = np.where(scales > 0, scales, np.float32(1))
        integers = np.rint(values / scales).astype(np.int8)
        weights.append(numpy_helper.from_array(integers, f"{name}.int8"))
        weights.append(numpy_helper.from_array(scales, f"{name}.scales"))
        nodes.append(helper.make_node("Cast", [f"{name}.int8"], [f"{name}.float"], to=TensorProto.FLOAT))
        nodes.append(helper.make_node("Mul", [f"{name}.float", f"{name}.scales"], [name]))
    nodes.extend(graph.node)
    for repeated in (graph.initializer, graph.node):
        del repeated[:]
    graph.initializer.extend(weights)
    graph.node.extend(nodes)
    return changed


def _tables(graph: onnx.GraphProto) -> set[str]:
    """Names of what rows are taken of."""
    gathered = {node.input[0] for node in graph.node if node.op_type == "Gather"}
    embedded = {
        name for node in graph.node if node.op_type == "EmbedLayerNormalization" for name in node.input[2:5]
    }
    return gathered | embedded
