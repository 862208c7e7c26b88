"""The foundry against itself and against the stock library, in one run.

    .venv/bin/python benchmarks/foundry.py            # uses the kernel archive that is there
    .venv/bin/python benchmarks/foundry.py --cold     # compiles one from the sources first, in a cache of its own

Prints how long a runtime takes (cold, for a new operator list, for one that is there), what each build kind weighs, and
how fast the reduced library runs the shipped model beside the stock library of the same version: the two take turns,
round by round, in a fresh process each time; the ratio is of the medians.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import onnxruntime
import zstandard
from rich.console import Console
from rich.table import Table

from edgepack.console import Story
from edgepack.foundry.reduce import reduce_runtime
from edgepack.models.source import ingest
from edgepack.plugins.context import HostContext, host_context
from edgepack.recipes.prepare import prepare_model
from edgepack.records import (
    ModelOptions,
    ModelSource,
    Operators,
    Platform,
    PreparedModel,
    RuntimeArtifact,
    RuntimeKind,
)
from edgepack.runner.frozen import ort
from edgepack.store import Store, default_root

PLATFORM = Platform(os="linux", arch="x86_64", glibc="2.28")
KINDS: tuple[RuntimeKind, ...] = ("minimal", "minimal-extended", "full")
TOKENS = 32
ROUNDS = 9

TIMER = """
import importlib.util, json, statistics, sys, time
spec = importlib.util.spec_from_file_location("ort", sys.argv[1])
ort = importlib.util.module_from_spec(spec)
spec.loader.exec_module(ort)
library, model, batch, threads, tokens = sys.argv[2], sys.argv[3], *map(int, sys.argv[4:])
session = ort.Session(library, model, threads=threads)
row = [101] + [2000 + 7 * i for i in range(tokens - 2)] + [102]
feed = [row] * batch, [[1] * tokens] * batch, [[0] * tokens] * batch
for _ in range(3):
    session.run(*feed)
times = []
while len(times) < 5 or sum(times) < 0.6:
    start = time.perf_counter()
    session.run(*feed)
    times.append(time.perf_counter() - start)
print(json.dumps(1000 * statistics.median(times)))
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cold", action="store_true", help="compile a kernel archive from its sources, too")
    parser.add_argument("--kinds", nargs="*", default=["minimal"], choices=KINDS)
    arguments = parser.parse_args()
    console = Console()
    with host_context(story=Story()) as context:
        source = ingest(None, context=context)
        int8 = prepare_model(source, options=ModelOptions(recipe="int8"), context=context)
        if arguments.cold:
            console.print(f"cold, from sources: {_cold(int8.needs, context):.0f} s")
        runtimes = {kind: _runtime(int8.needs, kind, context)[0] for kind in arguments.kinds}
        console.print(_times(source, int8, context))
        console.print(_sizes(runtimes))
        console.print(_speeds(runtimes["minimal"].library, int8))


def _runtime(needs: Operators, kind: RuntimeKind, context: HostContext) -> tuple[RuntimeArtifact, float]:
    start = time.perf_counter()
    runtime = reduce_runtime(needs, platform=PLATFORM, kind=kind, context=context)
    return runtime, time.perf_counter() - start


def _cold(needs: Operators, context: HostContext) -> float:
    """Seconds from an empty cache that holds the downloaded sources only."""
    with tempfile.TemporaryDirectory(prefix="edgepack-cold-") as folder:
        (Path(folder) / "sources").symlink_to(default_root() / "sources")
        return _runtime(needs, "minimal", replace(context, store=Store(root=Path(folder))))[1]


def _times(source: ModelSource, int8: PreparedModel, context: HostContext) -> Table:
    """A new operator list (a kernel less, a kernel more, other types) and the same one again."""
    table = _table("a runtime with the kernel archive there", "operator list", "seconds")
    lists = {
        "MiniLM int8, again": int8.needs,
        "MiniLM int8 without type reduction": Operators(
            kernels=frozenset(replace(kernel, types="") for kernel in int8.needs.kernels)
        ),
        "MiniLM fp32": prepare_model(source, options=ModelOptions(recipe="fp32"), context=context).needs,
    }
    for name, needs in lists.items():
        for _ in range(2 if name == "MiniLM int8, again" else 1):
            seconds = _runtime(needs, "minimal", context)[1]
        table.add_row(name, f"{seconds:.1f}")
    return table


def _sizes(runtimes: dict[str, RuntimeArtifact]) -> Table:
    table = _table("libonnxruntime.so for MiniLM int8", "kind", "raw", "gzip -9", "zstd -19")
    stock = {"stock 1.21.0": _stock_library()}
    for name, library in ({kind: runtime.library for kind, runtime in runtimes.items()} | stock).items():
        content = library.read_bytes()
        sizes = len(content), len(gzip.compress(content, 9)), len(zstandard.compress(content, 19))
        table.add_row(name, *(f"{size:,}" for size in sizes))
    return table


def _speeds(library: Path, model: PreparedModel) -> Table:
    table = _table(
        f"the same .ort, {TOKENS} tokens, median ms a run",
        "batch",
        "threads",
        "reduced",
        "stock",
        "stock/reduced",
    )
    for batch, threads in ((1, 1), (32, 1), (1, os.cpu_count() or 1), (32, os.cpu_count() or 1)):
        times: dict[Path, list[float]] = {library: [], _stock_library(): []}
        for _ in range(ROUNDS):
            for candidate, measured in times.items():
                measured.append(_measure(candidate, model.file, batch, threads))
        reduced, stock = (statistics.median(measured) for measured in times.values())
        table.add_row(str(batch), str(threads), f"{reduced:.2f}", f"{stock:.2f}", f"{stock / reduced:.3f}")
    return table


def _measure(library: Path, model: Path, batch: int, threads: int) -> float:
    words = [sys.executable, "-I", "-S", "-c", TIMER, ort.__file__, library, model, batch, threads, TOKENS]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout))


def _stock_library() -> Path:
    return Path(onnxruntime.__file__).parent / "capi" / f"libonnxruntime.so.{onnxruntime.__version__}"


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left")
    return table


if __name__ == "__main__":
    main()
