"""Models of a few hundred bytes, right in every respect but their size."""

import io
import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from safetensors.numpy import save_file

from tests.support.serving import Server, file, page

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "small", "model", "##s", "hello", "world")
HIDDEN = 8

CONFIG: dict[str, Any] = {
    "model_type": "bert",
    "hidden_size": HIDDEN,
    "vocab_size": len(WORDS),
    "max_position_embeddings": 64,
    "num_hidden_layers": 1,
}
MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
]
POOLING = {
    "word_embedding_dimension": HIDDEN,
    "pooling_mode_mean_tokens": True,
    "pooling_mode_cls_token": False,
}


def tokenizer_document(*, lowercase: bool = True) -> dict[str, Any]:
    """A tokenizer.json with a WordPiece vocabulary of ``WORDS``, padding and truncation as the hub's files have them."""
    special = [
        {"id": index, "content": word, "special": True, "normalized": False}
        | {"single_word": False, "lstrip": False, "rstrip": False}
        for index, word in enumerate(WORDS[:4])
    ]
    cls, sep = ({"SpecialToken": {"id": name, "type_id": 0}} for name in ("[CLS]", "[SEP]"))
    text = {"Sequence": {"id": "A", "type_id": 0}}
    return {
        "version": "1.0",
        "truncation": {"max_length": 128, "strategy": "LongestFirst", "stride": 0},
        "padding": {
            "strategy": {"Fixed": 128},
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": 0,
            "pad_type_id": 0,
            "pad_token": "[PAD]",
        },
        "added_tokens": special,
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": lowercase,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [cls, text, sep],
            "pair": [cls, text, sep, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {
                word: {"id": word, "ids": [WORDS.index(word)], "tokens": [word]}
                for word in ("[CLS]", "[SEP]")
            },
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {word: index for index, word in enumerate(WORDS)},
        },
    }


def write_json(path: Path, document: Any) -> None:
    """A JSON file, and the folder for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), encoding="utf-8")


def write_model(folder: Path) -> Path:
    """A whole model folder with safetensors."""
    write_json(folder / "config.json", CONFIG)
    write_json(folder / "tokenizer.json", tokenizer_document())
    write_json(folder / "tokenizer_config.json", {"model_max_length": 48})
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": 32, "do_lower_case": False})
    write_json(folder / "modules.json", MODULES)
    write_json(folder / "1_Pooling" / "config.json", POOLING)
    (folder / "README.md").write_text("---\nlanguage: en\nlicense: apache-2.0\n---\n# A model\n")
    write_safetensors(folder / "model.safetensors")
    return folder


def write_safetensors(path: Path, *, rows: int = len(WORDS), columns: int = HIDDEN) -> None:
    """Weights whose only tensors are an embedding table and a bias."""
    table = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    save_file({"embeddings.word_embeddings.weight": table, "bias": np.zeros(4, np.float32)}, path)


def add_dense(folder: Path, *, outputs: int = 4) -> Path:
    """A Dense module behind the pooling of a model folder."""
    module = {"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"}
    write_json(folder / "modules.json", [*MODULES[:2], module])
    write_json(folder / "2_Dense" / "config.json", {"in_features": HIDDEN, "out_features": outputs})
    weights = {
        "linear.weight": np.ones((outputs, HIDDEN), np.float32),
        "linear.bias": np.ones(outputs, np.float32),
    }
    save_file(weights, folder / "2_Dense" / "model.safetensors")
    return folder


def write_onnx(path: Path, *, dimension: int | str = HIDDEN, external: str | None = None) -> Path:
    """A graph of one Gather; with ``external``, its table lies in a file of that name."""
    table = helper.make_tensor(
        "table",
        TensorProto.FLOAT,
        [len(WORDS), HIDDEN],
        np.zeros(len(WORDS) * HIDDEN, np.float32).tobytes(),
        raw=True,
    )
    if external is not None:
        table.ClearField("raw_data")
        table.data_location = TensorProto.EXTERNAL
        entry = table.external_data.add()
        entry.key, entry.value = "location", external
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])],
        "tiny",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "sequence"])],
        [
            helper.make_tensor_value_info(
                "last_hidden_state", TensorProto.FLOAT, ["batch", "sequence", dimension]
            )
        ],
        [table],
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
        ).SerializeToString()
    )
    onnx.load(path, load_external_data=False)
    return path


def files_of(folder: Path, *, below: str = "") -> dict[str, bytes]:
    """Name → content of all files in a folder, the names put below another folder's."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {below + path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def zipped(files: dict[str, bytes]) -> bytes:
    """A zip archive, the same bytes whenever it is made."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def tarred(files: dict[str, bytes], *, mode: str = "w:gz") -> bytes:
    """A tar archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def wheel_of(files: dict[str, bytes], *, name: str = "tiny_model", version: str = "1.0") -> tuple[str, bytes]:
    """File name and content of a wheel that carries these files."""
    info = f"{name}-{version}.dist-info"
    metadata = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
    }
    return f"{name}-{version}-py3-none-any.whl", zipped({f"{name}/__init__.py": b"", **files, **metadata})


def publish(index: Server, files: dict[str, bytes], *, name: str = "tiny_model") -> None:
    """Put a wheel with these files onto the index."""
    filename, content = wheel_of(files, name=name)
    project = name.replace("_", "-")
    index.on(f"/simple/{project}/", page(f'<a href="/wheels/{filename}">{filename}</a>'))
    index.on(f"/wheels/{filename}", file(content))
