"""What a model's files say that it gives beside, or in the place of, one vector a text."""

from dataclasses import replace
from pathlib import Path

from edgepack.errors import ModelError
from edgepack.models.outputs.tokens import Tokens
from edgepack.models.read.model_folder import ModelFolder
from edgepack.models.read.pooling import VectorReading
from edgepack.models.read.safetensors import TensorFile
from edgepack.records.layers import Dense
from edgepack.records.outputs import MultiVector, Outputs, Sparse

SPARSE_LINEAR, VECTOR_LINEAR = "sparse_linear.pt", "colbert_linear.pt"


def has_three_heads(folder: ModelFolder) -> bool:
    """Whether a folder has the linear layers of BGE-M3, whose dense vector is like any other's."""
    return any(folder.has(name) for name in (SPARSE_LINEAR, VECTOR_LINEAR))


def with_three_heads(
    vector: VectorReading, folder: ModelFolder, tokenizer: Path, hidden: int, vocabulary: int
) -> VectorReading:
    """The dense vector, and what else FlagEmbedding's BGEM3FlagModel gives. Raises ``ModelError``.

    The layers may be there in part; special tokens have no weight, the first token has no vector.
    """
    tokens = Tokens.read(folder, tokenizer)
    sparse = vectors = None
    if folder.has(SPARSE_LINEAR):
        names = ("cls_token", "eos_token", "pad_token", "unk_token")
        ids = {tokens.special(name) for name in names} - {None}
        weight = linear(folder.tensors(folder.directory / SPARSE_LINEAR), inputs=hidden, outputs=1)
        sparse = Sparse(
            size=vocabulary, weight=weight, skip=tuple(sorted(each for each in ids if each is not None))
        )
    if folder.has(VECTOR_LINEAR):
        layer = linear(folder.tensors(folder.directory / VECTOR_LINEAR), inputs=hidden)
        vectors = MultiVector(dense=(layer,), dimension=layer.outputs, first=1)
    files = tuple(name for name in (SPARSE_LINEAR, VECTOR_LINEAR) if folder.has(name))
    outputs = Outputs(dense=True, sparse=sparse, multi_vector=vectors)
    return replace(vector, outputs=outputs, files=(*vector.files, *files, *tokens.files))


def linear(file: TensorFile, *, inputs: int, outputs: int | None = None, tensor: str = "") -> Dense:
    """A linear layer of these tensors, its shape checked. Raises ``ModelError``."""
    tensors, path = file.tensors, file.path
    before = f"{tensor}." if tensor else ""
    found = tensors.get(f"{before}weight")
    if found is None:
        raise ModelError(
            f"{path.name} has no tensor {before}weight: without that layer tokens have no vectors or weights",
            hint="the file is of another model, or the layer was not saved with it",
        )
    if len(found.shape) != 2 or found.shape[1] != inputs or found.shape[0] != (outputs or found.shape[0]):
        raise ModelError(
            f"{path.name}: {before}weight has shape {list(found.shape)}, the model requires [{outputs or 'any'}, {inputs}]",
            hint="the file is of another model; get both from one place",
        )
    return Dense(
        file=path,
        inputs=inputs,
        outputs=found.shape[0],
        bias=f"{before}bias" in tensors,
        activation=None,
        tensor=tensor,
    )
