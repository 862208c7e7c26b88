"""The recipes on all-MiniLM-L6-v2 in one run: size, download, quality, and time beside PyTorch and stock ONNX Runtime.

    .venv/bin/python benchmarks/recipes.py                       # this processor as it is
    .venv/bin/python benchmarks/recipes.py --library LIB         # on another library, e.g. one linked for AVX2 alone
    .venv/bin/python benchmarks/recipes.py --recipes int8 int4   # some of the recipes

Times are CPU milliseconds of a run of texts of 32 tokens each on one thread, the candidates taking turns round by round,
each round in a fresh process; the smallest of the medians. ``x`` is how many times as fast as stock ONNX Runtime's fp32.
Quality is that of the gate: cosines on 200 texts, and recall@10 on WordNet's glosses with ``--retrieval``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import onnxruntime
import zstandard
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from edgepack.bundle.verify import verification_texts
from edgepack.console import Story
from edgepack.models.reference import embed_with_onnxruntime, exported_model
from edgepack.models.source import ingest
from edgepack.plugins.context import HostContext, host_context
from edgepack.recipes.prepare import prepare_model
from edgepack.recipes.quality import measure_quality
from edgepack.recipes.registry import RECIPES
from edgepack.records import ModelOptions, ModelSource, Verification

BATCHES = (1, 8, 32)
TOKENS = 32
ROUNDS = 5
STOCK = "ONNX fp32, stock"
PYTORCH = "PyTorch fp32"

TIMER = """
import json, statistics, sys, time
kind, model, library, batch, tokens = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
row = [101] + [2000 + 7 * i for i in range(tokens - 2)] + [102]
if kind == "torch":
    import torch
    from transformers import AutoModel
    torch.set_num_threads(1)
    encoder = AutoModel.from_pretrained(model).eval()
    ids = torch.tensor([row] * batch)
    def run():
        with torch.no_grad():
            encoder(input_ids=ids, attention_mask=torch.ones_like(ids))
else:
    import importlib.util
    spec = importlib.util.spec_from_file_location("ort", kind)
    ort = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(ort)
    session = ort.Session(library, model, threads=1)
    def run():
        session.run([row] * batch, [[1] * tokens] * batch, [[0] * tokens] * batch)
for _ in range(2):
    run()
times = []
while len(times) < 5 or sum(times) < 0.5:
    start = time.process_time()
    run()
    times.append(time.process_time() - start)
print(json.dumps(1000 * statistics.median(times)))
"""


@dataclass(kw_only=True)
class Contestant:
    """What is timed, and what is known of it."""

    name: str
    kind: str
    model: Path
    library: Path | None
    quality: Verification | None = None
    times: dict[int, list[float]] = field(default_factory=dict)

    def best(self, batch: int) -> float:
        return min(self.times[batch])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recipes", nargs="*", default=list(RECIPES), choices=list(RECIPES))
    parser.add_argument("--library", type=Path, default=_stock_library())
    parser.add_argument("--no-torch", action="store_true", help="leave PyTorch out")
    parser.add_argument("--retrieval", action="store_true", help="recall@10 on WordNet, too")
    arguments = parser.parse_args()
    with host_context(story=Story()) as context:
        source = ingest(None, context=context)
        contestants = _contestants(source, arguments, context)
        for _ in range(ROUNDS):
            for batch in BATCHES:
                for each in contestants:
                    each.times.setdefault(batch, []).append(_measure(each, batch))
    Console(width=150).print(_table(contestants))


def _contestants(
    source: ModelSource, arguments: argparse.Namespace, context: HostContext
) -> list[Contestant]:
    binding = find_spec("edgepack.runner.frozen.ort")
    assert binding is not None and binding.origin is not None
    found = [
        Contestant(
            name=STOCK,
            kind=binding.origin,
            model=exported_model(source, context=context),
            library=arguments.library,
        )
    ]
    if not arguments.no_torch:
        found.insert(0, Contestant(name=PYTORCH, kind="torch", model=source.directory, library=None))
    for recipe in arguments.recipes:
        made = prepare_model(source, options=ModelOptions(recipe=recipe), context=context)
        quality = measure_quality(
            lambda texts, made=made: embed_with_onnxruntime(made.file, made.source, texts),  # type: ignore[misc]
            source,
            verification_texts(),
            full=arguments.retrieval,
            context=context,
        )
        found.append(
            Contestant(
                name=recipe, kind=binding.origin, model=made.file, library=arguments.library, quality=quality
            )
        )
    return found


def _measure(contestant: Contestant, batch: int) -> float:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            TIMER,
            contestant.kind,
            contestant.model,
            contestant.library or "",
            str(batch),
            str(TOKENS),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(json.loads(done.stdout))


def _table(contestants: list[Contestant]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in ("", "MB", "MB zstd", "mean cosine", "min", "nearest", "batch", "recall@10"):
        table.add_column(column, justify="right" if column else "left")
    for batch in BATCHES:
        table.add_column(f"{batch}: ms", justify="right")
        table.add_column("x", justify="right")
    stock = next(each for each in contestants if each.name == STOCK)
    for each in contestants:
        timed = [
            cell
            for batch in BATCHES
            for cell in (f"{each.best(batch):.2f}", f"{stock.best(batch) / each.best(batch):.2f}")
        ]
        table.add_row(each.name, *_sizes(each), *_quality(each.quality), *timed)
    return table


def _sizes(contestant: Contestant) -> tuple[str, str]:
    if contestant.model.is_dir():
        return "", ""
    content = contestant.model.read_bytes()
    return f"{len(content) / 1e6:.2f}", f"{len(zstandard.compress(content, 19)) / 1e6:.2f}"


def _quality(found: Verification | None) -> tuple[str, ...]:
    if found is None:
        return ("",) * 5
    retrieval = found.retrieval
    recall = f"{retrieval.recall:.1%} ({retrieval.recall_fp32:.1%})" if retrieval else ""
    return (
        f"{found.mean_cosine:.5f}",
        f"{found.min_cosine:.4f}",
        f"{found.neighbour_agreement:.1%}",
        f"{found.batch_cosine:.5f}",
        recall,
    )


def _stock_library() -> Path:
    return Path(onnxruntime.__file__).parent / "capi" / f"libonnxruntime.so.{onnxruntime.__version__}"


if __name__ == "__main__":
    main()
