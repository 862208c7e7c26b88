"""How fast this device is: ``--bench``."""

from __future__ import annotations

from time import perf_counter

from ..base.bundle import Bundle
from .load import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from ..model.embedder import Embedder

SECONDS = 0.3
"""How long each kind of text is measured."""
LENGTHS = (8, 32, 128)
"""Tokens of a text, special ones included, as far as the model takes them."""
BATCHES = 8
"""Batches at once where throughput is measured."""


def measure(bundle: Bundle, options: Namespace) -> dict[str, Any]:
    """Milliseconds to load; a text alone, and texts a second in batches, for each length; megabytes in use."""
    start = perf_counter()
    embedder = load(bundle, options)
    loaded = perf_counter()
    embedder.embed(["a"])
    first = perf_counter()
    lengths = sorted({min(length, bundle.max_length) for length in LENGTHS})
    rows = [measure_length(embedder, length) for length in lengths]
    embedder.finish()
    return {
        **embedder.model.about(),
        "threads": embedder.threads,
        "batch_size": embedder.batch_size,
        "load_ms": round((loaded - start) * 1e3, 1),
        "first_vector_ms": round((first - start) * 1e3, 1),
        "lengths": rows,
        **memory(),
    }


def measure_length(embedder: Embedder, length: int) -> dict[str, Any]:
    """Median milliseconds of one text alone, and texts a second of ``BATCHES`` full batches after each other."""
    token = (embedder.tokenizer.encode(["a"])[0][0] * 2)[1]
    row = ([token] * length, [0] * length)
    alone = repeat(embedder, [row])
    together = [row] * (embedder.batch_size * BATCHES)
    return {
        "tokens": length,
        "text_ms": round(alone[len(alone) // 2] * 1e3, 2),
        "texts_per_second": round(len(together) / min(repeat(embedder, together)), 1),
    }


def repeat(embedder: Embedder, rows: list[tuple[list[int], list[int]]]) -> list[float]:
    """Seconds of each run, sorted; three runs at least."""
    embedder.embed_tokens(rows)
    times: list[float] = []
    while len(times) < 3 or sum(times) < SECONDS:
        start = perf_counter()
        embedder.embed_tokens(rows)
        times.append(perf_counter() - start)
    return sorted(times)


def memory() -> dict[str, float]:
    """Resident memory now and at its highest, from /proc where there is one."""
    try:
        with open("/proc/self/status") as status:
            said = dict(line.split(":", 1) for line in status)
        names = {"resident_mb": "VmRSS", "peak_mb": "VmHWM"}
        return {name: round(int(said[key].split()[0]) * 1024 / 1e6, 1) for name, key in names.items()}
    except (OSError, KeyError, ValueError):
        return {}


def text_of(measured: dict[str, Any]) -> str:
    """For eyes."""
    start = f"load {measured['load_ms']} ms, first vector after {measured['first_vector_ms']} ms"
    lines = [f"{start}; {measured['threads']} threads, batches of {measured['batch_size']}"]
    if "provider" in measured:
        lines.append(
            f"on {measured['provider']}" + (f" ({measured['device']})" if "device" in measured else "")
        )
    if "resident_mb" in measured:
        lines.append(f"resident memory {measured['resident_mb']} MB, {measured['peak_mb']} MB at peak")
    lines += [
        f"{row['tokens']:5} tokens: {row['text_ms']:8.2f} ms per single text, {row['texts_per_second']:8.1f} texts/s in batches"
        for row in measured["lengths"]
    ]
    return "\n".join(lines) + "\n"
