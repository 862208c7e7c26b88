"""Modules are run in Node, where they are run."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from edgepack.npm import find_node

Run = Callable[[bytes, list[tuple[str, int]]], dict[str, object]]
_SCRIPT = """\
import { readFileSync } from 'node:fs';
const [path, calls] = process.argv.slice(2);
const { instance } = await WebAssembly.instantiate(readFileSync(path), { env: { outside: (x) => x * 2 } });
const results = JSON.parse(calls).map(([name, x]) => {
  try { return instance.exports[name](x); } catch (error) { return String(error); }
});
const words = {};
for (const [name, value] of Object.entries(instance.exports)) {
  if (value instanceof WebAssembly.Global) words[name] = String(BigInt.asUintN(64, value.value));
}
console.log(JSON.stringify({ results, words }));
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Instantiate a module, call its exports, and say what they gave and what its exported globals hold then."""
    script = tmp_path / "run.mjs"
    script.write_text(_SCRIPT)

    def call(module: bytes, calls: list[tuple[str, int]]) -> dict[str, object]:
        (tmp_path / "module.wasm").write_bytes(module)
        command: list[str | Path] = [find_node(), script, tmp_path / "module.wasm", json.dumps(calls)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        answer: dict[str, object] = json.loads(done.stdout)
        return answer

    return call
