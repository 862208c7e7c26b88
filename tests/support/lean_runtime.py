"""A bundle whose first runtime lacks something: it traps on all but the shortest texts."""

import base64
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

from edgepack.records.bundle import Bundle

EXPORTED = "export default ortWasmThreaded;"
TRAPPING = """\
export default async (how) => {
  const module = await ortWasmThreaded(how);
  let tokens = 0;
  // Emscripten's functions put themselves into the module when they are first called: not into this one.
  return Object.assign(Object.create(module), {
    _OrtCreateTensor(...values) {
      tokens = module.getValue(values[3] + 4, "i32");
      return module._OrtCreateTensor(...values);
    },
    _OrtRun(...values) {
      if (tokens > 3) throw new WebAssembly.RuntimeError("unreachable");
      return module._OrtRun(...values);
    },
  });
};
"""
"""It answers texts of three tokens, such as "cat"."""


def too_lean(bundle: Bundle, folder: Path) -> Path:
    """A copy of a bundle with npm's runtime, and before that one the same with functions missing."""
    copy = folder / "lean"
    shutil.copytree(bundle.directory, copy)
    document = json.loads((copy / "bundle.json").read_text(encoding="utf-8"))
    stock = next(each for each in document["runtimes"] if each["name"] == "stock")
    script = (copy / stock["glue"]["path"]).read_text(encoding="utf-8")
    assert script.count(EXPORTED) == 1
    glue = _asset(copy, "assets/ort-lean.0.mjs", script.replace(EXPORTED, TRAPPING).encode())
    wasm = _asset(copy, "assets/ort-lean.0.wasm", (copy / stock["wasm"]["path"]).read_bytes())
    document["runtimes"] = [stock | {"name": "lean", "threads": False, "glue": glue, "wasm": wasm}, stock]
    document["assets"] += [glue["path"], wasm["path"]]
    (copy / "bundle.json").write_text(json.dumps(document), encoding="utf-8")
    return copy


def _asset(root: Path, path: str, content: bytes) -> dict[str, Any]:
    (root / path).write_bytes(content)
    digest = base64.b64encode(hashlib.sha256(content).digest()).decode()
    return {"path": path, "size": len(content), "integrity": f"sha256-{digest}"}
