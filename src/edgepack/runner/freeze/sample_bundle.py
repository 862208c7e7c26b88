"""A tiny but real bundle: what the program is tried on before any model is there."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from platform import machine
from typing import Any

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from edgepack.files.store import digest_tree
from edgepack.runner.tokenizer.compile import compile_tokenizer

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "cat", "kitten", "sat", "on", "the", "mat", "##s")
DIMENSION = 8
MAX_LENGTH = 6


def stock_library() -> Path:
    """The shared library of the installed onnxruntime package."""
    import onnxruntime

    return next(Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*"))


def write_sample(folder: Path) -> None:
    """Fill a folder with everything of a bundle but the program: model, tokenizer, stock library, manifest.

    The golden file is left to ``write_golden``, for vectors come from the program.
    """
    library = stock_library()
    for name in ("model", "lib"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "model/model.onnx").write_bytes(sample_model())
    (folder / "model/tokenizer.json").write_text(sample_tokenizer(), encoding="utf-8")
    shutil.copyfile(library, folder / "lib" / library.name)
    write_golden(folder, {})
    write_manifest(folder, library=f"lib/{library.name}")


def write_compiled_tokenizer(folder: Path) -> None:
    """Put a compiled tokenizer in the place of tokenizer.json."""
    document = folder / "model/tokenizer.json"
    document.with_suffix(".bin").write_bytes(compile_tokenizer(document.read_text(encoding="utf-8")))
    document.unlink()


def write_golden(folder: Path, vectors: Mapping[str, list[float]]) -> None:
    """golden.json from texts and their vectors; one of zeros stands in when there is none yet."""
    known = dict(vectors) or {"a cat": [0.0] * DIMENSION}
    golden = {"texts": list(known), "vectors": list(known.values()), "tolerance": 0.999}
    (folder / "golden.json").write_text(json.dumps(golden))


def write_manifest(folder: Path, *, library: str, module: str | None = None) -> None:
    """manifest.json of a folder, in the schema that the program reads; ``module`` is the place of a user's own."""
    parts = {"model": "model", "lib": "runtime", "golden.json": "golden"}
    files = [
        {
            "path": file.path,
            "size": file.size,
            "sha256": file.sha256,
            "mode": "0644",
            "part": parts.get(file.path.split("/")[0], "runner"),
        }
        for file in digest_tree(folder)
        if file.path != "manifest.json"
    ]
    tokenizer = next((folder / "model").glob("tokenizer.*")).name
    manifest = {**sample_manifest(library, f"model/{tokenizer}"), "files": files}
    if module is not None:
        manifest["runner"] |= {"module": module}
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=1))


def sample_manifest(library: str, tokenizer: str) -> dict[str, Any]:
    platform = {"os": "linux", "arch": machine(), "glibc": None}
    return {
        "schema": 1,
        "name": "sample",
        "edgepack": "0",
        "target": {"name": "sample", "summary": "for trials", "builder": "linux", "platform": platform},
        "model": {
            "name": "sample",
            "origin": "made on the spot",
            "license": None,
            "embedder": "0" * 32,
            "recipe": "none",
            "precision": "fp32",
            "format": "onnx",
            "file": "model/model.onnx",
            "tokenizer": tokenizer,
            "inputs": ["input_ids", "attention_mask"],
            "output": "sentence_embedding",
            "dimension": DIMENSION,
            "max_length": MAX_LENGTH,
            "pooling": "mean",
            "normalize": True,
            "batch_dependent": False,
            "prefixes": {"query": "the ", "passage": ""},
            "matryoshka": {"dimensions": [4], "layer_norm": False},
            "source_files": [],
        },
        "runtime": {"library": library, "version": "1", "kind": "stock", "toolchain": "", "operators": []},
        "runner": {"program": "embed", "kind": "pyinstaller", "versions": {}},
        "golden": "golden.json",
        "gate": {},
    }


def sample_model() -> bytes:
    """An ONNX model: a fixed vector a token, the mean of those that are not masked, L2-normalised."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    table = np.cos(np.arange(len(WORDS) * DIMENSION, dtype=np.float32).reshape(len(WORDS), DIMENSION) ** 2)
    ids, mask = (
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"])
        for name in ("input_ids", "attention_mask")
    )
    output = helper.make_tensor_value_info("sentence_embedding", TensorProto.FLOAT, ["batch", DIMENSION])
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["tokens"]),
        helper.make_node("Cast", ["attention_mask"], ["weights"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["weights", "middle"], ["row"]),
        helper.make_node("MatMul", ["row", "tokens"], ["sum"]),
        helper.make_node("Squeeze", ["sum", "middle"], ["flat"]),
        helper.make_node("LpNormalization", ["flat"], ["sentence_embedding"], axis=1, p=2),
    ]
    constants = [
        numpy_helper.from_array(table.astype(np.float32), "table"),
        numpy_helper.from_array(np.array([1], dtype=np.int64), "middle"),
    ]
    graph = helper.make_graph(nodes, "sample", [ids, mask], [output], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def sample_tokenizer() -> str:
    """A tokenizer.json of BERT's kind with a dozen words."""
    vocabulary = {word: index for index, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = [(word, vocabulary[word]) for word in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=special
    )
    return str(tokenizer.to_str())
