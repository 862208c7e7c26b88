"""What BGE-M3's three outputs cost beside its dense one: the same encoder with and without them, in one process, in turns.

    python benchmarks/outputs.py [--layers 6] [--recipe int8] [--rounds 15]

Random weights of BGE-M3's width (1,024; its vocabulary cut down, which no token's time depends on) in fewer layers than its 24: what is
measured of the outputs' cost is more than the true model's, since the outputs cost the same whatever the number of layers.
One thread; a number is the median of the rounds' ratios.
"""

import argparse
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from tests.support.checkpoints import change, with_tokenizer
from tests.support.tiny import write_json

from edgepack.console import Story
from edgepack.files.store import Store
from edgepack.models.find.source import ingest
from edgepack.models.ort.session import open_session, session_options
from edgepack.plugins.context import HostContext, host_context
from edgepack.recipes.prepare import prepare_model
from edgepack.records.model import ModelSource
from edgepack.records.target import ModelOptions

WIDTH = 1024
BATCH, TOKENS = 8, 64


def write_model(folder: Path, layers: int) -> Path:
    """BGE-M3's layout."""
    torch.manual_seed(1)
    shape: dict[str, Any] = {"hidden_size": WIDTH, "num_attention_heads": 16, "intermediate_size": 4 * WIDTH}
    config = transformers.XLMRobertaConfig(
        vocab_size=60, num_hidden_layers=layers, max_position_embeddings=514, **shape
    )
    model: Any = transformers.XLMRobertaModel(config)
    model.eval().save_pretrained(folder)
    with_tokenizer(folder, longest=512)
    change(folder / "tokenizer_config.json", eos_token="[SEP]")
    for name, size in (("sparse_linear", 1), ("colbert_linear", WIDTH)):
        torch.save(torch.nn.Linear(WIDTH, size).state_dict(), folder / f"{name}.pt")
    kinds = ("Transformer", "Pooling", "Normalize")
    modules = [
        {
            "idx": at,
            "name": str(at),
            "path": f"{at}_{kind}" * bool(at),
            "type": f"sentence_transformers.models.{kind}",
        }
        for at, kind in enumerate(kinds)
    ]
    write_json(folder / "modules.json", modules)
    (folder / "1_Pooling").mkdir()
    write_json(
        folder / "1_Pooling/config.json", {"word_embedding_dimension": WIDTH, "pooling_mode_cls_token": True}
    )
    return folder


def measure(source: ModelSource, recipe: str, rounds: int, context: HostContext) -> float:
    """Time of all three outputs over that of the dense one."""
    options = session_options()
    options.intra_op_num_threads = 1
    sessions = []
    for each in (source, replace(source, outputs=None)):
        prepared = prepare_model(each, options=ModelOptions(recipe=recipe, format="ort"), context=context)
        sessions.append(open_session(prepared.file, options))
    ids = np.random.default_rng(1).integers(4, 60, (BATCH, TOKENS))
    feed = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    ratios = []
    for turn in range(rounds + 2):
        times = {}
        for at in (0, 1) if turn % 2 else (1, 0):
            start = time.process_time()
            sessions[at].run(None, feed)
            times[at] = time.process_time() - start
        ratios.append(times[0] / times[1])
    return statistics.median(ratios[2:])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--recipe", default="int8")
    parser.add_argument("--rounds", type=int, default=15)
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        host_context(
            story=Story(quiet=True), offline=True, store=Store(root=Path(folder) / "store")
        ) as context,
    ):
        source = ingest(str(write_model(Path(folder) / "model", asked.layers)), context=context)
        ratio = measure(source, asked.recipe, asked.rounds, context)
        said = f"{asked.recipe}, {asked.layers} layers: all three outputs take {ratio:.3f} x the dense one"
        sys.stdout.write(said + "\n")


if __name__ == "__main__":
    main()
