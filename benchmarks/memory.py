"""Memory of a bundle's programs: of several at once, and of one with a long text.

    python benchmarks/memory.py dist/all-MiniLM-L6-v2-linux-x86-min --processes 16
    PYTHONPATH=. python benchmarks/memory.py --lengths 512 2048            # needs PyTorch; by linux-x86-fast

Several programs: each gets a text, answers, and waits for the next. Figures are of /proc/PID/smaps_rollup, in MB: resident, proportional
(a page that several have counts in parts, so that the sum is what all take together), and private (written: arrays packed when the
model was loaded).

A long text: an encoder of Nomic v1.5's shape with random weights, 12 layers of 768 numbers, 12 heads, 30,528 tokens, rotary positions. Peaks
are the kernel's, mapped files that are resident among them (``VmHWM``); seconds are of the processor, start and all. ``--target
linux-x86-min`` needs gigabytes for 8,192 tokens.
"""

import argparse
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

import edgepack
from edgepack.bundles.manifest import open_bundle
from edgepack.console import Story
from edgepack.models.find.source import ingest
from edgepack.plugins.context import host_context

TEXT = "A man is eating food."
SHAPE = {
    "vocab_size": 30528,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 8192,
}


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("bundle", type=Path, nargs="?", help="of which several programs run; none: long texts")
    made.add_argument("--processes", type=int, default=16)
    made.add_argument("--target", default="linux-x86-fast", help="of the long texts' program")
    made.add_argument(
        "--lengths", type=int, nargs="+", default=[8, 512, 2048, 8192], help="tokens of the text"
    )
    options = made.parse_args()
    if options.bundle:
        Console(width=120).print(*several(options.bundle, options.processes))
    else:
        Console().print(by_length(options.target, options.lengths))


def several(path: Path, count: int) -> tuple[str, Table]:
    """The model's size in words, and the memory of one program and of so many."""
    bundle = open_bundle(path)
    model = (bundle.directory / bundle.manifest["model"]["file"]).stat().st_size
    columns = ("programs", "resident, each", "of the model", "proportional, each", "of the model")
    table = Table(*columns, "private, each", "together")
    started: list[subprocess.Popen[bytes]] = []
    for number in range(1, count + 1):
        started.append(start(bundle.program, TEXT))
        if number not in {1, count}:
            continue
        rows = [sizes(each.pid) for each in started]
        rss, pss, private = (sum(row[at] for row in rows) / number for at in range(3))
        table.add_row(
            str(number),
            *(f"{rss / 1e6:.1f}", f"{rss / model:.2f}", f"{pss / 1e6:.1f}", f"{pss / model:.2f}"),
            *(f"{private / 1e6:.1f}", f"{pss * number / 1e6:.1f}"),
        )
    for each in started:
        each.communicate()
    return f"model: {model / 1e6:.1f} MB; in MB:", table


def by_length(target: str, lengths: Sequence[int]) -> Table:
    """Peak and processor time of a program with one text of each length."""
    table = Table("tokens", "peak MB", "CPU s")
    with tempfile.TemporaryDirectory() as folder:
        write_model(Path(folder) / "model")
        bundle = edgepack.bundle(
            Path(folder) / "model",
            target=target,
            recipe="int8",
            settings={"budget.download": "1 GB"},
            output=Path(folder) / "out",
        )
        for length in lengths:
            # Two of its tokens are special.
            process = start(bundle.path / "embed", " ".join(["man"] * (length - 2)))
            seconds = time.clock_gettime((~process.pid << 3) | 2)  # that of clock_getcpuclockid(3)
            status = Path(f"/proc/{process.pid}/status").read_text()
            peak = int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6
            process.communicate()
            table.add_row(f"{length:,}", f"{peak:.0f}", f"{seconds:.2f}")
    return table


def write_model(folder: Path) -> None:
    """Calm weights: each layer adds little, as in trained models. The tokenizer is MiniLM's."""
    import torch
    from tests.support.judges import save_family
    from tests.support.tiny import write_json

    torch.manual_seed(1)

    def fill(name: str, weight: torch.Tensor) -> None:
        with torch.no_grad():
            weight.normal_(1.0 if "norm" in name.lower() and name.endswith("weight") else 0.0, 0.02)

    save_family(folder, "nomic_bert", fill, SHAPE)
    with host_context(story=Story(quiet=True)) as context:
        tokenizer = ingest(None, context=context).tokenizer.read_text(encoding="utf-8")
    (folder / "tokenizer.json").write_text(tokenizer, encoding="utf-8")
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": 8192})


def start(program: Path, text: str) -> subprocess.Popen[bytes]:
    """A program that has given its first vector and waits."""
    command = [str(program), "--threads=1", "--out=jsonl"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={})
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(f"{text}\n".encode())
    process.stdin.flush()
    if not process.stdout.readline():
        raise SystemExit(f"{program} ended early")
    return process


def sizes(process: int) -> tuple[int, int, int]:
    """Bytes: resident, proportional, private."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]
    said = {name: int(words.split()[0]) * 1024 for name, _, words in (line.partition(":") for line in lines)}
    return said["Rss"], said["Pss"], said["Private_Dirty"] + said["Private_Clean"]


if __name__ == "__main__":
    main()
