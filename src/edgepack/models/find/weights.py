"""The file that a model's numbers are in, tensors or a ready-made graph, and what it says itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from edgepack.context import BuildContext
from edgepack.errors import ModelError
from edgepack.models.graph.onnx_file import (
    output_dimension,
    output_shapes,
    precision_of_file,
    require_external_files,
    vocabulary_rows,
)
from edgepack.models.lower.adapt import dimension_of_graph, longest_text_of_graph
from edgepack.models.read import hub_layout
from edgepack.models.read.documents import require_one_value, size_of
from edgepack.models.read.model_folder import ModelFolder
from edgepack.models.read.purpose import Evidence, Shapes
from edgepack.models.read.quantize_record import read_made_small
from edgepack.models.read.safetensors import TensorFile, embedding_table
from edgepack.records.model import FLOAT_PRECISIONS, FULL_PRECISION


@dataclass(frozen=True, kw_only=True)
class Weights:
    """A file, opened."""

    file: Path
    tensors: TensorFile | None = None
    """``None`` of a graph."""
    outputs: Shapes = field(default_factory=dict)
    """Of a graph: name → shape."""

    @property
    def is_graph(self) -> bool:
        return self.tensors is None

    def added_to(self, evidence: Evidence) -> Evidence:
        """The evidence of the documents, and that of this file."""
        tensors = self.tensors.tensors if self.tensors else {}
        shapes = {name: tensor.shape for name, tensor in tensors.items()}
        return replace(evidence, tensors=shapes, outputs=self.outputs)

    def longest_text(self, at_most: int, *, context: BuildContext) -> int:
        """Tokens of the longest text that it takes, as far as the file can be asked: a graph is run."""
        return longest_text_of_graph(self.file, at_most, context=context) if self.is_graph else at_most


@dataclass(frozen=True, kw_only=True)
class Size:
    """Measures of a model's weights."""

    files: tuple[Path, ...]
    """Those that hold the weights."""
    dimension: int
    """Numbers in a token's vector; of a graph that pools itself, in a text's."""
    rows: int | None
    """Of the embedding table, if known."""
    precision: str = FULL_PRECISION
    warnings: tuple[str, ...] = ()


def open_weights(folder: ModelFolder, file: Path) -> Weights:
    """Raises ``ModelError`` for a file that is damaged."""
    if file.suffix == ".onnx":
        return Weights(file=file, outputs=output_shapes(file))
    return Weights(file=file, tensors=folder.tensors(file))


def size_of_weights(weights: Weights, config: Mapping[str, Any], context: BuildContext) -> Size:
    """Raises ``ModelError`` where config.json says otherwise."""
    if weights.tensors is None:
        return _of_graph(weights.file, config, context)
    tensors = weights.tensors
    if (named := config.get("transformers_weights")) not in (None, weights.file.name):
        raise ModelError(
            f"config.json names {str(named)[:80]!r} for its weights, which transformers 5 reads in the place of {weights.file.name}",
            hint=f"give that file the name {weights.file.name}, and leave transformers_weights out",
        )
    require_one_value(config)
    dimension, width = (
        size_of(config, next((each for each in keys if each in config), "hidden_size"))
        for keys in (hub_layout.DIMENSION_KEYS, hub_layout.WIDTH_KEYS)
    )
    rows = size_of(config, "vocab_size")
    width = config.get("embedding_size", config.get("input_embedding_size", width))
    table = embedding_table(tensors)
    if table is not None and table != (rows, width):
        raise ModelError(
            f"config.json states {rows} tokens of {width} numbers, {weights.file.name} holds {table[0]} of {table[1]}",
            hint="the two files are of different models",
        )
    quantized = "config.json has quantization_config, by which transformers makes other numbers of the weights: these are taken as they are"
    warnings = (quantized,) * bool(config.get("quantization_config"))
    return Size(files=tensors.files, dimension=dimension, rows=rows, warnings=warnings)


def _of_graph(file: Path, config: Mapping[str, Any], context: BuildContext) -> Size:
    """It is run where nothing says how long its vectors are."""
    made = read_made_small(config)
    said = made.dimension if made else hub_layout.dimension_of(config) or output_dimension(file)
    vocabulary = config.get("vocab_size")
    precision, warnings = (made.precision, made.warnings) if made else (precision_of_file(file), ())
    if precision not in FLOAT_PRECISIONS:
        quantized = (
            f"quantized already ({precision}): compared with this file, not with the full-precision model"
        )
        warnings = (*warnings, quantized)
    return Size(
        files=(file, *require_external_files(file)),
        dimension=said or dimension_of_graph(file, context=context),
        rows=vocabulary if isinstance(vocabulary, int) else vocabulary_rows(file),
        precision=precision,
        warnings=warnings,
    )
