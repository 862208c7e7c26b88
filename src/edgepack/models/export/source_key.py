"""What an exported model depends on, as a cache key."""

import json
import re
from importlib.metadata import version

from edgepack.files.store import digest_file
from edgepack.records.model import ModelSource

EXPORT_SCHEMA = "4"
"""Changes whenever the same source would be exported otherwise than before."""
READING_SCHEMA = "2"
"""The same for sources that are ONNX graphs already, and for what is made of them."""

ROTARY_SCHEMA = "2"
"""The same for models that turn vectors by their place."""


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
        "schema": EXPORT_SCHEMA,
        **({"reading": READING_SCHEMA} if source.onnx is not None else {}),
        **({"rotary": ROTARY_SCHEMA} if re.search("rope|rotary", " ".join(source.config)) else {}),
        **({"outputs": source.outputs.graph} if source.outputs else {}),
        **({"graph by": source.graph_by} if source.graph_by else {}),
    }
