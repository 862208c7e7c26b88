"""What an exported model depends on, as a cache key; and that it is still so when it has been read."""

import json
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from edgepack.errors import ModelError
from edgepack.files.store import digest_file, digest_of_code, sha256_of
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


def require_unchanged(source: ModelSource) -> None:
    """Raise ``ModelError`` where a file of the model is another than when it was found, as a training leaves it that saves over it."""
    for file in source.files:
        path = source.directory / file.path
        if path.name == source.tokenizer.name and source.tokenizer.parent != source.directory:
            continue  # One that was made of the model's, and lies in the cache.
        if not path.is_file() or sha256_of(path) != file.sha256:
            raise ModelError(
                f"{path} was changed while it was read",
                hint="wait until whatever writes it is done, or name a copy",
            )


def of_unchanged(source: ModelSource, make: Callable[[Path], None]) -> Callable[[Path], None]:
    """``make`` for an entry of the cache, which is none where the model's files are others afterwards."""

    def made(folder: Path) -> None:
        make(folder)
        require_unchanged(source)

    return made
