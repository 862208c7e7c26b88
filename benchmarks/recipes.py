"""The recipes on all-MiniLM-L6-v2 in one run: size, download, quality, and time beside PyTorch and stock ONNX Runtime.

    python benchmarks/recipes.py                       # quality, then time, on this processor as it is
    python benchmarks/recipes.py --avx2 --no-torch     # with the stock library's AVX-512 kernels switched off
    python benchmarks/recipes.py --recipes int8 int4   # some of the recipes
    python benchmarks/recipes.py --only quality --keep results.json     # in two portions: what does not need
    python benchmarks/recipes.py --only time --keep results.json        # a quiet machine, and what does

Times are CPU milliseconds of a run of texts of 32 tokens each on one thread, the candidates taking turns round by round,
each round in a fresh process; the smallest of the medians. ``x`` is how many times as fast as stock ONNX Runtime's fp32.
Quality is that of the gate: cosines on 200 texts, the lowest cosine of a text alone and among 31 others, how well
words of WordNet find their glosses, and Spearman's correlation on STSBenchmark's test set.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnxruntime
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from edgepack.console import Story
from edgepack.models.find.source import ingest
from edgepack.models.reference import cached_reference, embed_with_onnxruntime, exported_model
from edgepack.plugins.context import HostContext, host_context
from edgepack.recipes.prepare import prepare_model
from edgepack.records.model import ModelSource
from edgepack.records.target import ModelOptions
from edgepack.toml_schema import load_toml
from edgepack.verifier.gate import verification_texts
from edgepack.verifier.tasks.sts import sts_task
from edgepack.verifier.vector_quality import measure_quality, measure_retrieval

if TYPE_CHECKING:
    from collections.abc import Sequence

RECIPES = tuple(load_toml(files("edgepack.recipes") / "recipes.toml"))
BATCHES = (1, 8, 32)
TOKENS = 32
ROUNDS = 3
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
    import numpy, pathlib
    from edgepack.models.ort.c_api import Session
    session = Session(library, pathlib.Path(model), threads=1)
    text = {"input_ids": row, "attention_mask": [1] * tokens, "token_type_ids": [0] * tokens}
    feed = {each.name: numpy.array([text[each.name]] * batch, each.dtype) for each in session.get_inputs()}
    output = [session.get_outputs()[0].name]
    def run():
        session.run(output, feed)
for _ in range(2):
    run()
times = []
while len(times) < 5 or sum(times) < 0.5:
    start = time.process_time()
    run()
    times.append(time.process_time() - start)
print(json.dumps(1000 * statistics.median(times)))
"""


AVX512_ASKED = bytes.fromhex("41f7c20000010074")
"""``test r10d, 1 << 16`` (AVX-512F) and ``je`` in MLAS's choice of kernels, as ONNX Runtime 1.21.0's wheel has it."""
NEVER = bytes.fromhex("41f7c200000100eb")
"""The same with ``jmp``: a processor without AVX-512."""


@dataclass(kw_only=True)
class Contestant:
    """What is timed, and what is known of it."""

    name: str
    kind: str
    model: Path
    bytes: int | None = None
    quality: dict[str, Any] | None = None
    times: dict[str, list[float]] = field(default_factory=dict)

    def best(self, batch: int) -> float:
        return min(self.times[str(batch)])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recipes", nargs="*", default=list(RECIPES), choices=list(RECIPES))
    parser.add_argument("--no-torch", action="store_true", help="leave PyTorch out")
    parser.add_argument("--avx2", action="store_true", help="without AVX-512, whatever the processor has")
    parser.add_argument("--only", choices=["quality", "time"], help="one portion")
    parser.add_argument("--keep", type=Path, help="read and write what was measured, as JSON")
    parser.add_argument("--glosses", type=int, default=5000)
    parser.add_argument("--words", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args()
    kept = json.loads(arguments.keep.read_text()) if arguments.keep and arguments.keep.exists() else {}
    with host_context(story=Story()) as context, tempfile.TemporaryDirectory() as folder:
        source = ingest(None, context=context)
        contestants = _contestants(source, arguments, context)
        for each in contestants:
            for name, value in kept.get(each.name, {}).items():
                setattr(each, name, value)
        if arguments.only != "time":
            for each in contestants:
                if each.bytes is None:
                    _judge(each, source, arguments, context)
                _keep(contestants, kept, arguments)
        if arguments.only != "quality":
            library = _without_avx512(Path(folder)) if arguments.avx2 else _stock_library()
            _race(contestants, library, arguments.rounds)
            _keep(contestants, kept, arguments)
    Console(width=200).print(_table(contestants))


def _contestants(
    source: ModelSource, arguments: argparse.Namespace, context: HostContext
) -> list[Contestant]:
    found = [Contestant(name=STOCK, kind="onnxruntime", model=exported_model(source, context=context))]
    if not arguments.no_torch:
        found.insert(0, Contestant(name=PYTORCH, kind="torch", model=source.directory))
    for recipe in arguments.recipes:
        made = prepare_model(source, options=ModelOptions(recipe=recipe), context=context)
        found.append(Contestant(name=recipe, kind="onnxruntime", model=made.file))
    return found


def _judge(
    each: Contestant, source: ModelSource, arguments: argparse.Namespace, context: HostContext
) -> None:
    """Sizes and quality; PyTorch's are those of the weights alone."""
    weights = source.directory / "model.safetensors" if each.kind == "torch" else each.model
    each.bytes = weights.stat().st_size
    if each.kind == "torch":
        return

    def embed(texts: Sequence[str], batch_size: int = 1) -> Any:
        return embed_with_onnxruntime(each.model, source, texts, batch_size=batch_size)

    quality = measure_quality(
        embed,
        source,
        verification_texts(),
        together=lambda texts: embed(texts, len(texts)),
        context=context,
    )
    retrieval = measure_retrieval(
        embed,
        partial(cached_reference, source, context=context),
        source.prompts,
        glosses=arguments.glosses,
        words=arguments.words,
        context=context,
    )
    task = sts_task(context=context)
    each.quality = {**asdict(quality), "retrieval": asdict(retrieval), "sts": task.score(embed(task.texts))}
    context.note(f"{each.name}: mean cosine {quality.mean_cosine:.5f}, recall@10 {retrieval.recall:.4f}")


def _race(contestants: list[Contestant], library: Path, rounds: int) -> None:
    for each in contestants:
        each.times = {str(batch): [] for batch in BATCHES}
    for _ in range(rounds):
        for batch in BATCHES:
            for each in contestants:
                each.times[str(batch)].append(_measure(each, library, batch))


def _keep(contestants: list[Contestant], kept: dict[str, Any], arguments: argparse.Namespace) -> None:
    if arguments.keep:
        names = ("bytes", "quality", "times")
        found = {each.name: {name: getattr(each, name) for name in names} for each in contestants}
        arguments.keep.write_text(json.dumps({**kept, **found}, indent=1))


def _measure(contestant: Contestant, library: Path, batch: int) -> float:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            TIMER,
            contestant.kind,
            contestant.model,
            library,
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
    columns = ("MB", "mean cosine", "p1", "min", "nearest", "alone/among 31", "recall@10", "MRR", "STS-B")
    table.add_column("")
    for column in columns:
        table.add_column(column, justify="right")
    for batch in BATCHES:
        table.add_column(f"{batch}: ms", justify="right")
        table.add_column("x", justify="right")
    for each in contestants:
        table.add_row(
            each.name,
            _megabytes(each.bytes),
            *_quality(each),
            *_times(each, contestants),
        )
    return table


def _times(each: Contestant, contestants: list[Contestant]) -> list[str]:
    stock = next(other for other in contestants if other.name == STOCK)
    if not each.times:
        return [""] * 2 * len(BATCHES)
    return [
        cell
        for batch in BATCHES
        for cell in (f"{each.best(batch):.2f}", f"{stock.best(batch) / each.best(batch):.2f}")
    ]


def _megabytes(size: int | None) -> str:
    return f"{size / 1e6:.2f}" if size else ""


def _quality(each: Contestant) -> list[str]:
    if each.quality is None:
        return [""] * 8
    found, retrieval = each.quality, each.quality["retrieval"]
    return [
        f"{found['mean_cosine']:.5f}",
        f"{found['p1_cosine']:.4f}",
        f"{found['min_cosine']:.4f}",
        f"{found['neighbour_agreement']:.1%}",
        f"{found['batch_cosine']:.5f}",
        f"{retrieval['recall']:.2%}",
        f"{retrieval['mrr']:.4f}",
        f"{each.quality['sts']:.4f}",
    ]


def _stock_library() -> Path:
    return Path(onnxruntime.__file__).parent / "capi" / f"libonnxruntime.so.{onnxruntime.__version__}"


def _without_avx512(folder: Path) -> Path:
    """A copy of the stock library that takes this processor for one without AVX-512."""
    if "avx_vnni" in Path("/proc/cpuinfo").read_text().split():
        raise SystemExit("this processor has AVX-VNNI, which would stay: its figures would not be AVX2's")
    content = _stock_library().read_bytes()
    if content.count(AVX512_ASKED) != 1:
        raise SystemExit("this is not the library of onnxruntime 1.21.0's wheel for x86-64")
    library = folder / "libonnxruntime.so"
    library.write_bytes(content.replace(AVX512_ASKED, NEVER))
    return library


if __name__ == "__main__":
    main()
