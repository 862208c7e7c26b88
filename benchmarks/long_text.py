"""Memory of a program for one text of 8,192 tokens, by its length: an encoder of Nomic v1.5's shape with random weights.

    PYTHONPATH=. .venv/bin/python benchmarks/long_text.py                            # by linux-x86-fast
    PYTHONPATH=. .venv/bin/python benchmarks/long_text.py --lengths 512 2048

12 layers of 768 numbers, 12 heads, 30,528 tokens, rotary positions. Peaks are the kernel's, mapped files that are resident among them
(``VmHWM``); seconds are of the processor, start and all. ``--target linux-x86-min`` needs gigabytes for the same text.
"""

import argparse
import subprocess
import tempfile
import time
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from tests.support.judges import save_family
from tests.support.tiny import write_json

import edgepack
from edgepack.console import Story
from edgepack.models.find.source import ingest
from edgepack.plugins.context import host_context

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
    made.add_argument("--target", default="linux-x86-fast")
    made.add_argument(
        "--lengths", type=int, nargs="+", default=[8, 512, 2048, 8192], help="tokens of the text"
    )
    options = made.parse_args()
    table = Table("tokens", "peak MB", "CPU s")
    with tempfile.TemporaryDirectory() as folder:
        write_model(Path(folder) / "model")
        bundle = edgepack.bundle(
            Path(folder) / "model",
            target=options.target,
            recipe="int8",
            settings={"budget.download": "1 GB"},
            output=Path(folder) / "out",
        )
        for length in options.lengths:
            peak, seconds = measured(bundle.path / "embed", length)
            table.add_row(f"{length:,}", f"{peak:.0f}", f"{seconds:.2f}")
    Console().print(table)


def write_model(folder: Path) -> None:
    """Calm weights: each layer adds little, as in trained models. The tokenizer is MiniLM's."""
    torch.manual_seed(1)

    def fill(name: str, weight: torch.Tensor) -> None:
        with torch.no_grad():
            weight.normal_(1.0 if "norm" in name.lower() and name.endswith("weight") else 0.0, 0.02)

    save_family(folder, "nomic_bert", fill, SHAPE)
    with host_context(story=Story(quiet=True)) as context:
        tokenizer = ingest(None, context=context).tokenizer.read_text(encoding="utf-8")
    (folder / "tokenizer.json").write_text(tokenizer, encoding="utf-8")
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": 8192})


def measured(program: Path, length: int) -> tuple[float, float]:
    """MB and seconds for one text of so many tokens, two of them special, on one thread."""
    text = " ".join(["man"] * (length - 2))
    command = [str(program), "--threads=1", "--out=raw"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={}) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(f"{text}\n".encode())
        process.stdin.flush()
        if len(process.stdout.read(4 * SHAPE["hidden_size"])) < 4 * SHAPE["hidden_size"]:
            raise SystemExit(f"{program} ended early")
        status = Path(f"/proc/{process.pid}/status").read_text()
        seconds = time.clock_gettime((~process.pid << 3) | 2)  # that of clock_getcpuclockid(3)
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6, seconds


if __name__ == "__main__":
    main()
