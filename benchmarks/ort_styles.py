"""The two styles of ORT format on the CPU provider: everything optimized beforehand, or what a provider may choose left open.

    python benchmarks/ort_styles.py [--rounds N]

all-MiniLM-L6-v2 as exported, by recipe ``int8``, and by ``int8-static``, whose QuantizeLinear/DequantizeLinear pairs are what saved
runtime optimizations are about. Each file is run by the stock library, one thread, 32 tokens, taking turns; CPU
milliseconds, the shortest of the rounds. *nodes* is how many the session runs, out of its profile.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time

import numpy as np
import onnx
import onnxruntime
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from edgepack.console import Story
from edgepack.errors import UnsupportedModelError
from edgepack.models.find.source import ingest
from edgepack.models.ort.convert import Level, convert_to_ort
from edgepack.models.ort.session import open_session, session_options
from edgepack.models.reference import exported_model
from edgepack.operators.config import operators_of_ort_model
from edgepack.plugins.context import HostContext, host_context
from edgepack.recipes.prepare import prepare_model
from edgepack.records.target import ModelOptions

TOKENS = 32
BATCHES = (1, 32)
RUNS = {1: 20, 32: 1}
STYLES: tuple[tuple[str, Level, bool], ...] = (
    ("fixed, all", "all", False),
    ("fixed, extended", "extended", False),
    ("fixed, basic", "basic", False),
    ("fixed, none", "none", False),
    ("runtime", "all", True),
)


@dataclass(kw_only=True)
class Row:
    """A file, and what was measured of it."""

    model: str
    style: str
    file: Path
    load: list[float] = field(default_factory=list)
    times: dict[int, list[float]] = field(default_factory=lambda: {batch: [] for batch in BATCHES})


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    with host_context(story=Story()) as context, tempfile.TemporaryDirectory() as folder:
        rows = list(_rows(Path(folder), context))
        for _ in range(rounds):
            for row in rows:
                _measure(row)
        Console(width=140).print(_table(rows, Path(folder)))


def _rows(folder: Path, context: HostContext) -> Iterator[Row]:
    source = ingest(None, context=context)
    models = {"as exported": exported_model(source, context=context)}
    for recipe in ("int8", "int8-static"):
        options = ModelOptions(recipe=recipe, format="onnx")
        models[recipe] = prepare_model(source, options=options, context=context).file
    for name, file in models.items():
        model = onnx.load(str(file))
        for at, (style, level, runtime) in enumerate(STYLES):
            destination = folder / f"{name}-{at}.ort"
            try:
                convert_to_ort(model, destination, level=level, runtime_optimizations=runtime)
            except UnsupportedModelError as refused:
                context.note(f"{name}, {style}: {refused.message}")
            else:
                yield Row(model=name, style=style, file=destination)


def _measure(row: Row) -> None:
    options = session_options()
    options.intra_op_num_threads = 1
    start = process_time()
    session = open_session(row.file, options)
    row.load.append(1000 * (process_time() - start))
    for batch in BATCHES:
        feed = _feed(session, batch)
        session.run(None, feed)
        start = process_time()
        for _ in range(RUNS[batch]):
            session.run(None, feed)
        row.times[batch].append(1000 * (process_time() - start) / RUNS[batch])


def _feed(session: onnxruntime.InferenceSession, batch: int) -> dict[str, np.ndarray]:
    ids = np.tile(np.arange(TOKENS, dtype=np.int64) + 2000, (batch, 1))
    values = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    return {each.name: values[each.name] for each in session.get_inputs()}


def _nodes(file: Path, folder: Path) -> int:
    options = session_options()
    options.enable_profiling = True
    options.profile_file_prefix = str(folder / "profile")
    session = open_session(file, options)
    session.run(None, _feed(session, 1))
    events = json.loads(Path(session.end_profiling()).read_text())
    return sum(each.get("cat") == "Node" and each["name"].endswith("_kernel_time") for each in events)


def _table(rows: list[Row], folder: Path) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in (
        "model",
        "style",
        "MB",
        "kernels",
        "nodes",
        "load ms",
        *(f"{each}: ms" for each in BATCHES),
    ):
        table.add_column(column, justify="left" if column in ("model", "style") else "right")
    for row in rows:
        table.add_row(
            row.model,
            row.style,
            f"{row.file.stat().st_size / 1e6:.2f}",
            str(len(operators_of_ort_model(row.file))),
            str(_nodes(row.file, folder)),
            f"{min(row.load):.0f}",
            *(f"{min(row.times[batch]):.2f}" for batch in BATCHES),
        )
    return table


if __name__ == "__main__":
    main()
