"""Texts that show a pass what activations look like: the user's own, or a built-in set of plain sentences.

Static ranges and error-compensating rounding need them. MinMax over them is what holds for BERT; percentiles ruin it
(https://github.com/microsoft/onnxruntime/issues/10571).
"""

from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path

import onnx

from edgepack.errors import UsageError
from edgepack.models.graph.sample_inputs import Feed, random_tokens
from edgepack.models.reference import token_batches
from edgepack.quantization.arrays import Doubles
from edgepack.quantization.observers import second_moments
from edgepack.records.recipe import Material

LARGEST_FILE = 64 * 2**20
RANDOM_SEQUENCES = 64


def built_in_texts() -> tuple[str, ...]:
    """Queries, sentences, definitions, code and other languages: 110 lines, none of them a verification text."""
    text = (files("edgepack.quantization") / "data" / "calibration.txt").read_text(encoding="utf-8")
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


def calibration_feeds(model: onnx.ModelProto, material: Material) -> Iterator[Feed]:
    """Inputs of one run each, int64 [1, tokens]: the texts', or random tokens where there is no tokenizer."""
    if material.source is None:
        yield from random_tokens(model, RANDOM_SEQUENCES)
        return
    names = [each.name for each in model.graph.input]
    for feed in token_batches(material.source, material.texts or built_in_texts(), 1):
        yield {name: feed[name] for name in names if name in feed}


def input_moments(
    model: onnx.ModelProto, inputs: Mapping[str, str], material: Material
) -> dict[str, Doubles]:
    """Second moments of the values that matrices take (``matrix_inputs``), over the calibration texts."""
    values = sorted(set(inputs.values()))
    return second_moments(model, values, calibration_feeds(model, material)) if values else {}
