"""Texts that show a pass what activations look like: the user's own, or a built-in set of plain sentences.

Static ranges and error-compensating rounding need them. MinMax over them is what holds for BERT; percentiles ruin it
(https://github.com/microsoft/onnxruntime/issues/10571).
"""

from collections.abc import Iterator, Mapping
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx

from edgepack.errors import UsageError
from edgepack.models.graph.sample_inputs import Feed, random_tokens, vocabulary
from edgepack.models.reference import token_batches
from edgepack.quantization.arrays import Doubles
from edgepack.quantization.observers import second_moments
from edgepack.records.model import ModelSource
from edgepack.records.recipe import Material

LARGEST_FILE = 64 * 2**20
RANDOM_SEQUENCES = 64
SEED = 21
REPLACED = 0.3
"""Of a varied text's tokens, how many are others."""


def built_in_texts() -> tuple[str, ...]:
    """Queries, sentences, definitions, code and other languages: 110 lines, none of them a verification text."""
    return _lines("calibration.txt")


def more_texts() -> tuple[str, ...]:
    """The built-in ones and others for gradients, which tell of more kinds than activations need: talk, headlines, words, numbers, letters
    without sense, paragraphs; none of them a text of the gate.
    """
    return (*built_in_texts(), *_lines("further.txt"))


def _lines(file: str) -> tuple[str, ...]:
    text = (files("edgepack.quantization") / "data" / file).read_text(encoding="utf-8")
    return tuple(text.splitlines())


def read_texts(path: Path) -> tuple[str, ...]:
    """The lines of a text file that are not blank. Raises ``UsageError`` when there are none."""
    hint = "a calibration file is UTF-8 text, one text a line; a few hundred lines are plenty"
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise UsageError(f"{path} is too large for calibration texts", hint=hint)
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", hint=hint) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not text in UTF-8", hint=hint) from error
    texts = tuple(line for line in lines if line.strip())
    if not texts:
        raise UsageError(f"{path} holds no calibration texts", hint=hint)
    return texts


def takes_pairs(source: ModelSource) -> bool:
    """Whether the model was made for a query and a text together."""
    return source.head is not None and source.head.task == "rank"


def calibration_feeds(model: onnx.ModelProto, material: Material) -> Iterator[Feed]:
    """Inputs of one run each, int64 [1, tokens]: the texts', or random tokens where there is no tokenizer.

    A reranker is given pairs, each text with the one that follows: what its layers take of a text alone is something else.
    """
    if material.source is None:
        yield from random_tokens(model, RANDOM_SEQUENCES)
        return
    names = [each.name for each in model.graph.input]
    texts = material.texts or built_in_texts()
    pairs = takes_pairs(material.source)
    for feed in token_batches(material.source, [*pairwise((*texts, texts[0]))] if pairs else texts, 1):
        yield {name: feed[name] for name in names if name in feed}


def varied_feeds(model: onnx.ModelProto, material: Material, *, variants: int) -> Iterator[Feed]:
    """The calibration texts, then as many ``variants`` of each, with three tokens of ten replaced.

    Half of the new tokens are the texts' own, as often as they are met there, half any of the vocabulary. For
    all-MiniLM-L6-v2 what GPTQ loses with 110 texts and ten variants of each is what it loses with 1,500 texts. The first and
    the last token, which are special ones, stay, and so does what parts two texts.
    """
    feeds = list(calibration_feeds(model, material))
    yield from feeds
    if not feeds or "input_ids" not in feeds[0]:
        return
    pairs = material.source is not None and takes_pairs(material.source)
    random = np.random.default_rng(SEED)
    met = np.concatenate([feed["input_ids"][0, 1:-1] for feed in feeds])
    rows = vocabulary(model)
    for _ in range(variants if len(met) else 0):
        for feed in feeds:
            ids = feed["input_ids"]
            others = np.where(
                random.random(ids.shape) < 0.5,
                random.choice(met, ids.shape),
                random.integers(0, rows, ids.shape),
            )
            replaced = random.random(ids.shape) < REPLACED
            replaced[:, [0, -1]] = False
            if pairs:
                replaced[ids == ids[0, -1]] = False
            yield {**feed, "input_ids": np.where(replaced, others, ids)}


def input_moments(
    model: onnx.ModelProto, inputs: Mapping[str, str], material: Material, *, variants: int = 0
) -> dict[str, Doubles]:
    """Second moments of the values that matrices take (``matrix_inputs``), over the calibration texts and their variants."""
    values = sorted(set(inputs.values()))
    return second_moments(model, values, _shown(model, material, variants)) if values else {}


def _shown(model: onnx.ModelProto, material: Material, variants: int) -> Iterator[Feed]:
    texts = len(material.texts or built_in_texts()) if material.source else RANDOM_SEQUENCES
    with material.progress("run calibration texts", texts * (1 + variants)) as advance:
        for feed in varied_feeds(model, material, variants=variants):
            yield feed
            advance()
