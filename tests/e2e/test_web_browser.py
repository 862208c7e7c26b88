"""A real web bundle in a real browser: loading, offline, other origins, two tabs, lost connections, damage, a trap."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.node_tests import run_node_tests

from edgepack.bundle.verify import verification_texts
from edgepack.plugins.context import HostContext
from edgepack.recipes.quality import cached_reference
from edgepack.records import Bundle, ModelSource

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or os.environ.get("CHROMIUM")


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")
def test_the_bundle_in_chromium(
    web_bundle: Bundle, minilm: ModelSource, shared_context: HostContext, tmp_path: Path
) -> None:
    texts, vectors = tmp_path / "texts.json", tmp_path / "vectors.json"
    texts.write_text(json.dumps(verification_texts()))
    said = run_node_tests(
        "chromium",
        BUNDLE=str(web_bundle.directory),
        CHROMIUM=str(CHROMIUM),
        TEXTS=str(texts),
        VECTORS=str(vectors),
    )
    assert "# fail 0" in said
    found = np.asarray(json.loads(vectors.read_text()), np.float32)
    exact = cached_reference(minilm, verification_texts(), context=shared_context)
    assert float((found * exact).sum(axis=1).mean()) >= 0.99
