"""What an exported model depends on, as a cache key."""

import json
from importlib.metadata import version
from pathlib import Path

from edgepack.files.store import digest_file, digest_of_code
from edgepack.records.model import ModelSource


def source_key(source: ModelSource) -> dict[str, str]:
    """Inputs for ``Store.cached``: the content of the source's files and whatever else decides the exported graph."""
    pooling = source.pooling
    behind = f" {pooling.describe()}" if not pooling.plain else ""
    named = (source.onnx or source.weights, source.tokenizer)
    files = source.files or tuple(
        digest_file(path, relative_to=path.parent) for path in named if path is not None
    )
    return {
        "files": json.dumps(sorted((file.path, file.sha256) for file in files)),
        "graph": source.onnx.name if source.onnx is not None else "",
        "config": json.dumps(dict(source.config), sort_keys=True),
        "name": source.name,
        "pooling": f"{pooling.mode} {pooling.normalize}{behind}",
        "dimension": str(source.dimension),
        "onnx": version("onnx"),
        "onnxruntime": version("onnxruntime"),
        "by": digest_of_code("models", source.graph_package),
        **({"outputs": source.outputs.graph} if source.outputs else {}),
        **({"graph by": source.graph_by} if source.graph_by else {}),
    }


def digests_of(source: ModelSource) -> dict[Path, str]:
    """The model's own files with their SHA-256 when they were found; not a tokenizer that was made of the model's, which lies in the cache."""
    made = source.tokenizer.name if source.tokenizer.parent != source.directory else None
    paths = {source.directory / file.path: file.sha256 for file in source.files}
    return {path: digest for path, digest in paths.items() if path.name != made}
