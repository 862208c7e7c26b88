"""Making a GPU ready: ``--warmup`` runs every shape that matters, lets the provider save what it made, and checks it.

A provider compiles kernels for the device's own GPU when a shape comes for the first time, and may keep them in the
user's cache (TensorRT-RTX its runtime cache, when a session ends; TensorRT its engine and timings). Where the processor
computes nothing is compiled and nothing kept: that is said, and the golden vectors are compared all the same.
"""

from __future__ import annotations

import os
from time import perf_counter

from ..base.bundle import Bundle
from ..model.loaded import CPU
from .load import load
from .self_test import compare_golden

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from ..model.embedder import Embedder

LENGTHS = (16, 64, 256)
"""Tokens of a text, as far as the model takes them, and as many as it takes."""
ROUNDS = 3
STEADY = 0.9
"""A round that takes more of the one before it than this: nothing is being compiled any more."""
SECONDS = 60


def warm_up(bundle: Bundle, options: Namespace) -> dict[str, Any]:
    """Load, run the shapes, compare with the golden vectors, close; what that took and what is kept now.

    Raises what ``self_test.run`` raises.
    """
    start = perf_counter()
    embedder = load(bundle, options)
    loaded = perf_counter()
    shapes = [] if embedder.model.provider == CPU else shapes_of(embedder, bundle.max_length)
    rounds = run_until_steady(embedder, shapes)
    compared = compare_golden(bundle, embedder)
    folders = embedder.model.cache
    # What the provider keeps it writes when the session ends.
    embedder.close()
    return {
        **compared,
        "load_seconds": round(loaded - start, 2),
        "shapes": [list(shape) for shape in shapes],
        "round_seconds": [round(seconds, 3) for seconds in rounds],
        "cache": [{"folder": folder, **folder_totals(folder)} for folder in folders],
    }


def run_until_steady(embedder: Embedder, shapes: list[tuple[int, int]]) -> list[float]:
    """Seconds of each round through the shapes.

    TensorRT-RTX compiles a shape's own kernels in the background while others do the work (``kLAZY``:
    https://docs.nvidia.com/deeplearning/tensorrt-rtx/latest/inference-library/work-with-dynamic-shapes.html), so that a
    session that ended after one round might have nothing to keep.
    """
    rounds: list[float] = []
    while shapes and (len(rounds) < ROUNDS or (rounds[-1] < STEADY * rounds[-2] and sum(rounds) < SECONDS)):
        start = perf_counter()
        for batch, length in shapes:
            run(embedder, batch, length)
        rounds.append(perf_counter() - start)
    return rounds


def shapes_of(embedder: Embedder, longest: int) -> list[tuple[int, int]]:
    """Batches that are run: one text, as many as usual and as many as can be, of a few lengths."""
    sizes = sorted({1, embedder.batch_size, embedder.model.largest_batch or embedder.batch_size})
    lengths = sorted({min(length, longest) for length in (*LENGTHS, longest)})
    return [(size, length) for size in sizes for length in lengths]


def run(embedder: Embedder, batch: int, length: int) -> None:
    token = (embedder.tokenizer.encode(["a"])[0][0] * 2)[1]
    embedder.embed_batch([([token] * length, [0] * length)] * batch)


def folder_totals(folder: str) -> dict[str, int]:
    """How many files a folder holds, and bytes."""
    sizes = []
    for place, _, names in os.walk(folder):
        sizes += [os.stat(os.path.join(place, name)).st_size for name in names]
    return {"files": len(sizes), "bytes": sum(sizes)}


def text_of(result: dict[str, Any]) -> str:
    """For eyes."""
    lines = [
        first_line(result),
        f"{result['texts']} texts, lowest cosine {result['min_cosine']:.6f} (at least {result['tolerance']})",
    ]
    lines += [
        f"kept in {each['folder']}: {each['files']} files, {each['bytes'] / 1e6:.1f} MB"
        for each in result["cache"]
    ]
    return "\n".join(lines) + "\n"


def first_line(result: dict[str, Any]) -> str:
    """What was made ready, or why there was nothing to be."""
    if not result["shapes"]:
        why = (
            f"{result['provider']} computes, because {result['instead']}"
            if "instead" in result
            else "this bundle is for the CPU"
        )
        return f"nothing to warm up: {why}; nothing is compiled or cached"
    head = f"warmed up on {result['provider']} ({result['device']}): loaded in {result['load_seconds']} s, "
    rounds = result["round_seconds"]
    return f"{head}{len(result['shapes'])} shapes {len(rounds)} times, in {rounds[0]} s at first and {rounds[-1]} s at last"
