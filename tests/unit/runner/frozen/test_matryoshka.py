"""Cutting vectors, where the model was trained for it."""

import json
from array import array
from pathlib import Path
from typing import Any

import pytest

from edgepack.runner.frozen.base.bundle import Bundle
from edgepack.runner.frozen.base.errors import UsageError
from edgepack.runner.frozen.model.matryoshka import MatryoshkaTruncation

pytestmark = pytest.mark.tools("c++", "python")


def bundle_with(copy: Path, matryoshka: dict[str, Any] | None) -> Bundle:
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["model"]["matryoshka"] = matryoshka
    (copy / "manifest.json").write_text(json.dumps(manifest))
    return Bundle(str(copy))


def test_a_model_that_was_not_trained_for_it_says_why(copy: Path) -> None:
    with pytest.raises(UsageError, match="sample does not support shorter vectors") as caught:
        MatryoshkaTruncation(bundle_with(copy, None), 4)
    assert "no Matryoshka training" in caught.value.hint
    with pytest.raises(UsageError) as caught:
        MatryoshkaTruncation(bundle_with(copy, {"dimensions": [2, 4], "layer_norm": False}), 3)
    assert caught.value.hint == "it supports 2, 4, 8"


def test_a_vector_of_zeros_stays_one(copy: Path) -> None:
    shorten = MatryoshkaTruncation(bundle_with(copy, {"dimensions": [4], "layer_norm": False}), 4)
    assert list(shorten(array("f", [0.0] * 8))) == [0.0] * 4
