"""A bundle's program beside fastembed and sentence-transformers on the same model, in one run.

    .venv/bin/pip install -e '.[benchmark]'          # or an environment of its own, named by --peers
    .venv/bin/python benchmarks/runner.py dist/all-MiniLM-L6-v2-linux-x86-min --peers PYTHON
    .venv/bin/python benchmarks/runner.py FROZEN-BUNDLE --beside NATIVE-BUNDLE --bundles-only
    .venv/bin/python benchmarks/runner.py WINDOWS-BUNDLE --beside LINUX-BUNDLE --bundles-only     # under wine

Every side is a process that turns lines into float32. They take turns, chunk by chunk, so that whatever else the machine
does meets all alike; seconds by the clock and seconds of processor time are both told, for on a busy machine only the latter
compare. fastembed gets the same model as fp32 ONNX from a folder, sentence-transformers the original weights on PyTorch; WordNet and
the model are fetched, where they are not in the cache. Servers are compared by ``benchmarks/servers.py``.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from edgepack.bundles.manifest import open_bundle
from edgepack.console import Story
from edgepack.models.find.source import ingest
from edgepack.plugins.context import HostContext, host_context
from edgepack.recipes.prepare import prepare_model
from edgepack.records.model import ModelSource
from edgepack.records.target import ModelOptions
from edgepack.verifier.tasks.wordnet import retrieval_task

CHUNK = 250
STARTS = 11
TICKS = os.sysconf("SC_CLK_TCK")

PEER = """
import os, sys
name, folder, threads, chunk = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
if name == "fastembed":
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType
    TextEmbedding.add_custom_model(
        model="local/model", pooling=PoolingType.DISABLED, normalization=False,
        sources=ModelSource(hf="local/model"), dim=int(sys.argv[5]), model_file="model.onnx",
    )
    model = TextEmbedding("local/model", threads=threads, specific_model_path=folder)
    embed = lambda texts: b"".join(v.astype("<f4").tobytes() for v in model.embed(texts, batch_size=32))
else:
    import torch
    torch.set_num_threads(threads)
    from sentence_transformers import SentenceTransformer
    model = SentenceTransformer(folder, device="cpu")
    embed = lambda texts: model.encode(texts, batch_size=32, show_progress_bar=False).astype("<f4").tobytes()
texts = []
for line in sys.stdin.buffer:
    texts.append(line.decode().rstrip("\\n"))
    if len(texts) == chunk:
        sys.stdout.buffer.write(embed(texts))
        sys.stdout.buffer.flush()
        texts = []
"""


@dataclass(frozen=True, kw_only=True)
class Side:
    """One way of turning lines into vectors."""

    name: str
    command: list[str]


@dataclass(kw_only=True)
class Figures:
    """What one side took for all sentences."""

    wall: float = 0.0
    cpu: float = 0.0
    peak: float = 0.0
    """MB."""


def main() -> None:
    options = arguments()
    bundle = open_bundle(options.bundle)
    console = Console(width=110)
    with (
        host_context(story=Story(quiet=True)) as context,
        tempfile.TemporaryDirectory() as folder,
    ):
        source = ingest(bundle.manifest["model"]["origin"], context=context)
        sentences = list(retrieval_task(glosses=options.sentences, words=1, context=context).glosses)
        sides = [side_of(path, options) for path in (options.bundle, *options.beside)]
        if not options.bundles_only:
            sides += peers(source, lay_out(source, Path(folder), context), options)
        console.print(starts(sides))
        console.print(throughput(sides, sentences, source.dimension))


def arguments() -> argparse.Namespace:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("bundle", type=Path)
    made.add_argument("--beside", type=Path, action="append", default=[], help="another bundle of that model")
    made.add_argument("--bundles-only", action="store_true", help="no peers")
    made.add_argument("--peers", default=sys.executable, help="Python that has the peers (default: this one)")
    made.add_argument("--sentences", type=int, default=10_000, help="a multiple of 250")
    made.add_argument("--threads", type=int, default=2)
    return made.parse_args()


def lay_out(source: ModelSource, folder: Path, context: HostContext) -> Path:
    """The fp32 model as ONNX beside the tokenizer's files, for fastembed."""
    prepared = prepare_model(source, options=ModelOptions(recipe="fp32", format="onnx"), context=context)
    shutil.copyfile(prepared.file, folder / "model.onnx")
    for name in ("tokenizer.json", "config.json", "tokenizer_config.json"):
        shutil.copyfile(source.directory / name, folder / name)
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    (folder / "special_tokens_map.json").write_text(json.dumps(special))
    return folder


def side_of(path: Path, options: argparse.Namespace) -> Side:
    """A bundle's own program."""
    bundle = open_bundle(path)
    program = under_wine(bundle.program) if bundle.system == "windows" else ["env", "-i", str(bundle.program)]
    name = f"embed, {bundle.manifest['runner']['kind']}, {bundle.manifest['target']['name']}"
    return Side(name=name, command=[*program, "--out=raw", f"--threads={options.threads}"])


def under_wine(program: Path) -> list[str]:
    """The process is the program's own; wine's server is another, and not counted."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.support import wine

    return wine.under_wine(program)


def peers(source: ModelSource, folder: Path, options: argparse.Namespace) -> list[Side]:
    peer = [options.peers, "-c", PEER]
    tail = [str(options.threads), str(CHUNK), str(source.dimension)]
    return [
        Side(name="fastembed, fp32", command=[*peer, "fastembed", str(folder), *tail]),
        Side(
            name="sentence-transformers, PyTorch",
            command=[*peer, "sentence-transformers", str(source.directory), *tail],
        ),
    ]


def starts(sides: list[Side]) -> Table:
    """From nothing to the first vector: of the peers, the libraries' start and a chunk of short texts are in it."""
    table = Table("first vector", "ms by the clock, least", "median", "ms of processor time", "peak MB")
    for side in sides:
        count = 1 if side.name.startswith("embed") else CHUNK
        figures = [start(side.command, b"a cat\n" * count) for _ in range(STARTS if count == 1 else 2)]
        walls = sorted(figure.wall for figure in figures)
        table.add_row(
            side.name,
            f"{walls[0] * 1e3:.0f}",
            f"{statistics.median(walls) * 1e3:.0f}",
            f"{min(figure.cpu for figure in figures) * 1e3:.0f}",
            f"{max(figure.peak for figure in figures):.1f}",
        )
    return table


def start(command: list[str], lines: bytes) -> Figures:
    begin = time.perf_counter()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        process.stdin.write(lines)
        process.stdin.flush()
        process.stdout.read(4)
        wall = time.perf_counter() - begin
        figures = Figures(wall=wall, cpu=cpu_of(process.pid), peak=peak_of(process.pid))
        process.kill()
    return figures


def throughput(sides: list[Side], sentences: list[str], dimension: int) -> Table:
    figures = [Figures() for _ in sides]
    cosines: list[float] = []
    with running(sides) as processes:
        for process in processes:
            turn(process, sentences[:CHUNK], dimension)  # warm, and all imported
        for at in range(0, len(sentences) - CHUNK + 1, CHUNK):
            chunk = sentences[at : at + CHUNK]
            vectors = []
            for process, figure in zip(processes, figures, strict=True):
                before, begin = cpu_of(process.pid), time.perf_counter()
                vectors.append(turn(process, chunk, dimension))
                figure.wall += time.perf_counter() - begin
                figure.cpu += cpu_of(process.pid) - before
            cosines += (vectors[0] * vectors[-1]).sum(axis=1).tolist()
        for process, figure in zip(processes, figures, strict=True):
            figure.peak = peak_of(process.pid)
    return throughput_table(sides, figures, len(sentences) // CHUNK * CHUNK, cosines)


def throughput_table(sides: list[Side], figures: list[Figures], count: int, cosines: list[float]) -> Table:
    ours = figures[0]
    table = Table(
        f"{count} glosses", "sentences/s", "processor s", "ours, by the clock", "by processor time", "peak MB"
    )
    for side, figure in zip(sides, figures, strict=True):
        table.add_row(
            side.name,
            f"{count / figure.wall:.1f}",
            f"{figure.cpu:.1f}",
            f"{figure.wall / ours.wall:.2f} x",
            f"{figure.cpu / ours.cpu:.2f} x",
            f"{figure.peak:.0f}",
        )
    table.caption = (
        f"cosine of the first to the last: mean {statistics.mean(cosines):.4f}, least {min(cosines):.4f}"
    )
    return table


@contextmanager
def running(sides: list[Side]) -> Iterator[list[subprocess.Popen[bytes]]]:
    processes = [
        subprocess.Popen(side.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for side in sides
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def turn(process: subprocess.Popen[bytes], chunk: list[str], dimension: int) -> np.ndarray:
    """Vectors of a chunk, float32 [len(chunk), dimension]."""
    assert process.stdin and process.stdout
    process.stdin.write("".join(f"{text}\n" for text in chunk).encode())
    process.stdin.flush()
    size = len(chunk) * dimension * 4
    data = process.stdout.read(size)
    if len(data) != size:
        raise SystemExit(f"{process.args!r} ended early")
    return np.frombuffer(data, "<f4").reshape(len(chunk), dimension)


def cpu_of(pid: int) -> float:
    """Seconds of processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def peak_of(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6


if __name__ == "__main__":
    main()
