"""The engine's int8 product kernel beside what the core can do: products of bytes a second, and the share of VNNI's peak.

    .venv/bin/python benchmarks/engine_peak.py

The shapes are all-MiniLM-L6-v2's. Each round times a loop of independent vpdpbusd that touch no memory, and then each shape's kernel, so that
both meet the same clock and the same neighbours. A share is the median of the rounds'. The machine should have nothing else to do; processor time is
counted, on one thread. Weights and rows are in the cache after the first call, as between two attentions, which take 96 rows at a time.
"""

import argparse
import ctypes
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.support.engine_kernels import COMPILER, SHARED, Product, has_level, place  # noqa: E402
from tests.support.native import compile_apart  # noqa: E402

from edgepack_engine.builder import sources  # noqa: E402
from edgepack_engine.plan import Activation, packed  # noqa: E402

SHAPES = ((384, 384), (384, 1536), (1536, 384))
"""Depth and width: of attention's parts and of its result, and of the two products of a feed-forward."""
ROWS = (8, 64, 256)
SECONDS = 0.02
"""That one measurement takes, about."""
LEVELS = {"avx512": 64, "avxvnni": 32}
"""Products that an instruction of a level makes."""


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--rounds", type=int, default=21)
    made.add_argument("--level", choices=LEVELS, default=next(filter(has_level, LEVELS), None))
    options = made.parse_args()
    if options.level is None or not has_level(options.level):
        made.error("this processor has neither AVX-512 VNNI nor AVX-VNNI")
    with tempfile.TemporaryDirectory() as folder:
        library = ctypes.CDLL(str(compiled(Path(folder), options.level)))
        library.peak.restype = library.product.restype = ctypes.c_double
        peaks, shares = measured(library, options.level, options.rounds)
    table = Table(
        "depth x width", *(f"{rows} rows" for rows in ROWS), title=f"{options.level}: share of the peak"
    )
    for depth, width in SHAPES:
        row = [statistics.median(shares[depth, width, rows]) for rows in ROWS]
        table.add_row(f"{depth} x {width}", *(f"{share:.0%}" for share in row))
    console = Console()
    console.print(table)
    low, high = min(peaks) / 1e9, max(peaks) / 1e9
    console.print(
        f"peak: {statistics.median(peaks) / 1e9:.0f} billion products a second ({low:.0f} to {high:.0f})"
    )


def compiled(folder: Path, level: str) -> Path:
    """Both levels: the program names them."""
    names = (*SHARED, *(f"kernels_{name}.cc" for name in LEVELS))
    chosen = {name: text for name, text in sources() if name in names}
    own = Path(__file__).with_suffix(".cc")
    chosen[own.name] = own.read_text(encoding="utf-8")
    return compile_apart(chosen, folder / "peak.so", "-O2", "-shared", "-fPIC", by=COMPILER)


def measured(
    library: Any, level: str, rounds: int
) -> tuple[list[float], dict[tuple[int, int, int], list[float]]]:
    """Products a second at the peak of each round, and each shape's share of them."""
    wide = ctypes.c_bool(level == "avx512")
    tasks = {(depth, width, rows): task_of(depth, width, rows) for depth, width in SHAPES for rows in ROWS}
    peaks: list[float] = []
    shares: dict[tuple[int, int, int], list[float]] = {shape: [] for shape in tasks}
    # About 2e9 vectors a second.
    times = int(SECONDS * 2e9 / 12)
    for number in range(rounds + 1):
        peak = 12 * LEVELS[level] * times / library.peak(wide, ctypes.c_size_t(times))
        for shape, (task, _) in tasks.items():
            products = int(np.prod(shape))
            again = max(1, int(SECONDS * peak / products))
            seconds = library.product(wide, ctypes.c_size_t(again), ctypes.byref(task))
            if number:  # The first warms up.
                shares[shape].append(products * again / seconds / peak)
        if number:
            peaks.append(peak)
    return peaks, shares


def task_of(depth: int, width: int, rows: int) -> tuple[Product, list[Any]]:
    """A product of random bytes, without activation, and the arrays that it names."""
    chance = np.random.default_rng(depth + width + rows)
    weights = chance.integers(-64, 65, (depth, width)).astype(np.int8)
    given = [
        chance.integers(0, 256, (rows, depth)).astype(np.uint8),
        np.ones(rows, "<f4"),
        packed(weights),
        weights.sum(axis=0, dtype="<i4"),
        np.full(width, 1e-4, "<f4"),
        np.zeros(width, "<f4"),
        np.empty((rows, width), "<f4"),
    ]
    x, ranges, columns, sums, scales, bias, output = map(place, given)
    task = Product(
        x, ranges, columns, sums, 128, scales, bias, output, rows, depth, width, int(Activation.LINEAR)
    )
    return task, given


if __name__ == "__main__":
    main()
