"""Sample bundles whose model gives sparse vectors, or vectors and weights of tokens: the sample's table, its tokens given out."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from edgepack.files.store import digest_file
from edgepack.runner.freeze.sample_bundle import DIMENSION, WORDS, sample_model
from edgepack.runner.native.sources import library_sources, ort_encoder
from tests.support.native import compile_together

WIDTH = DIMENSION - 1
"""Of a token's vector: the last number of its row is its weight."""
SPARSE: dict[str, Any] = {"dense": False, "sparse": {"of": "vocabulary", "size": DIMENSION, "skip": []}}
QUERY = {"marker": 8, "length": 7, "expand": 10, "least": 7, "skip": []}
DOCUMENT = {"marker": 9, "prefix": "the ", "skip": [5]}
TOKENS: dict[str, Any] = {
    "dense": True,
    "sparse": {"of": "tokens", "size": len(WORDS), "skip": [2, 3]},
    "multi_vector": {"dimension": WIDTH, "first": 1, "query": QUERY, "document": DOCUMENT},
}


def table() -> np.ndarray:
    """The sample's vectors of tokens, float32 [words, DIMENSION]."""
    return np.cos(np.arange(len(WORDS) * DIMENSION, dtype=np.float32).reshape(-1, DIMENSION) ** 2).astype(
        np.float32
    )


def write_given(sample: Path, folder: Path, outputs: dict[str, Any], program: Path | None = None) -> Path:
    """A copy of a sample bundle with these outputs in its manifest; ``program`` takes the place of a native one.

    A sample without a runtime has a table in its model's place, whose rows are there anyway.
    """
    shutil.copytree(sample, folder, symlinks=True)
    if "multi_vector" in outputs and (folder / "lib").is_dir():
        (folder / "model/model.onnx").write_bytes(model_of_tokens())
    if program is not None:
        shutil.copy(program, folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["model"]["outputs"] = outputs
    for file in manifest["files"]:
        found = digest_file(folder / file["path"], relative_to=folder)
        file |= {"size": found.size, "sha256": found.sha256}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def model_of_tokens() -> bytes:
    """The sample's model, which gives its tokens' rows as well."""
    model = onnx.load_from_string(sample_model())
    shape: list[str | int | None] = ["batch", "sequence", DIMENSION]
    model.graph.node.append(helper.make_node("Identity", ["tokens"], ["token_embeddings"]))
    model.graph.output.append(helper.make_tensor_value_info("token_embeddings", TensorProto.FLOAT, shape))
    return bytes(model.SerializeToString())


def compile_given_library(library: Path) -> Path:
    """libembed of models with such outputs."""
    return compile_together(
        library_sources(ort_encoder("loaded"), ("outputs",)), library, "-O0", "-shared", "-fPIC"
    )
