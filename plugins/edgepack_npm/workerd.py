"""The package's door for workerd, which has no files: all that a bundle is made of is imported as a module.

Wrangler takes ``.wasm`` for compiled WebAssembly and ``.bin`` for data without being told; so the tokenizer's table is there a second
time under such a name.
"""

import json
from collections.abc import Iterator
from typing import Any

from edgepack.api import Bundle
from edgepack.api.axes import TarEntry
from edgepack_npm.templates import filled
from edgepack_web.api import inline_module

WORKERD = {"types": "./workerd.d.mts", "default": "./workerd.mjs"}
TABLE = "tokenizer.bin"


def runs_in_workerd(bundle: Bundle) -> bool:
    """Whether its tokenizer is the module's own, and its runtime without threads, as npm's is not: there are none."""
    document = _document(bundle)
    return (
        bool(document)
        and document["tokenizer"]["kind"] == "wordpiece"
        and not document["runtimes"][0]["threads"]
    )


def workerd_entries(bundle: Bundle) -> Iterator[TarEntry]:
    """The files beside the bundle's folder; none where it does not run there."""
    if not runs_in_workerd(bundle):
        return
    document = _document(bundle)
    runtime, pieces = document["runtimes"][0], document["model"]["parts"]
    names = [f"part{number}" for number, _ in enumerate(pieces, 1)]
    glue = {"factory": f"./bundle/{runtime['glue']['path']}"} if "glue" in runtime else {}
    imports = {
        **glue,
        "wasm": f"./bundle/{runtime['wasm']['path']}",
        "table": f"./{TABLE}",
        **{name: f"./bundle/{piece['path']}" for name, piece in zip(names, pieces, strict=True)},
    }
    model = {key: value for key, value in document["model"].items() if key != "parts"}
    module = filled(
        "workerd.mjs",
        imports="\n".join(f'import {name} from "{path}";' for name, path in imports.items()),
        model=json.dumps(model, ensure_ascii=False),
        files=", ".join([*glue, "wasm", f"parts: [{', '.join(names)}]", "table"]),
    )
    yield TarEntry(name="package/workerd.mjs", source=module.encode())
    yield TarEntry(name="package/workerd.d.mts", source=filled("workerd.d.mts").encode())
    yield TarEntry(name="package/inline.mjs", source=inline_module(engine=not glue).encode())
    yield TarEntry(name=f"package/{TABLE}", source=bundle.directory / document["tokenizer"]["table"]["path"])


def _document(bundle: Bundle) -> dict[str, Any]:
    """bundle.json, of the web builder's bundles."""
    file = bundle.directory / "bundle.json"
    return dict(json.loads(file.read_text(encoding="utf-8"))) if file.exists() else {}
