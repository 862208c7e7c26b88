"""A reduced WebAssembly runtime beside the stock one, in Node: bytes, times of building, CPU time of a run.

    python benchmarks/web_runtime.py MODEL.ort…          # models in ORT format, e.g. of `edgepack quantize`
    python benchmarks/web_runtime.py --cold MODEL.ort…   # how long their runtimes take, the first from the sources
    python benchmarks/web_runtime.py --threads MODEL.ort…  # sentences a second with 1, 2 and 4 threads

Markdown on the standard output. ``--cold`` has a cache of its own, in which are the packages and archives as they were
downloaded, and the unpacked toolchain.
"""

import argparse
import gzip
import json
import os
import resource
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import brotli

from edgepack.console import Story
from edgepack.files.store import Store, default_root
from edgepack.operators.config import operators_of_ort_model
from edgepack.plugins.context import HostContext, host_context
from edgepack.records.runtime import RuntimeArtifact
from edgepack_web.foundry.prove import node_scripts, place, prove_module, script_of
from edgepack_web.foundry.reduce import reduce_web_runtime
from edgepack_web.npm.node import find_node
from edgepack_web.packages import stock_web_runtime

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
  // Until the browser's better compiler has been over what is run.
  for (let round = 0; round < 10; round++) session.run(ids, mask);
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
SHAPES = ((1, 12), (1, 32), (1, 128), (8, 32), (8, 128))
ROUNDS = 30


THREADED = """\
import { readFileSync } from 'node:fs';
import { loadRuntime, Session } from './session.mjs';
const { glue, wasm, model, threads, rows, length, rounds } = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const m = await loadRuntime(glue, wasm, threads);
m._OrtInit(threads, 4);
const session = new Session(m, readFileSync(model));
const ids = Array.from({ length: rows }, (_, i) => Array.from({ length }, (_, j) => 1000 + 7 * i + j));
const mask = ids.map((row) => row.map(() => 1));
const taken = Array.from({ length: rounds }, () => {
  const from = performance.now();
  session.run(ids, mask);
  return performance.now() - from;
});
const best = taken.sort((a, b) => a - b)[0];
console.log(JSON.stringify({ best, memory: m.HEAPU8.length }));
process.exit();
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--cold", action="store_true", help="time the builds, the first from the sources")
    parser.add_argument("--threads", action="store_true", help="time runs with several threads")
    arguments = parser.parse_args()
    with host_context(story=Story(quiet=True), offline=False) as context:
        if arguments.cold:
            _cold(arguments.models, context)
        elif arguments.threads:
            _threads(arguments.models, context)
        else:
            _compare(arguments.models, context)


def _cold(models: list[Path], context: HostContext) -> None:
    _say("| runtime | seconds | seconds of processor time | raw | load before and after |")
    _say("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="benchmark-", dir=default_root()) as folder:
        for part in ("sources", "emscripten", "npm"):
            (Path(folder) / part).symlink_to(default_root() / part)
        own = replace(context, store=Store(root=Path(folder)))
        for what, model in [("from the sources", models[0]), *(("then", each) for each in models[1:])]:
            needs = operators_of_ort_model(model)
            load, cpu, begin = os.getloadavg()[0], _cpu(), time.monotonic()
            made = reduce_web_runtime(needs, context=own)
            seconds, used = time.monotonic() - begin, _cpu() - cpu
            cells = (f"{seconds:.1f}", f"{used:.1f}", f"{made.file.stat().st_size:,}")
            _say(
                f"| {model.parent.name}, {what} | {' | '.join(cells)} | {load:.1f}, {os.getloadavg()[0]:.1f} |"
            )


def _cpu() -> float:
    """Seconds of processor time, of this process and of those that it ran."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _threads(models: list[Path], context: HostContext) -> None:
    _say(
        "| model, runtime | raw | brotli | JS | JS brotli | threads | sentences of 32 tokens a second, 1 / 32 | MB |"
    )
    _say("|---|---|---|---|---|---|---|---|")
    for model in models:
        needs = operators_of_ort_model(model)
        kinds = {
            "reduced": (reduce_web_runtime(needs, context=context), (1,)),
            "reduced, threads": (reduce_web_runtime(needs, threads=True, context=context), (1, 2, 4)),
            "stock": (stock_web_runtime(context=context), (1, 2, 4)),
        }
        for name, (runtime, counts) in kinds.items():
            files = [runtime.file.read_bytes(), script_of(runtime).read_bytes()]
            sizes = " | ".join(f"{len(data):,} | {len(_brotli(data)):,}" for data in files)
            for count in counts:
                request = {**place(runtime), "model": str(model.absolute()), "threads": count, "length": 32}
                runs = [
                    (rows, _node(THREADED, {**request, "rows": rows, "rounds": rounds}, context))
                    for rows, rounds in ((1, 60), (32, 8))
                ]
                speeds = " / ".join(f"{1000 * rows / run['best']:.1f}" for rows, run in runs)
                memory = max(run["memory"] for _, run in runs) / 1e6
                _say(f"| {model.parent.name}, {name} | {sizes} | {count} | {speeds} | {memory:.0f} |")


def _compare(models: list[Path], context: HostContext) -> None:
    shapes = " / ".join(f"{rows}x{length}" for rows, length in SHAPES)
    _say(
        f"| model, runtime | made in s | raw | gzip | brotli | JS brotli | session ms | CPU ms at {shapes} | cosine |"
    )
    _say("|---|---|---|---|---|---|---|---|---|")
    for model in models:
        needs = operators_of_ort_model(model)
        begin = time.monotonic()
        reduced = reduce_web_runtime(needs, context=context)
        _row(model, "reduced", reduced, time.monotonic() - begin, context)
        _row(model, "stock", stock_web_runtime(context=context), 0.0, context)


def _row(model: Path, name: str, runtime: RuntimeArtifact, seconds: float, context: HostContext) -> None:
    wasm, script = runtime.file.read_bytes(), script_of(runtime).read_bytes()
    proof = prove_module(model, runtime, context=context)
    timed = _timed(model, runtime, context)
    sizes = (len(wasm), len(gzip.compress(wasm, 9)), len(_brotli(wasm)), len(_brotli(script)))
    times = " / ".join(f"{value:.1f}" for value in timed["times"])
    cells = [f"{model.parent.name}, {name}", f"{seconds:.0f}", *(f"{size:,}" for size in sizes)]
    _say(
        f"| {' | '.join([*cells, format(timed['opened'], '.0f'), times, format(proof.min_cosine, '.6f')])} |",
    )


def _timed(model: Path, runtime: RuntimeArtifact, context: HostContext) -> Any:
    request = {**place(runtime), "model": str(model.absolute()), "shapes": SHAPES, "rounds": ROUNDS}
    return _node(TIMED, request, context)


def _node(script: str, request: dict[str, object], context: HostContext) -> Any:
    folder = context.work_dir / "timed"
    folder.mkdir(exist_ok=True)
    for name, text in {**node_scripts(), "timed.mjs": script}.items():
        (folder / name).write_text(text)
    (folder / "request.json").write_text(json.dumps(request))
    return json.loads(context.run([find_node(), folder / "timed.mjs", folder / "request.json"]))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _brotli(data: bytes) -> bytes:
    return bytes(brotli.compress(data, quality=11))


if __name__ == "__main__":
    main()
