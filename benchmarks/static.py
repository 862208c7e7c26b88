"""How many texts a second a bundle of static embeddings embeds on one core, beside model2vec and sentence-transformers.

    python benchmarks/static.py dist/MODEL-linux-x86-static --model FOLDER

The bundle's times include starting, reading and tokenizing the texts, and writing raw vectors; the peers' include neither
importing nor loading. Rounds alternate; each figure is the median, and so is each ratio, of pairs of one round.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from edgepack.verifier.gate import verification_texts

WORDS = 12
"""A text is that long at most: short ones are what tables are for."""


def short_texts(count: int) -> list[str]:
    texts = [" ".join(text.split()[:WORDS]) for text in verification_texts()]
    return [texts[at % len(texts)] for at in range(count)]


def of_bundle(bundle: Path, texts: Sequence[str]) -> Callable[[], Any]:
    lines = "".join(f"{text}\n" for text in texts).encode()
    command: list[str | Path] = [bundle.absolute() / "embed", "--threads", "1", "--out", "raw"]
    return lambda: subprocess.run(command, input=lines, stdout=subprocess.DEVNULL, check=True)


def peers(model: Path, texts: Sequence[str]) -> dict[str, Callable[[], Any]]:
    """Those that are installed and take the model."""
    found: dict[str, Callable[[], Any]] = {}
    try:
        from model2vec import StaticModel

        static = StaticModel.from_pretrained(model, force_download=False)
        found["model2vec"] = lambda: static.encode(list(texts), use_multiprocessing=False)
    except ImportError:
        pass
    try:
        from sentence_transformers import SentenceTransformer

        if (model / "modules.json").is_file():
            whole = SentenceTransformer(str(model), device="cpu")
            found["sentence-transformers"] = lambda: whole.encode(list(texts), batch_size=1024)
    except ImportError:
        pass
    return found


def seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--model", type=Path, help="the model's folder, for the peers")
    parser.add_argument("--texts", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    # One core for everybody; threads of libraries then only wait for each other.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.environ |= {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    texts = short_texts(given.texts)
    named = {"bundle": of_bundle(given.bundle, texts)}
    named |= peers(given.model, texts) if given.model else {}
    times: dict[str, list[float]] = {name: [] for name in named}
    for _ in range(given.rounds + 1):
        for name, work in named.items():
            times[name].append(seconds(work))
    result = {
        name: {
            "texts_per_second": round(given.texts / statistics.median(each[1:])),
            "bundle_faster_by": round(
                statistics.median(a / b for a, b in zip(each[1:], times["bundle"][1:], strict=True)), 2
            ),
        }
        for name, each in times.items()
    }
    sys.stdout.write(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
