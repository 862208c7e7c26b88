"""What a model's files say that it gives beside, or in the place of, one vector a text."""

from dataclasses import dataclass
from pathlib import Path

from edgepack.errors import ModelError
from edgepack.models.outputs.tokens import Tokens
from edgepack.models.read.safetensors import open_tensors
from edgepack.records.model import Dense, Pooling
from edgepack.records.outputs import MultiVector, Outputs, Sparse

SPARSE_LINEAR, VECTOR_LINEAR = "sparse_linear.pt", "colbert_linear.pt"


@dataclass(frozen=True, kw_only=True)
class OutputsReading:
    """What a model gives, and how the vector of a text is made that goes with it."""

    outputs: Outputs
    pooling: Pooling
    dimension: int
    """Numbers in that vector."""
    files: tuple[str, ...]
    """Those that say it, beside config.json."""


def has_three_heads(directory: Path) -> bool:
    """Whether a folder has the linear layers of BGE-M3, whose dense vector is like any other's."""
    return any((directory / name).is_file() for name in (SPARSE_LINEAR, VECTOR_LINEAR))


def read_three_heads(
    directory: Path, tokenizer: Path, hidden: int, vocabulary: int
) -> tuple[Outputs, tuple[str, ...]]:
    """What FlagEmbedding's BGEM3FlagModel gives, and the files that say it. Raises ``ModelError``.

    The layers may be there in part; special tokens have no weight, the first token has no vector.
    """
    tokens = Tokens.read(directory, tokenizer)
    sparse = vectors = None
    if (directory / SPARSE_LINEAR).is_file():
        names = ("cls_token", "eos_token", "pad_token", "unk_token")
        ids = {tokens.special(name) for name in names} - {None}
        weight = linear(directory / SPARSE_LINEAR, inputs=hidden, outputs=1)
        sparse = Sparse(
            size=vocabulary, weight=weight, skip=tuple(sorted(each for each in ids if each is not None))
        )
    if (directory / VECTOR_LINEAR).is_file():
        layer = linear(directory / VECTOR_LINEAR, inputs=hidden)
        vectors = MultiVector(dense=(layer,), dimension=layer.outputs, first=1)
    files = tuple(name for name in (SPARSE_LINEAR, VECTOR_LINEAR) if (directory / name).is_file())
    return Outputs(dense=True, sparse=sparse, multi_vector=vectors), (*files, *tokens.files)


def linear(file: Path, *, inputs: int, outputs: int | None = None, tensor: str = "") -> Dense:
    """A linear layer of these tensors, its shape checked. Raises ``ModelError``."""
    tensors = open_tensors(file).tensors
    before = f"{tensor}." if tensor else ""
    found = tensors.get(f"{before}weight")
    if found is None:
        raise ModelError(
            f"{file.name} has no tensor {before}weight: without that layer tokens have no vectors or weights",
            hint="the file is of another model, or the layer was not saved with it",
        )
    if len(found.shape) != 2 or found.shape[1] != inputs or found.shape[0] != (outputs or found.shape[0]):
        raise ModelError(
            f"{file.name}: {before}weight has shape {list(found.shape)}, the model requires [{outputs or 'any'}, {inputs}]",
            hint="the file is of another model; get both from one place",
        )
    return Dense(
        file=file,
        inputs=inputs,
        outputs=found.shape[0],
        bias=f"{before}bias" in tensors,
        activation=None,
        tensor=tensor,
    )
