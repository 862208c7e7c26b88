"""A model folder in the Hugging Face layout, read and checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from edgepack.errors import ModelError
from edgepack.files.store import digest_file
from edgepack.models.graph.inspect import output_dimension, require_external_files, vocabulary_rows
from edgepack.models.read import layout
from edgepack.models.read.card import read_license
from edgepack.models.read.documents import positive, read_optional
from edgepack.models.read.layout import Weights
from edgepack.models.read.modules import read_max_length, read_pooling, read_prompts
from edgepack.models.read.tokenizer import highest_token
from edgepack.models.read.weights import embedding_table, safetensors_shapes
from edgepack.records.model import ModelSource


def read_folder(
    directory: Path,
    *,
    name: str,
    origin: str,
    note: Callable[[str], None],
    onnx: Path | None = None,
    license: str | None = None,
) -> ModelSource:
    """The model in a folder; with ``onnx``, that graph of it, whose config.json may then be missing.

    ``license`` stands where the folder has no model card. Raises ``ModelError`` or ``UnsupportedModelError``.
    """
    names = list_names(directory)
    layout.require_tokenizer(names, name)
    if onnx is None:
        layout.require_config(names, name)
    config = read_optional(directory / "config.json")
    if onnx is None:
        chosen = layout.choose_weights(names, config, name)
    else:
        chosen = Weights(onnx=onnx.relative_to(directory).as_posix())
    pooling, pooled, pooling_files = read_pooling(directory, note=note)
    max_length, length_files = read_max_length(directory, config, note=note)
    prompts, prompt_files = read_prompts(directory, note=note)
    weight_files, dimension, rows = _measure(directory, chosen, config)
    _require_agreement("1_Pooling/config.json", pooled, dimension)
    _require_vocabulary(directory / "tokenizer.json", rows)
    used = {"tokenizer.json", *pooling_files, *length_files, *prompt_files, *weight_files}
    used |= {"config.json", "sentence_bert_config.json"} & set(names)
    return ModelSource(
        name=name,
        origin=origin,
        directory=directory,
        weights=directory / chosen.safetensors if chosen.safetensors else None,
        onnx=directory / chosen.onnx if chosen.onnx else None,
        tokenizer=directory / "tokenizer.json",
        config=config,
        pooling=pooling,
        max_length=max_length,
        dimension=dimension,
        license=read_license(directory / "README.md") or license,
        files=tuple(digest_file(directory / path, relative_to=directory) for path in sorted(used)),
        prompts=prompts,
    )


def list_names(directory: Path) -> list[str]:
    """POSIX paths of the files in a folder and in the folders right below it, hidden ones left out."""
    found = [*directory.glob("*"), *directory.glob("*/*")]
    names = (path.relative_to(directory).as_posix() for path in found if path.is_file())
    return sorted(name for name in names if not name.startswith(".") and "/." not in name)


def _measure(
    directory: Path, chosen: Weights, config: Mapping[str, Any]
) -> tuple[tuple[str, ...], int, int | None]:
    """The files that hold the weights, the dimension of the vectors, and the rows of the embedding table if known."""
    if chosen.safetensors is not None:
        shapes = safetensors_shapes(directory / chosen.safetensors)
        key = next((each for each in layout.DIMENSION_KEYS if each in config), "hidden_size")
        dimension = positive(config, key, "config.json")
        rows = positive(config, "vocab_size", "config.json")
        table = embedding_table(shapes)
        if table is not None and table != (rows, config.get("embedding_size", dimension)):
            raise ModelError(
                f"config.json speaks of {rows} tokens of {dimension} numbers, {chosen.safetensors} holds "
                f"{table[0]} of {table[1]}",
                hint="the two files are of different models",
            )
        return (chosen.safetensors,), dimension, rows
    assert chosen.onnx is not None
    graph = directory / chosen.onnx
    files = tuple(path.relative_to(directory).as_posix() for path in require_external_files(graph))
    dimension = layout.dimension_of(config) or output_dimension(graph)
    vocabulary = config.get("vocab_size")
    said = vocabulary if isinstance(vocabulary, int) else vocabulary_rows(graph)
    return (chosen.onnx, *files), dimension, said


def _require_agreement(where: str, said: int | None, dimension: int) -> None:
    if said is not None and said != dimension:
        raise ModelError(
            f"{where} pools vectors of {said} numbers, the model makes {dimension}",
            hint="the two files are of different models",
        )


def _require_vocabulary(tokenizer: Path, rows: int | None) -> None:
    highest = highest_token(tokenizer)
    if rows is not None and highest >= rows:
        raise ModelError(
            f"tokenizer.json has token {highest}, the model's embedding table has {rows} rows",
            hint="tokenizer and weights are of different models",
        )
