"""The full-precision model on the stock ONNX Runtime package: what every bundle is measured against."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgepack.context import BuildContext
from edgepack.models.export.from_source import export_onnx
from edgepack.models.export.source_key import digests_of, source_key
from edgepack.models.graph.writer import OUTPUT
from edgepack.models.ort.newer import session_for
from edgepack.models.read.documents import padding_of
from edgepack.models.read.panics import panics_reported
from edgepack.models.read.tokenizer import load_tokenizer
from edgepack.records.model import ModelSource, TextModule

Vectors = npt.NDArray[np.float32]
Text = str | tuple[str, str]
"""A text, or a pair of texts that a model takes together."""


def reference_vectors(source: ModelSource, texts: Sequence[Text], *, context: BuildContext) -> Vectors:
    """The full-precision model's vectors, float32 [len(texts), dimension], every text in a batch of its own."""
    return embed_with_onnxruntime(exported_model(source, context=context), source, texts, context=context)


def cached_reference(source: ModelSource, texts: Sequence[Text], *, context: BuildContext) -> Vectors:
    """The full-precision model's vectors, float32 [len(texts), dimension], made once for a model and these texts."""

    def make(folder: Path) -> None:
        np.save(folder / "vectors.npy", reference_vectors(source, texts, context=context))

    said = (text if isinstance(text, str) else "\1".join(text) for text in texts)
    digest = hashlib.sha256("\0".join(said).encode()).hexdigest()
    inputs = {**source_key(source), "texts": digest, "max_length": str(source.max_length)}
    inputs |= {"module": source.module.sha256} if source.module else {}
    vectors: Vectors = np.load(
        context.store.cached("reference", inputs, make, unchanged=digests_of(source)) / "vectors.npy"
    )
    return vectors


def exported_model(source: ModelSource, *, context: BuildContext) -> Path:
    """The full-precision ONNX file of a source, exported once and kept in the store."""

    def make(folder: Path) -> None:
        export_onnx(source, folder / "model.onnx", context=context)

    return context.store.cached("onnx", source_key(source), make, unchanged=digests_of(source)) / "model.onnx"


def embed_with_onnxruntime(
    model_file: Path,
    source: ModelSource,
    texts: Sequence[Text],
    *,
    batch_size: int = 1,
    context: BuildContext | None = None,
) -> Vectors:
    """Vectors of texts by the stock onnxruntime package, float32 [len(texts), dimension].

    ``model_file`` is an .onnx or .ort file whose output is ``sentence_embedding``. Texts are truncated to
    ``source.max_length`` tokens; within a batch they are padded on the right to the longest. With ``context`` a newer release
    is fetched for an ONNX model that the installed one does not run. The source's own module, if there is one, prepares the texts
    and finishes the vectors.
    """
    if source.module is not None:
        return _with_module(source.module, model_file, source, texts, batch_size, context)
    session = session_for(model_file, context=context)
    names = [each.name for each in session.get_inputs()]
    rows = [
        session.run([OUTPUT], {name: feed[name] for name in names})[0]
        for feed in token_batches(source, texts, batch_size)
    ]
    if not rows:
        return np.zeros((0, source.dimension), np.float32)
    return np.concatenate(rows).astype(np.float32, copy=False)


def _with_module(
    module: TextModule,
    model_file: Path,
    source: ModelSource,
    texts: Sequence[Text],
    batch_size: int,
    context: BuildContext | None,
) -> Vectors:
    prepared = module.prepare([well_formed(text) for text in texts if isinstance(text, str)])
    alone = replace(source, module=None)
    made = embed_with_onnxruntime(model_file, alone, prepared, batch_size=batch_size, context=context)
    return np.asarray(module.finish(made.tolist(), prepared), np.float32).reshape(made.shape)


def token_batches(
    source: ModelSource, texts: Sequence[Text], batch_size: int
) -> Iterator[dict[str, npt.NDArray[np.int64]]]:
    """Inputs of one run each, int64 [batch, sequence], in the texts' order."""
    tokenizer = load_tokenizer(source)
    padding = padding_of(source.config)
    for start in range(0, len(texts), batch_size):
        part = [_well_formed(text) for text in texts[start : start + batch_size]]
        with panics_reported():
            encoded = tokenizer.encode_batch(part)
        # A tokenizer without special tokens makes nothing of an empty text, and a model nothing of no token.
        yield {
            "input_ids": _padded([each.ids or [padding] for each in encoded], padding),
            "attention_mask": _padded([each.attention_mask or [1] for each in encoded], 0),
            "token_type_ids": _padded([each.type_ids or [0] for each in encoded], 0),
        }


def well_formed(text: str) -> str:
    """The text with U+FFFD for unpaired surrogates, which are in no encoding: as the runner takes it."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _well_formed(text: Text) -> Text:
    return well_formed(text) if isinstance(text, str) else (well_formed(text[0]), well_formed(text[1]))


def _padded(rows: Sequence[Sequence[int]], padding: int) -> npt.NDArray[np.int64]:
    """Rows of different lengths as one int64 array, filled up on the right."""
    filled = np.full((len(rows), max(map(len, rows))), padding, np.int64)
    for row, values in zip(filled, rows, strict=True):
        row[: len(values)] = values
    return filled
