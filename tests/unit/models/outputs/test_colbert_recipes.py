"""What recipes keep of a ColBERT model's vectors: all-MiniLM-L6-v2's real weights behind a projection to 128 numbers a token.

No package carries a trained ColBERT. The projection is a random one, which keeps angles: neighbours are those of the real layers.
``pytest -rP`` prints the figures of docs/models.md.
"""

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tests.support.shortfalls import shortfalls_of
from tests.support.tiny import write_json

from edgepack.models.find.source import ingest
from edgepack.models.token_reference import TextOutputs, reference_outputs
from edgepack.plugins.context import HostContext
from edgepack.recipes.prepare import prepare_model
from edgepack.records.bundle import Bundle
from edgepack.records.model import ModelSource
from edgepack.records.target import ModelOptions
from edgepack.verifier.gate import verification_texts
from edgepack.verifier.outputs.measure import measure_outputs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

DIMENSION = 128
LEAST = {"int8-near": (0.997, 0.99), "int8": (0.97, 0.94)}
"""Recipe → what the cosine of no token, and the share of queries whose best text is kept, may fall below."""


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A prepared model's file on the stock runtime, as a bundle's program."""

    source: ModelSource
    file: Path
    context: HostContext

    def outputs(self, bundle: Bundle, texts: Sequence[str], *, query: bool) -> list[TextOutputs]:
        return reference_outputs(self.source, texts, query=query, model=self.file, context=self.context)


@pytest.fixture(scope="module")
def colbert(
    tmp_path_factory: pytest.TempPathFactory, minilm: ModelSource, shared_context: HostContext
) -> ModelSource:
    folder = tmp_path_factory.mktemp("real") / "colbert"
    folder.mkdir()
    assert minilm.weights is not None
    tensors = {f"bert.{name}": each for name, each in load_file(minilm.weights).items()}
    projection = np.random.default_rng(3).normal(size=(DIMENSION, minilm.dimension))
    tensors["linear.weight"] = (projection / np.sqrt(minilm.dimension)).astype(np.float32)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    shutil.copy(minilm.tokenizer, folder / "tokenizer.json")
    config = json.loads((minilm.directory / "config.json").read_text(encoding="utf-8"))
    write_json(folder / "config.json", {**config, "architectures": ["HF_ColBERT"]})
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "BertTokenizer", "mask_token": "[MASK]"})
    write_json(folder / "artifact.metadata", {"query_maxlen": 32, "doc_maxlen": 180, "dim": DIMENSION})
    return ingest(str(folder), context=shared_context)


@pytest.mark.parametrize("recipe", LEAST)
def test_tokens_and_their_order(colbert: ModelSource, recipe: str, shared_context: HostContext) -> None:
    made = prepare_model(colbert, options=ModelOptions(recipe=recipe), context=shared_context)
    program = Prepared(source=colbert, file=made.file, context=shared_context)
    texts = verification_texts()
    bundle = Bundle(directory=made.file.parent, manifest={"model": {}})
    (found,) = measure_outputs(program, bundle, colbert, texts, context=shared_context)
    cosines = np.concatenate(
        [
            np.einsum("td,td->t", one.vectors.astype(np.float64), other.vectors.astype(np.float64))
            for query in (False, True)
            for one, other in zip(
                program.outputs(bundle, texts, query=query),
                reference_outputs(colbert, texts, query=query, context=shared_context),
                strict=True,
            )
            if one.vectors.size
        ]
    )
    sys.stdout.write(
        f"{recipe}: {len(cosines)} tokens, cosine mean {cosines.mean():.5f}, first percentile "
        f"{np.quantile(cosines, 0.01):.5f}, lowest {cosines.min():.5f}; MaxSim: tau {found.tau:.4f}, "
        f"best kept {found.kept:.1%}; {made.file.stat().st_size / 1e6:.1f} MB\n"
    )
    lowest, kept = LEAST[recipe]
    assert cosines.min() >= lowest
    assert found.kept >= kept
    assert shortfalls_of((found,), made.precision) == []
