"""A bundle made again: seconds of each step and of the whole, of this installation and of another in turns.

    .venv/bin/python benchmarks/warm_bundle.py --beside OTHER/.venv/bin/python
    .venv/bin/python benchmarks/warm_bundle.py --cold --target web-wasm

The first run of each side is not counted: it puts into the cache what is missing there. With ``--cold`` nothing that was compressed
or measured is in the cache, everything else is. A step's seconds are those of the story on stderr, to 0.1 s; ``cpu`` is processor time
of the command and all that it starts, which alone compares on a busy machine. What both sides say is printed as least / median, and
the ratio is of the two medians.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from edgepack.files.store import default_root

COMPRESSED = {"zstd-frame", "wire-sizes"}
STEP = re.compile(r"^(\w+) .*?  (\d+\.\d) s$", re.MULTILINE)

Figures = dict[str, float]
"""Step, ``whole`` or ``cpu`` → seconds."""


def main() -> None:
    options = arguments()
    sides = [sys.executable, *options.beside]
    taken: list[list[Figures]] = [[] for _ in sides]
    with tempfile.TemporaryDirectory() as work:
        for turn in range(options.runs + 1):
            for side, python in enumerate(sides):
                figures = build(python, Path(work) / f"{side}", options)
                if turn:
                    taken[side].append(figures)
    Console(width=110).print(table(sides, taken))


def arguments() -> argparse.Namespace:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--target", default="linux-x86-min")
    made.add_argument("--set", action="append", default=[], help="as of edgepack bundle")
    made.add_argument("--runs", type=int, default=5)
    made.add_argument("--cold", action="store_true", help="nothing is compressed or measured yet")
    made.add_argument(
        "--beside", action="append", default=[], metavar="PYTHON", help="of another installation"
    )
    return made.parse_args()


def build(python: str, output: Path, options: argparse.Namespace) -> Figures:
    """Make the bundle with one installation. Raises ``SystemExit`` with its last words when that fails."""
    settings = [word for setting in options.set for word in ("--set", setting)]
    command = [python, "-m", "edgepack", "bundle", "--target", options.target, *settings]
    with tempfile.TemporaryDirectory() as cache:
        environment = dict(os.environ)
        if options.cold:
            for kind in default_root().iterdir():
                if kind.name not in COMPRESSED:
                    (Path(cache) / kind.name).symlink_to(kind)
            environment["EDGEPACK_CACHE"] = cache
        before, started = os.times(), time.perf_counter()
        done = subprocess.run(
            [*command, "--offline", "--force", "--output", output],
            env=environment,
            capture_output=True,
            text=True,
        )
        whole, after = time.perf_counter() - started, os.times()
    if done.returncode:
        raise SystemExit(f"{python}: {done.stderr[-2000:]}")
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return {name: float(seconds) for name, seconds in STEP.findall(done.stderr)} | {
        "whole": whole,
        "cpu": used,
    }


def table(sides: list[str], taken: list[list[Figures]]) -> Table:
    made = Table(title=f"seconds, least / median of {len(taken[0])}")
    made.add_column("step")
    for side in sides:
        made.add_column(side, justify="right", overflow="fold")
    if len(sides) == 2:
        made.add_column("ratio", justify="right")
    for name in dict.fromkeys(name for runs in taken for figures in runs for name in figures):
        seconds = [[figures.get(name, 0.0) for figures in runs] for runs in taken]
        cells = [f"{min(each):.2f} / {statistics.median(each):.2f}" for each in seconds]
        if len(sides) == 2:
            here, beside = (statistics.median(each) for each in seconds)
            cells.append(f"{here / beside:.2f}" if beside else "")
        made.add_row(name, *cells, end_section=name == "pack")
    return made


if __name__ == "__main__":
    main()
