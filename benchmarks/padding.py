"""What padding costs: the same texts shuffled and sorted by length, through a bundle's command, library and server.

    .venv/bin/python benchmarks/padding.py dist/all-MiniLM-L6-v2-linux-x86-min --rounds 6

Texts are of one to eight WordNet glosses each. For each way and batch size the two orders go in turns, and each pair makes a ratio of
processor time (shuffled over sorted, 1 is best); printed are the medians. Time to load the model is in neither side of the ratio:
a run of one text is taken off.
"""

import argparse
import atexit
import ctypes
import json
import os
import random
import resource
import statistics
import subprocess
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from edgepack.bundles.manifest import open_bundle
from edgepack.console import Story
from edgepack.plugins.context import host_context
from edgepack.records.bundle import Bundle
from edgepack.verifier.tasks.wordnet import retrieval_task

SEED = 7
MOST = 8
"""Glosses of a text."""
SIZES = (0, 1, 8, 32)
"""Of batches; 0: none is asked for."""

Work = Callable[[Sequence[str]], float]
"""Texts embedded → seconds of processor time."""


class Options(ctypes.Structure):
    """``embed_options`` of embed.h, as far as it is needed."""

    _fields_ = (
        ("batch_size", ctypes.c_size_t),
        ("max_length", ctypes.c_size_t),
        ("dimension", ctypes.c_size_t),
        ("threads", ctypes.c_int),
        ("prefix", ctypes.c_char_p),
        ("check", ctypes.c_int),
        ("public_key", ctypes.c_char_p),
    )


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("bundle", type=Path)
    made.add_argument("--texts", type=int, default=1800)
    made.add_argument("--rounds", type=int, default=6)
    options = made.parse_args()
    bundle = open_bundle(options.bundle)
    texts = texts_of(options.texts)
    table = Table(
        "way",
        *(f"batch {size or 'default'}" for size in SIZES),
        title="processor time, shuffled over sorted: median (of all rounds)",
    )
    ways = {"command": command, "library": library, "server": server}
    if not (bundle.directory / "lib/libembed.so").is_file():
        del ways["library"]
    for name, way in ways.items():
        row = [ratios(way(bundle, size), texts, options.rounds) for size in SIZES]
        table.add_row(name, *row)
    Console(width=110).print(table)


def texts_of(count: int) -> list[str]:
    """Shuffled ones."""
    with host_context(story=Story(quiet=True)) as context:
        glosses = retrieval_task(glosses=count, words=1, context=context).glosses
    chance = random.Random(SEED)
    return [" ".join(chance.choices(glosses, k=chance.randint(1, MOST))) for _ in range(count)]


def ratios(work: Work, texts: Sequence[str], rounds: int) -> str:
    """Median of pairs, and the least and the largest."""
    ordered = sorted(texts, key=len)
    start = statistics.median(work(texts[:1]) for _ in range(3))
    found = []
    for turn in range(rounds):
        pair = (texts, ordered) if turn % 2 else (ordered, texts)
        taken = {id(each): work(each) - start for each in pair}
        found.append(taken[id(texts)] / taken[id(ordered)])
    return f"{statistics.median(found):.3f} ({min(found):.2f} to {max(found):.2f})"


def command(bundle: Bundle, size: int) -> Work:
    """The program of the bundle, which reads a pipe."""
    words = [str(bundle.program), "--out=raw", *([f"--batch-size={size}"] if size else [])]

    def work(texts: Sequence[str]) -> float:
        before = children()
        lines = "".join(f"{text}\n" for text in texts).encode()
        subprocess.run(words, input=lines, stdout=subprocess.DEVNULL, env={}, check=True)
        return children() - before

    return work


def library(bundle: Bundle, size: int) -> Work:
    """Its C library, which takes all texts at once."""
    api = ctypes.CDLL(str(bundle.directory / "lib/libembed.so"))
    opened, error = ctypes.c_void_p(), ctypes.create_string_buffer(256)
    wishes = Options(batch_size=size)
    where = os.fsencode(bundle.directory)
    if api.embed_open(where, ctypes.byref(wishes), ctypes.byref(opened), error, ctypes.c_size_t(256)):
        raise SystemExit(error.value.decode())
    api.embed_dimension.restype = ctypes.c_size_t

    def work(texts: Sequence[str]) -> float:
        given = (ctypes.c_char_p * len(texts))(*(text.encode() for text in texts))
        vectors = (ctypes.c_float * (len(texts) * api.embed_dimension(opened)))()
        before = time.process_time()
        if api.embed_texts(
            opened, given, None, ctypes.c_size_t(len(texts)), vectors, error, ctypes.c_size_t(256)
        ):
            raise SystemExit(error.value.decode())
        return time.process_time() - before

    return work


def server(bundle: Bundle, size: int) -> Work:
    """Its server, which gets one request of all texts."""
    words = [str(bundle.program), "serve", "--port=0", *([f"--batch-size={size}"] if size else [])]
    started = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env={})
    atexit.register(started.kill)
    assert started.stderr is not None
    address = next(word for line in started.stderr for word in line.split() if word.startswith("http://"))

    def work(texts: Sequence[str]) -> float:
        body = json.dumps({"input": texts}).encode()
        request = urllib.request.Request(
            address.rstrip(",/") + "/v1/embeddings", data=body, headers={"Content-Type": "application/json"}
        )
        before = taken_by(started.pid)
        with urllib.request.urlopen(request) as answer:
            answer.read()
        return taken_by(started.pid) - before

    return work


def taken_by(process: int) -> float:
    """Seconds of processor time that a process took."""
    words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
