"""Memory of several programs of one bundle at once: what each has, and what they share.

    .venv/bin/python benchmarks/processes.py dist/all-MiniLM-L6-v2-linux-x86-min --processes 16

Each gets a text, answers, and waits for the next. Figures are of /proc/PID/smaps_rollup, in MB: resident, proportional (a page that
several have counts in parts, so that the sum is what all take together), and private (written: arrays packed when the model was loaded).
"""

import argparse
import subprocess
from pathlib import Path

from rich.console import Console
from rich.table import Table

from edgepack.bundles.manifest import open_bundle

TEXT = b"A man is eating food.\n"


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("bundle", type=Path)
    made.add_argument("--processes", type=int, default=16)
    options = made.parse_args()
    bundle = open_bundle(options.bundle)
    model = next(
        int(file["size"])
        for file in bundle.manifest["files"]
        if file["path"] == bundle.manifest["model"]["file"]
    )
    table = Table(
        "programs",
        "resident, each",
        "of the model",
        "proportional, each",
        "of the model",
        "private, each",
        "together",
    )
    started = []
    for count in range(1, options.processes + 1):
        started.append(start(bundle.program))
        if count not in {1, options.processes}:
            continue
        rows = [sizes(each.pid) for each in started]
        rss, pss, private = (sum(row[at] for row in rows) / count for at in range(3))
        table.add_row(
            str(count),
            *(f"{rss / 1e6:.1f}", f"{rss / model:.2f}", f"{pss / 1e6:.1f}", f"{pss / model:.2f}"),
            *(f"{private / 1e6:.1f}", f"{pss * count / 1e6:.1f}"),
        )
    for each in started:
        each.communicate()
    Console(width=120).print(f"model: {model / 1e6:.1f} MB; in MB:", table)


def start(program: Path) -> subprocess.Popen[bytes]:
    """A program that has given its first vector and waits."""
    process = subprocess.Popen(
        [program, "--out=jsonl", "--threads=1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={}
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(TEXT)
    process.stdin.flush()
    process.stdout.readline()
    return process


def sizes(process: int) -> tuple[int, int, int]:
    """Bytes: resident, proportional, private."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]
    said = {name: int(words.split()[0]) * 1024 for name, _, words in (line.partition(":") for line in lines)}
    return said["Rss"], said["Pss"], said["Private_Dirty"] + said["Private_Clean"]


if __name__ == "__main__":
    main()
