"""A bundle whose small runtime was profiled too little: it lacks functions that ordinary texts need."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from edgepack.foundry.web.instrument import PREFIX, entered, instrument
from edgepack.foundry.web.stub import stub_wasm
from edgepack.npm import find_node
from edgepack.records import Bundle

SCRIPT = Path(__file__).parents[1] / "js" / "profile_little.mjs"
IDS = (101, 4937, 102)
"""The one text that the profile has: "cat"."""


def too_lean(bundle: Bundle, folder: Path) -> Path:
    """A copy of a bundle with npm's runtime, and before that one a stub that has seen one text of three tokens."""
    copy = folder / "lean"
    shutil.copytree(bundle.directory, copy)
    document = json.loads((copy / "bundle.json").read_text(encoding="utf-8"))
    stock = next(each for each in document["runtimes"] if each["name"] == "stock")
    model = folder / "model.ort"
    model.write_bytes(b"".join((copy / part["path"]).read_bytes() for part in document["model"]["parts"]))
    module = (copy / stock["wasm"]["path"]).read_bytes()
    stubbed = stub_wasm(module, _entered(module, copy / stock["glue"]["path"], model, folder))
    wasm = _asset(copy, "assets/ort-stub.0.wasm", stubbed.module)
    document["runtimes"] = [stock | {"name": "stub", "threads": False, "wasm": wasm}, stock]
    document["assets"].append(wasm["path"])
    (copy / "bundle.json").write_text(json.dumps(document), encoding="utf-8")
    return copy


def _entered(module: bytes, glue: Path, model: Path, folder: Path) -> frozenset[int]:
    (folder / "instrumented.wasm").write_bytes(instrument(module))
    request = {
        "wasm": str(folder / "instrumented.wasm"),
        "glue": str(glue),
        "model": str(model),
        "prefix": PREFIX,
        "ids": IDS,
    }
    done = subprocess.run(
        [find_node(), SCRIPT], input=json.dumps(request), capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    return entered({number: int(word) for number, word in json.loads(done.stdout)})


def _asset(root: Path, path: str, content: bytes) -> dict[str, Any]:
    (root / path).write_bytes(content)
    digest = base64.b64encode(hashlib.sha256(content).digest()).decode()
    return {"path": path, "size": len(content), "integrity": f"sha256-{digest}"}
