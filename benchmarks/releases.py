"""One model on a reduced runtime and on releases of ONNX Runtime as they are: size, start, speed and vectors.

    python benchmarks/releases.py                            # all-MiniLM-L6-v2: 1.21.0 reduced, 1.21.0 and 1.31.1 stock
    python benchmarks/releases.py --releases 1.21.0 1.24.4 1.31.1 --rounds 11

The bundles are those of linux-x86-min. A start is one text in a process of its own; speed is the CPU time of 400 texts on one
thread less that of a start. The bundles take turns, the first in each round another one; ratios are medians of the rounds' own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgepack.records.target import Platform
from edgepack.reports.reduced import reduced_size
from edgepack.verifier.gate import verification_texts

TARGET = "linux-x86-min"
MODEL = "sentence-transformers/all-MiniLM-L6-v2"
RELEASES = ("1.21.0", "1.31.1")
ROUNDS = 9
REPEATED = 2


@dataclass(kw_only=True)
class Contestant:
    """A bundle, and what was measured of it."""

    name: str
    folder: Path
    library: int
    """Bytes of ONNX Runtime and what it needs."""
    starts: list[float] = field(default_factory=list)
    """Wall seconds, by round."""
    times: list[float] = field(default_factory=list)
    """CPU seconds."""

    @property
    def archive(self) -> int:
        return self.folder.with_name(self.folder.name + ".tar.zst").stat().st_size


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default=MODEL)
    parser.add_argument("--releases", nargs="*", default=list(RELEASES))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument(
        "--keep", type=Path, help="folder of the bundles; those that are there are not made again"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = arguments.keep or Path(temporary)
        contestants = [made(arguments.model, None, work)]
        contestants += [made(arguments.model, release, work) for release in arguments.releases]
        texts = work / "texts.txt"
        lines = [text for text in verification_texts() if text.strip() and len(text.splitlines()) == 1]
        texts.write_text("\n".join(lines * REPEATED) + "\n", encoding="utf-8")
        for turn in range(arguments.rounds):
            first = turn % len(contestants)
            for each in (*contestants[first:], *contestants[:first]):
                each.starts.append(started(each.folder))
                each.times.append(embedded(each.folder, texts))
        vectors = [vectors_of(each.folder, texts)[: len(lines)] for each in contestants]
    sys.stdout.write(as_table(contestants, vectors))


def made(model: str, release: str | None, work: Path) -> Contestant:
    """A bundle with a release's own library, or with the reduced runtime."""
    name = f"{release} stock" if release else "1.21.0 reduced"
    output = work / name.replace(" ", "-")
    if not output.exists():
        chosen = ["--set", "runtime=stock", "--set", f"onnxruntime={release}"] if release else []
        command = [sys.executable, "-m", "edgepack", "bundle", "-t", TARGET, "-m", model, *chosen]
        larger = ["--set", 'budget.download="60 MB"', "-o", str(output)]
        subprocess.run([*command, *larger], check=True, stdout=subprocess.DEVNULL)
    folder = next(path for path in output.iterdir() if path.is_dir())
    report = json.loads(folder.with_name(folder.name + ".report.json").read_text(encoding="utf-8"))
    runtime = next((part["raw"] for part in report["parts"] if part["name"] == "runtime"), None)
    if runtime is None:
        platform = Platform(os="linux", arch="x86_64", glibc="2.28")
        runtime = reduced_size(folder / "model/model.ort", platform).raw
    return Contestant(name=name, folder=folder, library=runtime)


def started(folder: Path) -> float:
    begun = time.perf_counter()
    subprocess.run([folder / "embed", "a cat"], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def embedded(folder: Path, texts: Path) -> float:
    """CPU seconds of embedding a file, without those of a start."""

    def used(*arguments: str, given: Path | None) -> float:
        before = os.times()
        with (given or Path(os.devnull)).open() as stream:
            subprocess.run(
                [folder / "embed", "--threads", "1", *arguments],
                check=True,
                stdin=stream,
                stdout=subprocess.DEVNULL,
            )
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    return used(given=texts) - used("a cat", given=None)


def vectors_of(folder: Path, texts: Path) -> npt.NDArray[np.float32]:
    with texts.open() as stream:
        done = subprocess.run(
            [folder / "embed", "--out", "raw"], check=True, stdin=stream, stdout=subprocess.PIPE
        )
    rows = np.frombuffer(done.stdout, np.float32).reshape(len(texts.read_text().splitlines()), -1)
    unit: npt.NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def as_table(contestants: list[Contestant], vectors: list[npt.NDArray[np.float32]]) -> str:
    """As docs/benchmarks.md has it; ratios are to the first."""
    first = contestants[0]
    lines = [
        "| runtime | library MB | archive MB | start, ratio | CPU time, ratio | mean cosine to the first | lowest |",
        "|---|---|---|---|---|---|---|",
    ]
    for each, rows in zip(contestants, vectors, strict=True):
        start = statistics.median(a / b for a, b in zip(each.starts, first.starts, strict=True))
        cpu = statistics.median(a / b for a, b in zip(each.times, first.times, strict=True))
        cosines = (rows * vectors[0]).sum(axis=1)
        lines.append(
            f"| {each.name} | {each.library / 1e6:.2f} | {each.archive / 1e6:.2f} | {start:.2f} | {cpu:.2f} "
            f"| {cosines.mean():.6f} | {cosines.min():.6f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
