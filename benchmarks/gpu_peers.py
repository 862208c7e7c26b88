"""A CUDA bundle beside PyTorch on the same GPU, in one run, in turns. Runs on the device, with PyTorch, transformers and the model's folder.

    python benchmarks/gpu_peers.py BUNDLE MODEL TEXTS [--rounds 3]

MODEL is the folder of transformers (config.json, tokenizer.json, model.safetensors), TEXTS a file with a text per line. PyTorch computes in float16,
with scaled_dot_product_attention, and with torch.compile(mode="reduce-overhead"), which records CUDA graphs; pooling, normalising and the copy to
the processor are counted. For batches of a length the ids are made beforehand; for the file, everything is counted from its lines to the vectors,
and for PyTorch not the imports, the loading and the compiling. Prints medians, and the ratio to the bundle.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModel, AutoTokenizer

LENGTHS, BATCH, SECONDS = (8, 32, 128), 32, 1.0
Model = Callable[..., Any]


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("bundle", type=Path)
    made.add_argument("model", type=Path)
    made.add_argument("texts", type=Path)
    made.add_argument("--rounds", type=int, default=3)
    options = made.parse_args()
    eager = (
        AutoModel.from_pretrained(options.model, dtype=torch.float16, attn_implementation="sdpa")
        .cuda()
        .eval()
    )
    models = {"PyTorch": eager, "torch.compile": torch.compile(eager, mode="reduce-overhead", dynamic=False)}
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    texts = options.texts.read_text(encoding="utf-8").splitlines()
    found: dict[str, list[float]] = {}
    for _ in range(options.rounds):
        for batch in (1, BATCH):
            for length, rate in ours(options.bundle, batch).items():
                found.setdefault(f"batch {batch}, {length} tokens: bundle", []).append(rate)
            for name, model in models.items():
                for length in LENGTHS:
                    key = f"batch {batch}, {length} tokens: {name}"
                    found.setdefault(key, []).append(rate_of(model, batch, length))
        found.setdefault("file: bundle", []).append(file_by_bundle(options.bundle, options.texts, len(texts)))
        found.setdefault("file: PyTorch", []).append(file_by_torch(eager, tokenizer, texts))
    medians = {key: statistics.median(rates) for key, rates in found.items()}
    machine = f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}"
    print(f"{machine}, texts a second, medians of {options.rounds}")  # noqa: T201
    for key, rate in medians.items():
        own = medians[f"{key.partition(':')[0]}: bundle"]
        print(f"{key}: {rate:,.0f}; the bundle is {own / rate:.2f} times as fast")  # noqa: T201
    json.dump(found, sys.stdout)


def ours(bundle: Path, batch: int) -> dict[int, float]:
    """Texts a second of each length."""
    command = [str(bundle / "embed"), "--bench", "--json", "--batch-size", str(batch)]
    said = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    key = "texts_per_second" if batch > 1 else "text_ms"
    return {row["tokens"]: row[key] if batch > 1 else 1000 / row[key] for row in said["lengths"]}


def rate_of(model: Model, batch: int, length: int) -> float:
    ids = torch.randint(1000, 20_000, (batch, length))
    feed = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "token_type_ids": torch.zeros_like(ids)}
    for _ in range(20):
        vectors_of(model, {name: each.cuda() for name, each in feed.items()})
    begin, runs = time.perf_counter(), 0
    while (taken := time.perf_counter() - begin) < SECONDS:
        vectors_of(model, {name: each.cuda() for name, each in feed.items()})
        runs += 1
    return batch * runs / taken


def vectors_of(model: Model, feed: dict[str, torch.Tensor]) -> torch.Tensor:
    with torch.inference_mode():
        states = model(**feed).last_hidden_state
        mask = feed["attention_mask"].unsqueeze(-1)
        pooled = (states * mask).sum(1, dtype=torch.float32) / mask.sum(1)
        return torch.nn.functional.normalize(pooled, dim=1).cpu()


def file_by_bundle(bundle: Path, texts: Path, count: int) -> float:
    """From the program's start to its end."""
    with tempfile.TemporaryDirectory() as folder, texts.open() as lines:
        begin = time.perf_counter()
        command = [str(bundle / "embed"), "--out", "npy"]
        with Path(folder, "vectors").open("wb") as out:
            subprocess.run(command, check=True, stdin=lines, stdout=out)
        return count / (time.perf_counter() - begin)


def file_by_torch(model: Model, tokenizer: Model, texts: list[str]) -> float:
    """As sentence-transformers does it: sorted by length."""
    begin = time.perf_counter()
    ordered = sorted(texts, key=len)
    for first in range(0, len(texts), BATCH):
        some = ordered[first : first + BATCH]
        feed = tokenizer(some, padding=True, truncation=True, max_length=256, return_tensors="pt")
        vectors_of(model, dict(feed.to("cuda")))
    return len(texts) / (time.perf_counter() - begin)


if __name__ == "__main__":
    main()
