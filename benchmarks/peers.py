"""Bundles beside OpenVINO, CTranslate2, llama.cpp and ONNX Runtime on the same model, in one run.

    python -m venv peers; peers/bin/pip install openvino nncf ctranslate2 llama-cpp-python gguf onnxruntime safetensors
    python benchmarks/peers.py BUNDLE [BUNDLE ...] --peers peers/bin/python
    python benchmarks/peers.py BUNDLE [BUNDLE ...] --peers peers/bin/python --avx2

Every side is a process that has loaded its model and embeds on command (``benchmarks/peer.py`` is that of a library). The
sides take turns, set by set, and a ratio is the median of those of the rounds: time over that of the first bundle in the
same round, so above 1 the first bundle is faster. Bundles tokenize the texts, libraries are given token ids and do not.
Cosines are to ONNX Runtime's fp32, over the verification texts and STSBenchmark's together, as is Spearman's correlation.

With ``--avx2`` no side uses AVX-512 or VNNI: cpuid does not say it to the programs, and CTranslate2 and its oneDNN are told not to.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np
from numpy.typing import NDArray

from edgepack.bundles.manifest import open_bundle
from edgepack.console import Story
from edgepack.foundry.proof.cpuid import replace_cpuid
from edgepack.foundry.proof.harness import cpuid_hider, hiding
from edgepack.foundry.releases.registry import RELEASE
from edgepack.models.find.source import ingest
from edgepack.models.reference import exported_model, token_batches
from edgepack.plugins.context import HostContext, host_context
from edgepack.quantization.calibration import built_in_texts
from edgepack.recipes.prepare import prepare_model
from edgepack.records.model import ModelSource
from edgepack.records.target import ModelOptions
from edgepack.verifier.gate import verification_texts
from edgepack.verifier.tasks.sts import sts_task
from edgepack.verifier.tasks.task import Task

PEER = Path(__file__).with_name("peer.py")
REFERENCE = "onnxruntime-fp32"
LIBRARIES = (
    "openvino-static",
    "openvino-weights",
    "ctranslate2-int8",
    "llama.cpp-q8_0",
    "onnxruntime-int8",
    REFERENCE,
)
LIMITED = ("ctranslate2-int8",)
"""What ``--avx2`` can limit. OpenVINO cannot be: with its oneDNN limited, other parts of it still choose AVX-512, and no model loads."""
LIMITS = {"ONEDNN_MAX_CPU_ISA": "AVX2", "CT2_FORCE_CPU_ISA": "AVX2"}
LONG, LONG_TEXTS, MIXED_TEXTS, MOST_JOINED = 200, 16, 64, 9
SETS = ("short", "long", "sorted", "shuffled")

Texts = Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Program:
    name: str
    command: tuple[str | Path, ...]


@dataclass(frozen=True, kw_only=True)
class Side:
    """A process that embeds: a bundle's program, for one batch size, or a library."""

    name: str
    process: subprocess.Popen[bytes]
    library: bool


@dataclass(kw_only=True)
class Ratios:
    """Of one side to the first, a number a round."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)


def main() -> None:
    options = arguments()
    with host_context(story=Story(quiet=True)) as context, tempfile.TemporaryDirectory() as folder:
        source, task = ingest(None, context=context), sts_task(context=context)
        sets = text_sets(source, task)
        lay_out(source, sets, Path(folder), context)
        programs = [program(path, Path(folder), options, context) for path in options.bundles]
        if not options.no_quality:
            say(quality(sets, task, source.dimension, programs, Path(folder), options))
        say(
            "| set | batch | threads | side | CPU time, ratio | by the clock, ratio |\n|---|---|---|---|---|---|"
        )
        for threads in options.threads:
            for batch in options.batches:
                with running(programs, Path(folder), threads, batch, options) as sides:
                    for name in options.sets:
                        found = race(sides, name, sets[name], source.dimension, batch, options.rounds)
                        for side, ratios in zip(sides, found, strict=True):
                            cpu, wall = statistics.median(ratios.cpu), statistics.median(ratios.wall)
                            say(f"| {name} | {batch} | {threads} | {side.name} | {cpu:.2f} | {wall:.2f} |")


def arguments() -> argparse.Namespace:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("bundles", type=Path, nargs="+", help="of all-MiniLM-L6-v2; the first is the measure")
    made.add_argument("--peers", default=sys.executable, help="Python that has the peers (default: this one)")
    made.add_argument("--libraries", nargs="*", choices=LIBRARIES, help="default: all that can be")
    made.add_argument("--avx2", action="store_true", help="as on a processor with AVX2 and no more")
    made.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    made.add_argument("--batches", type=int, nargs="+", default=[1, 8, 32])
    made.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    made.add_argument("--rounds", type=int, default=7)
    made.add_argument("--no-quality", action="store_true", help="times alone")
    options = made.parse_args()
    if options.avx2 and not options.no_quality:
        made.error("--avx2 is for times: give --no-quality")
    able = LIMITED if options.avx2 else LIBRARIES
    options.libraries = list(able) if options.libraries is None else options.libraries
    if beyond := set(options.libraries) - set(able):
        made.error(f"--avx2 cannot limit {', '.join(sorted(beyond))}")
    if REFERENCE not in options.libraries and not options.no_quality:
        made.error(f"cosines are to {REFERENCE}: name it among --libraries, or give --no-quality")
    return options


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def text_sets(source: ModelSource, task: Task) -> dict[str, Texts]:
    """What is embedded, by name: short texts by length, long ones, and both joined at random, by length and not."""
    texts, random = verification_texts(), Random(1)
    plain = [text for text in texts if text.strip()]

    def length(text: str) -> int:
        return len(token_ids(source, [text])[0])

    def joined(least: int) -> str:
        text = random.choice(plain)
        while length(text) < least:
            text += " " + random.choice(plain)
        return text

    mixed = [" ".join(random.sample(plain, random.randint(1, MOST_JOINED))) for _ in range(MIXED_TEXTS)]
    return {
        "short": sorted(texts, key=length),
        "long": [joined(LONG) for _ in range(LONG_TEXTS)],
        "sorted": sorted(mixed, key=length),
        "shuffled": mixed,
        "judged": [*texts, *task.texts],
        "calibration": built_in_texts(),
    }


def token_ids(source: ModelSource, texts: Texts) -> list[list[int]]:
    (feed,) = token_batches(source, texts, len(texts))
    counts = feed["attention_mask"].sum(axis=1)
    return [row[:count].tolist() for row, count in zip(feed["input_ids"], counts, strict=True)]


def lay_out(source: ModelSource, sets: dict[str, Texts], folder: Path, context: HostContext) -> None:
    """What ``peer.py`` reads."""
    int8 = prepare_model(source, options=ModelOptions(recipe="int8", format="onnx"), context=context)
    shutil.copyfile(exported_model(source, context=context), folder / "fp32.onnx")
    shutil.copyfile(int8.file, folder / "int8.onnx")
    for name in ("model.safetensors", "config.json"):
        shutil.copyfile(source.directory / name, folder / name)
    ids = {name: token_ids(source, texts) for name, texts in sets.items()}
    (folder / "texts.json").write_text(json.dumps(ids))


def program(path: Path, folder: Path, options: argparse.Namespace, context: HostContext) -> Program:
    """A bundle's program; with ``--avx2`` a copy whose cpuid instructions are answered for."""
    bundle = open_bundle(path)
    name = str(bundle.manifest["name"])
    if not options.avx2:
        return Program(name=name, command=("env", "-i", bundle.program))
    copy = folder / name
    shutil.copytree(bundle.directory, copy)
    place = bundle.program.relative_to(bundle.directory)
    (copy / place).unlink()
    replace_cpuid(bundle.program, copy / place)
    hidden = hiding(RELEASE.feature_levels.named("avx2", "x86_64").hidden_bits())
    environment = {"LD_PRELOAD": str(cpuid_hider(context=context)), **hidden}
    said = (f"{key}={value}" for key, value in environment.items())
    return Program(name=name, command=("env", "-i", *said, copy / place))


@contextmanager
def running(
    programs: Sequence[Program], folder: Path, threads: int, batch: int, options: argparse.Namespace
) -> Iterator[list[Side]]:
    """The bundles' programs, then the libraries."""
    names = [*(each.name for each in programs), *options.libraries]
    flags = ["--out=raw", f"--threads={threads}", f"--batch-size={batch}"]
    commands: list[list[str | Path]] = [[*each.command, *flags] for each in programs]
    for library in options.libraries:
        commands.append([options.peers, PEER, library, folder, str(threads)])
    environment = {**os.environ, **(LIMITS if options.avx2 else {})}
    pipe = subprocess.PIPE
    processes = [subprocess.Popen(each, stdin=pipe, stdout=pipe, env=environment) for each in commands]
    try:
        yield [
            Side(name=name, process=process, library=name in LIBRARIES)
            for name, process in zip(names, processes, strict=True)
        ]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def race(sides: list[Side], name: str, texts: Texts, dimension: int, batch: int, rounds: int) -> list[Ratios]:
    """Ratios to the first side; one round before them warms."""
    found = [Ratios() for _ in sides]
    for turn in range(rounds + 1):
        times = []
        for side in sides:
            before, begin = cpu_of(side), time.perf_counter()
            embed(side, name, texts, dimension, batch)
            wall = time.perf_counter() - begin
            times.append((cpu_of(side) - before, wall))
        for ratios, (cpu, wall) in zip(found, times, strict=True):
            if turn:
                ratios.cpu.append(cpu / times[0][0])
                ratios.wall.append(wall / times[0][1])
    return found


def cpu_of(side: Side) -> float:
    """Seconds of processor time of all its threads so far: the clock that clock_getcpuclockid(3) names."""
    return time.clock_gettime((~side.process.pid << 3) | 2)


def embed(side: Side, name: str, texts: Texts, dimension: int, batch: int) -> NDArray[np.float32]:
    """float32 [texts, dimension]."""
    process = side.process
    assert process.stdin and process.stdout
    lines = f"{name} {batch}\n" if side.library else "".join(f"{text}\n" for text in texts)
    # Beside reading: neither pipe holds all of it.
    writer = threading.Thread(target=write, args=(process, lines.encode()))
    writer.start()
    size = len(texts) * dimension * 4
    data = process.stdout.read(size)
    writer.join()
    if len(data) != size:
        raise SystemExit(f"{side.name} ended early")
    return np.frombuffer(data, "<f4").reshape(len(texts), dimension)


def write(process: subprocess.Popen[bytes], data: bytes) -> None:
    assert process.stdin
    process.stdin.write(data)
    process.stdin.flush()


def quality(
    sets: dict[str, Texts],
    task: Task,
    dimension: int,
    programs: Sequence[Program],
    folder: Path,
    options: argparse.Namespace,
) -> str:
    """A table of what every side's vectors are worth, at batch 8."""
    texts = sets["judged"]
    with running(programs, folder, 2, 8, options) as sides:
        vectors = {side.name: embed(side, "judged", texts, dimension, 8) for side in sides}
    lines = [f"| side | mean cosine, {len(texts)} texts | least | STS-B |", "|---|---|---|---|"]
    for name, found in vectors.items():
        cosines = (found * vectors[REFERENCE]).sum(axis=1)
        score = task.score(found[-len(task.texts) :])
        lines.append(f"| {name} | {cosines.mean():.5f} | {cosines.min():.4f} | {score:.4f} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
