"""Trying recipes on a model: each is made, measured and remembered, so that a search can be taken up where it stopped."""

import hashlib
import json
import platform
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import onnx

from edgepack.context import BuildContext
from edgepack.errors import UnsupportedModelError
from edgepack.files.frames import FRAMES, compress
from edgepack.files.store import digest_of_code, sha256_of
from edgepack.models.export.source_key import source_key
from edgepack.models.fuse.fusion import fuse
from edgepack.models.graph.editor import edit
from edgepack.models.graph.external_weights import load_graph
from edgepack.models.graph.precision import quantized_by
from edgepack.models.heads.classification import head_weights
from edgepack.models.ort.session import open_session, session_options
from edgepack.models.reference import Text, embed_with_onnxruntime, exported_model
from edgepack.quantization.layers import matrix_inputs
from edgepack.recipes.frontier import FrontierPoint
from edgepack.recipes.prepare import prepare_model
from edgepack.recipes.registry import RECIPE
from edgepack.records.figures import shortfalls
from edgepack.records.model import ModelSource, PreparedModel
from edgepack.records.recipe import ALL
from edgepack.records.report import Verification
from edgepack.records.target import ModelOptions, Pass, Platform
from edgepack.toml_schema import read_table
from edgepack.verifier.gate import NEIGHBOURS, verification_texts
from edgepack.verifier.outputs.scores import scores_of
from edgepack.verifier.vector_quality import COMPANY, measure_quality

LAYER = re.compile(r"\d(?=\.)")
"""Where the number of a layer ends."""
FUSED = Pass(name="fuse", parameters={"attention": "MultiHeadAttention", "embeddings": False})
TOKENS = 32
ROUNDS = 15
RUNS = 5
FIGURES = "figures.json"
FEW_TEXTS = 60
"""Texts that a layer's sensitivity is measured on."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A recipe under the name that a table shows."""

    name: str
    recipe: str | tuple[Pass, ...]


def named_candidates(names: Sequence[str], context: BuildContext) -> list[Candidate]:
    """The recipes of these names; all of them, those of plugins too, where none is named."""
    return [Candidate(name=name, recipe=name) for name in names or context.extensions(RECIPE)]


def layers_of(model: onnx.ModelProto) -> list[str]:
    """Patterns that each take one layer's matrices, in the graph's order: by number in their names, or one by one."""
    found: dict[str, None] = {}
    for name in matrix_inputs(edit(model), ALL):
        number = LAYER.search(name)
        found[f"{name[: number.end()]}.*" if number else name] = None
    return list(found)


def sensitivity_probe(layer: str) -> Candidate:
    """int4 in one layer alone: how far that takes the vectors from full precision is the layer's sensitivity."""
    step = Pass(name="int4", parameters={"layers": [layer], "rounding": "nearest", "tables": "float"})
    return Candidate(name=f"int4 in {layer}", recipe=(FUSED, step))


def mixed_candidates(sensitivities: Mapping[str, float]) -> list[Candidate]:
    """int4 everywhere but in the most sensitive layer, in the two most sensitive, and so on."""
    ordered = sorted(sensitivities, key=lambda layer: -sensitivities[layer])
    return [
        Candidate(
            name=f"int4, int8 in {count} of {len(ordered)} layers",
            recipe=(
                FUSED,
                Pass(name="int4", parameters={"layers": sorted(ordered[count:])}),
                Pass(name="int8-weights"),
            ),
        )
        for count in range(1, len(ordered))
    ]


def search(
    source: ModelSource,
    *,
    options: ModelOptions,
    device: Platform | None = None,
    names: Sequence[str] = (),
    mixed: bool = True,
    context: BuildContext,
) -> list[FrontierPoint]:
    """Every candidate measured; what was measured before, for the same file on this processor, is not again.

    ``options`` are the target's: its format, calibration texts and gate. ``names`` are the recipes to try; empty: all.
    One that does not fit the model is left out, and said, unless it was named. Raises ``UnsupportedModelError`` for a model
    that was quantized already: every recipe would leave it as it is.
    """
    exported = load_graph(exported_model(source, context=context))
    if found := quantized_by(exported):
        raise UnsupportedModelError(
            f"{source.name} is quantized already ({source.precision}, {found}): every recipe leaves it as it is",
            hint="search with the full-precision model",
        )
    tried = Trial(source=source, options=options, device=device, context=context)
    candidates = named_candidates(names, context)
    layers = layers_of(_fused(exported)) if mixed else []
    with context.progress("recipes", len(candidates) + max(2 * len(layers) - 1, 0), unit="recipes") as bar:
        points = []
        for candidate in candidates:
            try:
                points.append(tried.point(candidate))
            except UnsupportedModelError as error:
                if names:
                    raise
                context.warn(f"{candidate.name} is skipped: {error.message}")
            bar.advance()
        sensitivities = {}
        for layer in layers:
            sensitivities[layer] = tried.loss(sensitivity_probe(layer))
            bar.advance()
        for candidate in mixed_candidates(sensitivities):
            points.append(tried.point(candidate))
            bar.advance()
    return points


class Trial:
    """One model and target, and what trying a recipe on them gives."""

    def __init__(
        self, *, source: ModelSource, options: ModelOptions, device: Platform | None, context: BuildContext
    ) -> None:
        self._source, self._options, self._device, self._context = source, options, device, context
        self._kept: dict[str, object] = {}

    def point(self, candidate: Candidate) -> FrontierPoint:
        """The candidate made and measured."""
        made = self._prepared(candidate)
        quality = self._quality(made, verification_texts(), full=self._options.gate == "full", scores=True)
        return FrontierPoint(
            name=candidate.name,
            bytes=made.file.stat().st_size,
            compressed_bytes=self._remembered(
                "weighed", made, {"zstd": FRAMES}, lambda: len(compress(made.file.read_bytes()))
            ),
            milliseconds=self._remembered("timed", made, {}, lambda: model_latency(made.file)),
            quality=quality,
            within=not self._shortfalls(quality),
        )

    def loss(self, candidate: Candidate) -> float:
        """One less the mean cosine to full precision, over a few texts."""
        texts = verification_texts()
        some = texts[:: max(len(texts) // FEW_TEXTS, 1)]
        return 1.0 - self._quality(self._prepared(candidate), some).mean_cosine

    def _shortfalls(self, quality: Verification) -> list[str]:
        return shortfalls(quality, replace(self._options, **NEIGHBOURS) if quality.scores else self._options)

    def _prepared(self, candidate: Candidate) -> PreparedModel:
        options = replace(self._options, recipe=candidate.recipe, score_recipe=None)
        return prepare_model(
            self._source,
            options=options,
            platform=self._device,
            kept=self._kept,
            context=QuietContext(self._context),
        )

    def _quality(
        self, made: PreparedModel, texts: Sequence[str], *, full: bool = False, scores: bool = False
    ) -> Verification:
        def measure() -> dict[str, Any]:
            def embed(some: Sequence[Text], batch_size: int = 1) -> Any:
                return embed_with_onnxruntime(made.file, made.source, some, batch_size=batch_size)

            # As the program of a bundle does it: a model whose vectors depend on the batch gets one text at a time.
            batch_size = 1 if made.batch_dependent else COMPANY
            found = measure_quality(
                embed,
                self._source,
                texts,
                together=lambda some: embed(some, batch_size),
                full=full,
                context=self._context,
            )
            if scores and self._source.head is not None:
                found = replace(found, scores=scores_of(embed, self._source, texts, context=self._context))
            return asdict(found)

        inputs = {"tokenizer": sha256_of(made.source.tokenizer), "texts": json.dumps(list(texts))}
        inputs |= {"reference": json.dumps(source_key(self._source))}
        inputs |= {"full": str(full), "head": _head_digest(self._source) if scores else ""}
        return read_table(Verification, self._remembered("measured", made, inputs, measure))

    def _remembered(
        self, kind: str, made: PreparedModel, inputs: dict[str, str], measure: Callable[[], Any]
    ) -> Any:
        """Figures of ``measure``, from the store where it has been measured on this processor before."""

        def make(folder: Path) -> None:
            (folder / FIGURES).write_text(json.dumps(measure()), encoding="utf-8")

        key = {
            **inputs,
            "file": sha256_of(made.file),
            "processor": _processor(),
            "by": digest_of_code("models", "recipes", "verifier"),
        }
        folder = self._context.store.cached(kind, key, make)
        return json.loads((folder / FIGURES).read_text(encoding="utf-8"))


class QuietContext:
    """A context whose notes nobody hears: a search makes dozens of models."""

    def __init__(self, context: BuildContext) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def note(self, message: str) -> None:
        """Say nothing."""


def model_latency(file: Path) -> float:
    """CPU time of one text of ``TOKENS`` on one thread: the shortest of rounds, by the stock library.

    CPU time and not the clock's, and the shortest: other work on the machine matters less.
    """
    options = session_options()
    options.intra_op_num_threads = 1
    session = open_session(file, options)
    # Ids that every vocabulary has.
    ids = np.arange(TOKENS, dtype=np.int64)[None] % 8 + 1
    values = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    feed = {each.name: values[each.name] for each in session.get_inputs()}
    session.run(None, feed)
    times = []
    for _ in range(ROUNDS):
        start = process_time()
        for _ in range(RUNS):
            session.run(None, feed)
        times.append((process_time() - start) / RUNS)
    return 1000 * min(times)


def _fused(model: onnx.ModelProto) -> onnx.ModelProto:
    return fuse(model, lambda note: None, attention="MultiHeadAttention", embeddings=False)


def _head_digest(source: ModelSource) -> str:
    """Digest of the last layer, which is no part of the model file; empty where there is none."""
    if (head := source.head) is None:
        return ""
    layer = b"".join(part.tobytes() for part in head_weights(head, source.dimension))
    return hashlib.sha256(layer + f"{head.task} {head.activation}".encode()).hexdigest()


def _processor() -> str:
    """Processor in words, which latency depends on, as far as it can be known."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    named = [line for line in lines if line.startswith(("model name", "flags"))]
    return " ".join(named[:2]) or platform.machine()
