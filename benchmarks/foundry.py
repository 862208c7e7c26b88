"""The foundry against itself and against the stock library, in one run.

    .venv/bin/python benchmarks/foundry.py            # uses the kernel archive that is there
    .venv/bin/python benchmarks/foundry.py --cold     # compiles one from the sources first, in a cache of its own
    .venv/bin/python benchmarks/foundry.py --headers 40

Prints how long a runtime takes (cold, for a new operator list, for one that is there), what each build kind weighs, and
how fast the reduced library runs the shipped model beside the stock library of the same version: both are loaded into one
process and take turns, run by run, so that whatever else the machine does meets both alike; a round is a fresh process,
its ratio that of the medians, and the figure is the median of the rounds.

With ``--headers`` instead what precompiled headers save: so many files of the kernel archive in the cache, drawn from those that take a
header, compiled with and without, paired, processor time; every object is compared with the other's by SHA-256. The time that the headers
themselves take is counted whole, though a build of all files shares it among more.
"""

import argparse
import gzip
import json
import os
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import onnxruntime
import zstandard
from rich.console import Console
from rich.table import Table

from edgepack.console import Story
from edgepack.files.store import Store, default_root, sha256_of
from edgepack.foundry.compile.archive import open_archive
from edgepack.foundry.link.reduced_library import reduce_runtime
from edgepack.foundry.toolchains.choose import choose
from edgepack.models.find.source import ingest
from edgepack.operators.config import required
from edgepack.plugins.context import HostContext, host_context
from edgepack.recipes.prepare import prepare_model
from edgepack.records.model import ModelSource, PreparedModel
from edgepack.records.operators import Operators
from edgepack.records.runtime import RuntimeArtifact, RuntimeKind
from edgepack.records.target import ModelOptions, Platform
from edgepack.runtimes.standalone import format_for

PLATFORM = Platform(os="linux", arch="x86_64", glibc="2.28")
KINDS: tuple[RuntimeKind, ...] = ("minimal", "minimal-extended", "full")
TOKENS = 32
ROUNDS = 7
SECONDS = 4

TIMER = """
import json, pathlib, statistics, sys, time
import numpy
from edgepack.models.ort.c_api import Session
model, batch, threads, tokens, seconds = pathlib.Path(sys.argv[1]), *map(int, sys.argv[2:6])
sessions = [Session(library, model, threads=threads) for library in sys.argv[6:]]
row = [101] + [2000 + 7 * i for i in range(tokens - 2)] + [102]
text = {"input_ids": row, "attention_mask": [1] * tokens, "token_type_ids": [0] * tokens}
feed = {each.name: numpy.array([text[each.name]] * batch, each.dtype) for each in sessions[0].get_inputs()}
output = [sessions[0].get_outputs()[0].name]
times = [[] for _ in sessions]
for turn in range(3):
    for session in sessions:
        session.run(output, feed)
end, turn = time.perf_counter() + seconds, 0
while time.perf_counter() < end:
    for place in range(len(sessions)):
        which = (place + turn) % len(sessions)
        start = time.perf_counter()
        sessions[which].run(output, feed)
        times[which].append(time.perf_counter() - start)
    turn += 1
print(json.dumps([1000 * statistics.median(each) for each in times]))
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cold", action="store_true", help="compile a kernel archive from its sources, too")
    parser.add_argument("--kinds", nargs="*", default=["minimal"], choices=KINDS)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of the comparison of speeds")
    parser.add_argument(
        "--headers", type=int, metavar="FILES", help="what precompiled headers save, and no more"
    )
    arguments = parser.parse_args()
    console = Console()
    if arguments.headers:
        with host_context(story=Story(quiet=True)) as context:
            console.print("\n".join(_headers(arguments.headers, context)), soft_wrap=True)
        return
    with host_context(story=Story()) as context:
        source = ingest(None, context=context)
        int8 = prepare_model(source, options=ModelOptions(recipe="int8"), context=context)
        fp32 = prepare_model(source, options=ModelOptions(recipe="fp32"), context=context)
        runtimes = {
            kind: _runtime(_needs(source, kind, context), kind, context)[0] for kind in arguments.kinds
        }
        console.print(
            _times(required(int8.needs), required(fp32.needs), cold=arguments.cold, context=context)
        )
        console.print(_sizes(runtimes))
        console.print(_speeds(runtimes["minimal"].file, int8, arguments.rounds))


def _needs(source: ModelSource, kind: RuntimeKind, context: HostContext) -> Operators:
    """What MiniLM int8 needs in the format that a kind of runtime is for."""
    options = ModelOptions(recipe="int8", format=format_for(kind))
    return required(prepare_model(source, options=options, context=context).needs)


def _runtime(needs: Operators, kind: RuntimeKind, context: HostContext) -> tuple[RuntimeArtifact, float]:
    start = time.perf_counter()
    runtime = reduce_runtime(needs, platform=PLATFORM, kind=kind, context=context)
    return runtime, time.perf_counter() - start


def _times(int8: Operators, fp32: Operators, *, cold: bool, context: HostContext) -> Table:
    """In a store of its own that holds the sources as downloaded and, but for ``cold``, the objects that no model changes."""
    table = _table("seconds for a runtime", "what", "seconds")
    fewer = Operators(kernels=frozenset(sorted(int8.kernels)[:-1]))
    name = "MiniLM int8, cold: from the sources" if cold else "MiniLM int8, its types new to the archive"
    lists = [(name, int8), ("the same again", int8), ("one operator fewer", fewer)]
    lists += [("MiniLM fp32: other kernels and types, compiled now", fp32)]
    # On the same disk, for hard links.
    with tempfile.TemporaryDirectory(prefix="benchmark-", dir=default_root()) as folder:
        (Path(folder) / "sources").symlink_to(default_root() / "sources")
        if not cold:
            _share_objects(Path(folder))
        own = replace(context, store=Store(root=Path(folder)))
        for what, needs in lists:
            table.add_row(what, f"{_runtime(needs, 'minimal', own)[1]:.1f}")
    return table


def _share_objects(root: Path) -> None:
    """Hard links to the unpacked sources and to what is in the kernel archives in the form that no model has changed."""
    for part in ("source-tree", "libc-stubs", "protoc", "kernel-archive"):
        for path in sorted((default_root() / part).rglob("*")):
            target = root / path.relative_to(default_root())
            if path.is_dir() or re.search(r"\.[0-9a-f]{16}\.o(\.json)?$", path.name):
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            os.link(path, target, follow_symlinks=False)


def _sizes(runtimes: dict[str, RuntimeArtifact]) -> Table:
    table = _table("libonnxruntime.so for MiniLM int8", "kind", "raw", "gzip -9", "zstd -19")
    stock = {"stock 1.21.0": _stock_library()}
    for name, library in ({kind: runtime.file for kind, runtime in runtimes.items()} | stock).items():
        content = library.read_bytes()
        sizes = len(content), len(gzip.compress(content, 9)), len(zstandard.compress(content, 19))
        table.add_row(name, *(f"{size:,}" for size in sizes))
    return table


def _speeds(library: Path, model: PreparedModel, rounds: int) -> Table:
    columns = ("threads", "reduced", "stock", "stock/reduced", "of the rounds")
    table = _table(f"the same .ort, {TOKENS} tokens, median ms a run", "batch", *columns)
    everyone = os.cpu_count() or 1
    for batch, threads in ((1, 1), (32, 1), (1, everyone), (32, everyone)):
        measured = [_round(model.file, batch, threads, library, _stock_library()) for _ in range(rounds)]
        reduced, stock = (statistics.median(times) for times in zip(*measured, strict=True))
        ratios = sorted(theirs / ours for ours, theirs in measured)
        figures = f"{reduced:.2f}", f"{stock:.2f}", f"{statistics.median(ratios):.3f}"
        table.add_row(str(batch), str(threads), *figures, f"{ratios[0]:.3f} … {ratios[-1]:.3f}")
    return table


def _round(model: Path, batch: int, threads: int, *libraries: Path) -> list[float]:
    """Milliseconds a run, one figure a library."""
    numbers = batch, threads, TOKENS, SECONDS
    words = [sys.executable, "-I", "-c", TIMER, model, *numbers, *libraries]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=True)
    return list(json.loads(done.stdout))


def _headers(count: int, context: HostContext) -> Iterator[str]:
    """Lines on each set of headers, then on all together."""
    archive = open_archive(kind="minimal", toolchain=choose(PLATFORM, context=context), context=context)
    jobs = [job for name in sorted(archive.units) if (job := archive.job(name)).header]
    folder = context.work_dir
    headers: dict[str, tuple[Path, float]] = {}
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    different = []
    for job in random.Random(1).sample(jobs, min(count, len(jobs))):
        header = job.header
        assert header is not None
        if (name := header.name) not in headers:
            source, made = folder / f"{name}.hpp", folder / f"{name}.pch"
            source.write_text(header.text)
            headers[name] = (made, _processor_time([*header.command, "-x", "c++-header", source, "-o", made]))
        job = replace(job, object=folder / "x.o")
        plain = _processor_time([*job.command, "-o", job.object])
        digest = sha256_of(job.object)
        taking = _processor_time([*job.command, "-include-pch", headers[name][0], "-o", job.object])
        if sha256_of(job.object) != digest:
            different.append(job.name)
        for at, value in enumerate((1, plain, taking)):
            sums[header.text.replace("#include ", "").replace("\n", " ")][at] += value
    for text, (files, plain, taking) in sorted(sums.items()):
        yield f"{files:3.0f} files {plain:7.1f} s → {taking:7.1f} s  {text}"
    files, plain, taking = (sum(row[at] for row in sums.values()) for at in range(3))
    making = sum(cost for _, cost in headers.values())
    share = (taking + making * files / len(jobs)) / plain
    yield f"{files:.0f} of {len(jobs)} files: {plain:.1f} s without, {taking:.1f} s with, headers {making:.1f} s"
    yield f"with their share of the headers {share:.2f} of the time without; on {os.cpu_count()} processors"
    yield f"objects that differ: {', '.join(different) or 'none'}"


def _processor_time(command: list[str | Path]) -> float:
    """Seconds of a command, its system's time included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _stock_library() -> Path:
    return Path(onnxruntime.__file__).parent / "capi" / f"libonnxruntime.so.{onnxruntime.__version__}"


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left")
    return table


if __name__ == "__main__":
    main()
