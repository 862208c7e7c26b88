"""Bundles of rerankers, by every program: made, proved, verified; with ``--slow``."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.bundles import made_bundle
from tokenizers import Tokenizer

from edgepack.records.bundle import Bundle
from edgepack.records.model import ModelSource
from edgepack.verifier.gate import verification_texts
from edgepack.verifier.outputs.order import ranking_pairs

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

QUERY, TEXTS = "a dog runs", ["the dog is running", "rain falls on the roof", "a cat sleeps"]
STOCK = ("--set", "runtime=stock", "--set", 'budget.download="60 MB"')
KINDS = {
    "native": ("linux-x86-min", "--set", "library=true"),
    "frozen": ("linux-x86",),
    "native, stock runtime": ("linux-x86-min", "--set", "library=true", *STOCK),
    "frozen, stock runtime": ("linux-x86", *STOCK),
}


@pytest.fixture(scope="module")
def reranker(tmp_path_factory: pytest.TempPathFactory, minilm: ModelSource) -> Path:
    """A BERT of two layers and 64 dimensions, random, with MiniLM's tokenizer.

    Its last layer looks where pairs differ most: a random one would tell them apart by less than int8 moves them.
    """
    import torch
    import transformers

    library: Any = transformers
    folder = tmp_path_factory.mktemp("models") / "reranker"
    torch.manual_seed(7)
    shape = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128}
    config = library.BertConfig(**shape, max_position_embeddings=128, num_labels=1)
    model = library.BertForSequenceClassification(config).eval()
    tokenizer = Tokenizer.from_file(str(minilm.tokenizer))
    tokenizer.enable_truncation(128)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "LayerNorm" not in name and not name.endswith("bias"):
                weight.normal_(std=0.3 if "embeddings" in name else 0.1)
        rows = [tokenizer.encode(*pair) for pair in ranking_pairs(verification_texts())[::5]]
        made = [
            model.bert(torch.tensor([row.ids]), token_type_ids=torch.tensor([row.type_ids])) for row in rows
        ]
        vectors = torch.cat([each.pooler_output for each in made])
        mean = vectors.mean(0)
        _, lengths, directions = torch.linalg.svd(vectors - mean, full_matrices=False)
        model.classifier.weight.copy_(directions[:1] * 2 * len(rows) ** 0.5 / lengths[0])
        model.classifier.bias.copy_(-model.classifier.weight @ mean)
    model.save_pretrained(folder)
    shutil.copy(minilm.tokenizer, folder / "tokenizer.json")
    return folder


def ranked(bundle: Bundle) -> list[float]:
    words: list[str | Path] = [bundle.program, "--rerank", QUERY, "--out", "jsonl"]
    done = subprocess.run(words, input="\n".join(TEXTS), capture_output=True, text=True, check=True)
    rows = sorted((json.loads(line) for line in done.stdout.splitlines()), key=lambda row: int(row["index"]))
    return [row["score"] for row in rows]


@pytest.mark.parametrize("kind", KINDS)
def test_a_reranker_in_int8_ships_and_scores(kind: str, reranker: Path, tmp_path: Path) -> None:
    target, *options = KINDS[kind]
    bundle = made_bundle(target, tmp_path, "-m", str(reranker), "-r", "int8", *options)
    report = json.loads(next(tmp_path.glob("*.report.json")).read_text())
    found = report["verification"]
    assert (found["status"], found["scores"]["same_pairs"] or kind.startswith("frozen")) == ("passed", 4200)
    assert found["scores"]["tau"] >= 0.98 and found["scores"]["kept"] >= 0.99
    scores = ranked(bundle)
    assert len(set(scores)) == 3
    if "library" in bundle.manifest["runner"]:
        script = f"import edgepack_bundle\nprint([float(each) for (each,) in edgepack_bundle.scores({TEXTS!r}, query={QUERY!r})])"
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONPATH": str(bundle.directory / "python")},
            capture_output=True,
            text=True,
            check=True,
        )
        assert json.loads(done.stdout) == pytest.approx(scores, abs=1e-6)
