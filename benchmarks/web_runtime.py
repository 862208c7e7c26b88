"""A reduced WebAssembly runtime beside the stock one, in Node: bytes, times of building, CPU time of a run.

python benchmarks/web_runtime.py MODEL.ort…  (models in ORT format, e.g. of `edgepack quantize`); Markdown on the standard output.
With EDGEPACK_CACHE set to an empty folder the first line's building time is that of a cold cache, sources included.
"""

from __future__ import annotations

import gzip
import json
import sys
import time
from pathlib import Path

import brotli

from edgepack.api import reduce_web_runtime, stock_web_runtime
from edgepack.console import Story
from edgepack.foundry.operators import operators_of_ort_model
from edgepack.foundry.web.prove import node_scripts, place, prove_module, script_of
from edgepack.foundry.web.prune import Profile, stub_runtime
from edgepack.npm import find_node
from edgepack.plugins.context import HostContext, host_context
from edgepack.records import RuntimeArtifact

TIMED = """\
import { readFileSync } from 'node:fs';
import { loadRuntime, Session } from './session.mjs';
const { glue, wasm, model, shapes, rounds } = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const begin = performance.now();
const m = await loadRuntime(glue, wasm);
m._OrtInit(1, 4);
const session = new Session(m, readFileSync(model));
const opened = performance.now() - begin;
const times = shapes.map(([rows, length]) => {
  const ids = Array.from({ length: rows }, (_, i) => Array.from({ length }, (_, j) => 1000 + 7 * i + j));
  const mask = ids.map((row) => row.map(() => 1));
  const taken = Array.from({ length: rounds }, () => {
    const from = process.cpuUsage();
    session.run(ids, mask);
    const used = process.cpuUsage(from);
    return (used.user + used.system) / 1000;
  });
  return taken.sort((a, b) => a - b)[0];
});
console.log(JSON.stringify({ opened, times, memory: m.HEAPU8.length }));
"""
SHAPES = ((1, 12), (1, 32), (1, 128), (8, 32))
ROUNDS = 15


def main(models: list[Path]) -> None:
    shapes = " / ".join(f"{rows}x{length}" for rows, length in SHAPES)
    _say(
        f"| model, runtime | made in s | raw | gzip | brotli | JS brotli | session ms | CPU ms at {shapes} | cosine |"
    )
    _say("|---|---|---|---|---|---|---|---|---|")
    with host_context(story=Story(quiet=True), offline=False) as context:
        for model in models:
            needs = operators_of_ort_model(model)
            begin = time.monotonic()
            reduced = reduce_web_runtime(needs, context=context)
            _row(model, "reduced", reduced, time.monotonic() - begin, context)
            begin = time.monotonic()
            stub = stub_runtime(model, reduced, profile=Profile(), context=context)
            _row(model, "reduced, stub", stub, time.monotonic() - begin, context)
            stock = stock_web_runtime(needs, context=context)
            begin = time.monotonic()
            stub = stub_runtime(model, stock, profile=Profile(), context=context)
            _row(model, "stock, stub", stub, time.monotonic() - begin, context)
            _row(model, "stock", stock, 0.0, context)


def _row(model: Path, name: str, runtime: RuntimeArtifact, seconds: float, context: HostContext) -> None:
    wasm, script = runtime.library.read_bytes(), script_of(runtime).read_bytes()
    proof = prove_module(model, runtime, context=context)
    timed = _timed(model, runtime, context)
    sizes = (len(wasm), len(gzip.compress(wasm, 9)), len(_brotli(wasm)), len(_brotli(script)))
    times = " / ".join(f"{value:.1f}" for value in timed["times"])
    cells = [f"{model.parent.name}, {name}", f"{seconds:.0f}", *(f"{size:,}" for size in sizes)]
    _say(
        f"| {' | '.join([*cells, format(timed['opened'], '.0f'), times, format(proof.min_cosine, '.6f')])} |",
    )


def _timed(model: Path, runtime: RuntimeArtifact, context: HostContext) -> dict[str, list[float]]:
    folder = context.work_dir / "timed"
    folder.mkdir(exist_ok=True)
    for name, text in {**node_scripts(), "timed.mjs": TIMED}.items():
        (folder / name).write_text(text)
    request = {**place(runtime), "model": str(model.absolute()), "shapes": SHAPES, "rounds": ROUNDS}
    (folder / "request.json").write_text(json.dumps(request))
    answer: dict[str, list[float]] = json.loads(
        context.run([find_node(), folder / "timed.mjs", folder / "request.json"])
    )
    return answer


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _brotli(data: bytes) -> bytes:
    return bytes(brotli.compress(data, quality=11))


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
