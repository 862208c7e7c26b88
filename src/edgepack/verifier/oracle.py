"""Whether what a builder has golden vectors made from is the model: a plugin does not write down what it is compared with."""

from edgepack.context import BuildContext
from edgepack.errors import ModelError
from edgepack.models.reference import cached_reference, embed_with_onnxruntime
from edgepack.records.model import ModelSource, PreparedModel
from edgepack.records.target import ModelOptions
from edgepack.verifier.gate import verification_texts
from edgepack.verifier.metrics import compare


def require_oracle(
    model: PreparedModel, source: ModelSource, *, options: ModelOptions, context: BuildContext
) -> None:
    """Raise ``ModelError`` when the oracle's vectors are not as near the full-precision model's as the bundle's must be."""
    assert model.oracle is not None
    texts = verification_texts()
    vectors = embed_with_onnxruntime(model.oracle, model.source, texts)
    reference = cached_reference(source, texts, context=context)
    if vectors.shape != reference.shape:
        raise ModelError(f"it makes vectors {list(vectors.shape[1:])}, not {list(reference.shape[1:])}")
    cosine = compare(vectors, reference).mean_cosine
    if not cosine >= options.min_cosine and options.gate != "off":
        raise ModelError(
            f"it has mean cosine {cosine:.4f} to the full-precision model, below {options.min_cosine:g}"
        )
