"""A reranker trained on STSBenchmark's own pairs, bundled: what int8 keeps of its order, and what the program grows by.

    python benchmarks/reranker.py --output /tmp/reranker

A cross-encoder is made of all-MiniLM-L6-v2: its last two layers, a pooler and a head with one label are trained on the
training set (the embeddings and the first layers stay as they are), on the CPU, in some minutes. Reference: sentence-transformers'
CrossEncoder on the same weights. Bundles: fp32, int8-near and int8 for linux-x86-min, and the encoder alone, for the program's size.
"""

import argparse
import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

import edgepack
from edgepack.cli.output import say
from edgepack.models.find.source import ingest
from edgepack.plugins.context import HostContext, host_context
from edgepack.records.target import Reading
from edgepack.verifier.outputs.order import kendall_tau
from edgepack.verifier.tasks.sts import Pairs, spearman, sts_pairs

TARGET = "linux-x86-min"
FROZEN_LAYERS = 4
INPUTS = ["input_ids", "token_type_ids", "attention_mask"]
BATCH, EPOCHS, RATE = 32, 4, 1e-4
QUERIES, CANDIDATES = 200, 10


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Pairs of like length, as the first layers leave them, which are not trained."""

    hidden: torch.Tensor
    """[pairs, tokens, width]."""
    mask: torch.Tensor
    """Added to attention's scores."""
    likeness: torch.Tensor
    """From 0 to 1."""


def train(folder: Path, pairs: Pairs, context: HostContext) -> Path:
    """A BertForSequenceClassification of MiniLM's weights in ``folder``, trained to say how alike two sentences are."""
    source = ingest(None, context=context)
    torch.manual_seed(0)
    # On a busy machine, threads wait for each other.
    torch.set_num_threads(1)
    # The pooler and the head begin anew.
    model: Any = transformers.BertForSequenceClassification.from_pretrained(
        source.directory, num_labels=1, attn_implementation="eager"
    )
    kind: Any = transformers.PreTrainedTokenizerFast
    tokenizer = kind(tokenizer_file=str(source.tokenizer), pad_token="[PAD]", model_input_names=INPUTS)
    model.eval()
    batches = list(prepared(model, tokenizer, pairs))
    say(f"{len(batches)} batches")
    upper = model.bert.encoder.layer[FROZEN_LAYERS:]
    trained = [
        weight for part in (upper, model.bert.pooler, model.classifier) for weight in part.parameters()
    ]
    optimizer = torch.optim.AdamW(trained, lr=RATE)
    steps = EPOCHS * len(batches)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / (steps + 1))
    random = np.random.default_rng(0)
    model.train()
    for epoch in range(EPOCHS):
        total = 0.0
        for at in random.permutation(len(batches)):
            hidden, batch = batches[at].hidden, batches[at]
            for layer in upper:
                made = layer(hidden, batch.mask)
                hidden = made[0] if isinstance(made, tuple) else made
            logits = model.classifier(model.dropout(model.bert.pooler(hidden)))[:, 0]
            loss: Any = torch.nn.functional.binary_cross_entropy_with_logits(logits, batch.likeness)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        say(f"epoch {epoch + 1}: loss {total / len(batches):.4f}")
    model.eval().save_pretrained(folder)
    shutil.copy(source.tokenizer, folder / "tokenizer.json")
    named: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": 256,
        "pad_token": "[PAD]",
    }
    named["model_input_names"] = INPUTS
    (folder / "tokenizer_config.json").write_text(json.dumps(named))
    return folder


def prepared(model: Any, tokenizer: Any, pairs: Pairs) -> Iterator[Batch]:
    """The pairs by length, through the embeddings and the layers that stay."""
    order = np.argsort([len(a) + len(b) for a, b in zip(pairs.first, pairs.second, strict=True)])
    for at in range(0, len(order), BATCH):
        chosen = order[at : at + BATCH].tolist()
        texts = [[column[each] for each in chosen] for column in (pairs.first, pairs.second)]
        given = tokenizer(*texts, padding=True, truncation=True, max_length=128, return_tensors="pt")
        mask = (1.0 - given["attention_mask"][:, None, None, :].float()) * -1e9
        with torch.no_grad():
            hidden = model.bert.embeddings(
                input_ids=given["input_ids"], token_type_ids=given["token_type_ids"]
            )
            for layer in model.bert.encoder.layer[:FROZEN_LAYERS]:
                made = layer(hidden, mask)
                hidden = made[0] if isinstance(made, tuple) else made
        wanted = torch.tensor([pairs.likeness[each] for each in chosen]) / 5
        yield Batch(hidden=hidden, mask=mask, likeness=wanted)


def reference(folder: Path, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
    from sentence_transformers import CrossEncoder

    model = CrossEncoder(str(folder), device="cpu", max_length=256)
    return np.asarray(model.predict(list(pairs), batch_size=1), np.float64)


def of_bundle(bundle: Path, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
    lines = "".join(json.dumps({"query": one, "text": other}) + "\n" for one, other in pairs)
    command: list[str | Path] = [bundle.absolute() / "embed", "--pairs", "--jsonl", "--out", "jsonl"]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    return np.asarray([json.loads(line)["score"] for line in done.stdout.splitlines()])


def candidates(pairs: Pairs) -> list[tuple[str, str]]:
    """Of each of some first sentences its own second one, and those of nine pairs that follow: of the same source, mostly."""
    step = len(pairs.first) // QUERIES
    return [
        (pairs.first[at], pairs.second[(at + other) % len(pairs.second)])
        for at in range(0, step * QUERIES, step)
        for other in range(CANDIDATES)
    ]


def top_kept(ours: np.ndarray, theirs: np.ndarray) -> float:
    one, other = (each.reshape(-1, CANDIDATES) for each in (ours, theirs))
    return float((one.argmax(axis=1) == other.argmax(axis=1)).mean())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    model = given.output / "model"
    with host_context() as context:
        test = sts_pairs("test", context=context)
        if not (model / "config.json").is_file():
            model.mkdir(parents=True, exist_ok=True)
            train(model, sts_pairs("train", context=context), context)
    pairs = [*zip(test.first, test.second, strict=True)]
    asked, likeness = candidates(test), np.asarray(test.likeness)
    theirs, ranked = reference(model, pairs), reference(model, asked)
    say(f"sentence-transformers: Spearman {spearman(theirs, likeness):.4f}")
    sizes: dict[str, int] = {}
    made: Any
    for recipe in ("fp32", "int8-near", "int8"):
        made = edgepack.bundle(
            model, target=TARGET, recipe=recipe, output=given.output / recipe, force=True, progress=True,
            settings={"budget.download": "150 MB", "model.gate": "off"},
        )  # fmt: skip
        sizes[recipe] = (made.path / "embed").stat().st_size
        ours = of_bundle(made.path, pairs)
        say(
            f"{recipe}: Spearman {spearman(ours, likeness):.4f}, Kendall's tau {kendall_tau(ours, theirs):.4f}, "
            f"largest difference {np.abs(ours - theirs).max():.1e}, best of {CANDIDATES} kept "
            f"{top_kept(of_bundle(made.path, asked), ranked):.1%}, archive {made.archive.stat().st_size:,} bytes",
        )
    alone = edgepack.bundle(
        model, target=TARGET, recipe="int8", output=given.output / "alone", force=True, settings={"model.gate": "off"},
        reading=Reading(treat_as_embedding=True, pooling="cls"), progress=True,
    )  # fmt: skip
    grown = sizes["int8"] - (alone.path / "embed").stat().st_size
    say(f"program: {sizes['int8']:,} bytes, {grown:,} more than for the encoder alone")


if __name__ == "__main__":
    main()
