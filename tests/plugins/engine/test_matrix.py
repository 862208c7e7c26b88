"""Which models the engine's targets take, and what they say of the others: the table of docs/engine.md is made here."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.engine.test_behind import MODELS as BEHIND_MODELS
from tests.plugins.engine.test_lowering import ALBERT, WIDE
from tests.support.checkpoints import write_head
from tests.support.families import FAMILIES, write_family
from tests.support.golden import ROOT
from tests.support.graphs import write_graph_alone

from edgepack.models.find.source import ingest
from edgepack.plugins.context import HostContext
from edgepack.records.model import ModelSource
from edgepack.records.target import Target
from edgepack.suitability.rows import suitability
from edgepack_engine.builder import FILE

pytestmark = [pytest.mark.slow, pytest.mark.tools("python")]  # each model is prepared for each target
BEGIN, END = "<!-- begin models -->\n", "<!-- end models -->"
KINDS_OF_REFUSAL = 5
PAGE = "web-fast"
NAMES = {
    "bert": "BERT",
    "roberta": "RoBERTa",
    "xlm-roberta": "XLM-RoBERTa",
    "camembert": "CamemBERT",
    "mpnet": "MPNet",
    "distilbert": "DistilBERT",
    "modernbert": "ModernBERT",
    "albert": "ALBERT",
    "deberta-v2": "DeBERTa",
    "new": "new GTE",
    "gemma3_text": "EmbeddingGemma 1",
    "embedding_gemma2_text": "EmbeddingGemma 2",
    "llama": "Llama",
    "mistral": "Mistral",
    "qwen2": "Qwen 2",
    "qwen3": "Qwen 3",
    "nomic_bert": "NomicBert",
}
HEADS = {
    "a reranker": {"num_labels": 1},
    "a classifier": {"num_labels": 3},
}
BEHIND = {
    "several poolings": "joined",
    "a Dense module": "Dense Tanh",
    "SPLADE": "SPLADE of BERT",
    "ColBERT": "ColBERT",
    "BGE-M3": "BGE-M3",
}
"""What is called so in test_behind.py."""


def family(kind: str) -> Callable[[Path, HostContext], ModelSource]:
    wide = {name: size for name, size in WIDE.items() if name in FAMILIES[kind].small}
    # Of EmbeddingGemma 2, only the smallest is recorded.
    shape: dict[str, Any] = {"albert": ALBERT, "embedding_gemma2_text": {}}.get(kind, wide)
    return lambda folder, _: write_family(folder, kind, std=0.1, **shape)[0]


def head(shape: dict[str, int]) -> Callable[[Path, HostContext], ModelSource]:
    def write(folder: Path, context: HostContext) -> ModelSource:
        return ingest(str(write_head(folder, "BertForSequenceClassification", **shape)), context=context)

    return write


def graph(folder: Path, context: HostContext) -> ModelSource:
    folder.mkdir()
    write_graph_alone(folder)
    return ingest(str(folder / "model.onnx"), context=context)


MODELS = {
    **{name: family(kind) for kind, name in NAMES.items()},
    **{name: head(shape) for name, shape in HEADS.items()},
    **{name: BEHIND_MODELS[called] for name, called in BEHIND.items()},
    "a graph alone": graph,
}


def in_general(reason: str, model: str, target: str) -> str:
    return reason.replace(f"{model} is ", "it is ").replace(f"target {target} ", "the target ")


def test_the_table_of_models_is_what_the_targets_say(
    tmp_path: Path, context: HostContext, update_golden: bool
) -> None:
    host = context.plugins()
    targets: list[Target] = [host.target(name) for name in host.target_files]
    engine = sorted(each.name for each in targets if each.model.format == FILE.rpartition(".")[2])
    assert len(engine) >= 7
    host = replace(host, target_files={name: host.target_files[name] for name in engine})
    own = replace(context, plugins=lambda: host)
    answers: dict[str, list[str]] = {}
    kinds = set()
    for name, write in MODELS.items():
        source = write(tmp_path / name, context)
        rows = suitability(source, context=own)
        said = {
            row.target: "" if row.taken else in_general(row.reason, source.name, row.target) for row in rows
        }
        # Pages have fewer outputs than programs, whoever computes.
        reason, page = said["linux-x86-fast"], said.pop(PAGE)
        assert set(said.values()) == {reason}, (name, said)
        apart = "" if page == reason else f"; `{PAGE}`: {page}"
        answers.setdefault(f"{reason or 'yes'}{apart}", []).append(name)
        kinds |= {reason} - {""}
    assert len(kinds) <= KINDS_OF_REFUSAL, kinds
    lines = [f"| models | {', '.join(f'`{name}`' for name in engine)} |\n", "|---|---|\n"]
    lines += [f"| {', '.join(names)} | {answer} |\n" for answer, names in answers.items()]
    file = ROOT / "docs/engine.md"
    before, _, rest = file.read_text(encoding="utf-8").partition(BEGIN)
    block, end, after = rest.partition(END)
    assert end, f"docs/engine.md has no {BEGIN}"
    if update_golden:
        file.write_text(before + BEGIN + "".join(lines) + END + after, encoding="utf-8")
        block = "".join(lines)
    assert block == "".join(lines), "--update-golden writes it anew"
