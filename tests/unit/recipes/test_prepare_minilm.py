"""The recipes on the real weights of all-MiniLM-L6-v2, on the texts that bundles are verified on."""

import numpy as np
import pytest

from edgepack.models.reference import embed_with_onnxruntime, reference_vectors
from edgepack.plugins.context import HostContext
from edgepack.recipes.prepare import prepare_model
from edgepack.records.model import ModelSource, PreparedModel
from edgepack.records.target import ModelOptions
from edgepack.verifier.gate import verification_texts
from edgepack.verifier.metrics import compare

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def reference(minilm: ModelSource, shared_context: HostContext) -> np.ndarray:
    return reference_vectors(minilm, verification_texts(), context=shared_context)


def prepared(recipe: str, minilm: ModelSource, context: HostContext) -> PreparedModel:
    return prepare_model(minilm, options=ModelOptions(recipe=recipe), context=context)


@pytest.mark.slow
def test_int8_is_small_and_near(
    minilm: ModelSource, shared_context: HostContext, reference: np.ndarray
) -> None:
    model = prepared("int8", minilm, shared_context)
    assert model.file.stat().st_size < 23_200_000
    found = compare(embed_with_onnxruntime(model.file, minilm, verification_texts()), reference)
    assert found.mean_cosine > 0.998
    assert found.min_cosine > 0.985
    assert found.neighbour_agreement > 0.93


@pytest.mark.slow
def test_int8_does_not_depend_on_the_batch(minilm: ModelSource, shared_context: HostContext) -> None:
    model = prepared("int8", minilm, shared_context)
    texts = verification_texts()[:64]
    alone = embed_with_onnxruntime(model.file, minilm, texts)
    together = embed_with_onnxruntime(model.file, minilm, texts, batch_size=32)
    assert (alone * together).sum(axis=1).min() > 0.9995


@pytest.mark.slow
def test_full_precision_is_exact(
    minilm: ModelSource, shared_context: HostContext, reference: np.ndarray
) -> None:
    model = prepared("fp32", minilm, shared_context)
    vectors = embed_with_onnxruntime(model.file, minilm, verification_texts())
    np.testing.assert_allclose(vectors, reference, atol=1e-5, rtol=0)
