"""A million lines through a bundle's program: memory stays flat, and every vector is that of its line.

    .venv/bin/python benchmarks/stream.py dist/all-MiniLM-L6-v2-linux-x86-min --lines 1000000

Lines are WordNet glosses in an order of chance; each vector that comes back is compared with the one that its text had at
first. The program's resident memory is read as the lines go by.
"""

import argparse
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from edgepack.bundles.manifest import open_bundle
from edgepack.console import Story
from edgepack.plugins.context import host_context
from edgepack.verifier.tasks.wordnet import retrieval_task

SEED = 7
CHUNK = 1000
ROWS = 12
"""Of the table."""


def main() -> None:
    options = arguments()
    bundle = open_bundle(options.bundle)
    with host_context(story=Story(quiet=True)) as context:
        texts = [
            text.encode() for text in retrieval_task(glosses=options.texts, words=1, context=context).glosses
        ]
    dimension = int(bundle.manifest["model"]["dimension"])
    command = [
        str(bundle.program),
        "--out=raw",
        f"--threads={options.threads}",
        f"--max-length={options.max_length}",
    ]
    done = subprocess.run(
        command, input=b"\n".join(texts) + b"\n", stdout=subprocess.PIPE, env={}, check=True
    )
    known = np.frombuffer(done.stdout, "<f4").reshape(len(texts), dimension)
    table, flat, wrong = stream(command, texts, known, options.lines)
    console = Console(width=110)
    console.print(table)
    console.print(
        f"{options.lines - wrong} of {options.lines} vectors are their line's; memory is {'flat' if flat else 'NOT FLAT'}"
    )
    sys.exit(0 if flat and not wrong else 1)


def arguments() -> argparse.Namespace:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("bundle", type=Path)
    made.add_argument("--lines", type=int, default=20_000, help="a multiple of 1000 (default: 20000)")
    made.add_argument("--texts", type=int, default=2_000, help="different ones among them (default: 2000)")
    made.add_argument("--max-length", type=int, default=16, help="tokens of a text (default: 16)")
    made.add_argument("--threads", type=int, default=2)
    return made.parse_args()


def stream(command: list[str], texts: list[bytes], known: np.ndarray, lines: int) -> tuple[Table, bool, int]:
    """A table of memory as the lines go by, whether that is flat, and how many vectors are not their line's."""
    chance = random.Random(SEED)
    order = [chance.randrange(len(texts)) for _ in range(lines)]
    table = Table("lines", "seconds", "resident MB", "highest MB")
    begin, wrong, samples = time.perf_counter(), 0, []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={}) as process:
        threading.Thread(target=feed, args=(process, texts, order), daemon=True).start()
        assert process.stdout
        for start in range(0, lines, CHUNK):
            data = process.stdout.read(CHUNK * known.shape[1] * 4)
            found = np.frombuffer(data, "<f4").reshape(-1, known.shape[1])
            wanted = known[order[start : start + CHUNK]]
            wrong += (
                CHUNK - int(((found * wanted).sum(axis=1) > 0.999).sum()) if len(found) == CHUNK else CHUNK
            )
            samples.append(memory_of(process.pid))
            if (start // CHUNK + 1) % max(1, lines // CHUNK // ROWS) == 0:
                resident, highest = samples[-1]
                seconds = time.perf_counter() - begin
                table.add_row(f"{start + CHUNK}", f"{seconds:.1f}", f"{resident:.1f}", f"{highest:.1f}")
    # The first tenth fills buffers; a tenth more than that afterwards would be growth.
    early = max(highest for _, highest in samples[: max(1, len(samples) // 10)])
    return table, samples[-1][1] < early * 1.1, wrong


def feed(process: subprocess.Popen[bytes], texts: list[bytes], order: list[int]) -> None:
    assert process.stdin
    for start in range(0, len(order), CHUNK):
        process.stdin.write(b"\n".join(texts[index] for index in order[start : start + CHUNK]) + b"\n")
    process.stdin.flush()


def memory_of(pid: int) -> tuple[float, float]:
    """Resident memory and its highest, MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    resident, highest = (int(status.partition(f"{key}:")[2].split()[0]) for key in ("VmRSS", "VmHWM"))
    return resident * 1024 / 1e6, highest * 1024 / 1e6


if __name__ == "__main__":
    main()
