"""Small random models, exported and fused."""

import pytest
from tests.support.compare import load

from edgepack.quantization.calibration import built_in_texts

__all__ = ["few_texts", "load"]


@pytest.fixture
def few_texts(monkeypatch: pytest.MonkeyPatch) -> int:
    """How many texts models are calibrated with: where none of their numbers is looked at, a tenth does."""
    texts = built_in_texts()[::10]
    monkeypatch.setattr("edgepack.quantization.calibration.built_in_texts", lambda: texts)
    return len(texts)
