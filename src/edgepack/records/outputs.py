"""What a model gives of a text beside, or in the place of, one vector: weights of tokens, and a vector for each token."""

from dataclasses import dataclass
from typing import Literal

from edgepack.records.layers import Dense


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """A masked language model's head: of each token's vector a number for every token of the vocabulary (SPLADE)."""

    transform: Dense
    matrix: str
    """The tensor [tokens of the vocabulary, hidden], in the file of ``transform``; often the table of word embeddings."""
    bias: str
    strategy: Literal["max", "sum"]
    """How the tokens' numbers become the text's."""
    logs: int
    """How often log(1 + x) is taken of what is above zero."""


@dataclass(frozen=True, kw_only=True)
class Sparse:
    """A text as weights of some tokens of the vocabulary."""

    size: int
    """Tokens of the vocabulary."""
    vocabulary: Vocabulary | None = None
    """Where the weights are the text's vector itself, which has a number for each token of the vocabulary."""
    weight: Dense | None = None
    """Where each token of the text has a weight: max(0, vector · weightᵀ + bias); the largest of equal tokens counts."""
    skip: tuple[int, ...] = ()
    """Ids of tokens that have no weight."""


@dataclass(frozen=True, kw_only=True)
class Side:
    """How a query, or a document, is read for its tokens' vectors, and which of them are given out."""

    marker: int | None = None
    """The id that goes behind the first token."""
    prefix: str = ""
    """Put before the text."""
    length: int = 0
    """Tokens that a text is cut to, special ones and the marker included; 0: the model's limit."""
    expand: int | None = None
    """The id that fills a shorter text up to ``least``; those tokens have vectors, too."""
    least: int = 0
    attend: bool = False
    """Whether other tokens attend to those."""
    skip: tuple[int, ...] = ()
    """Ids of tokens whose vectors are left out."""


@dataclass(frozen=True, kw_only=True)
class MultiVector:
    """A vector of length 1 for each token of a text."""

    dense: tuple[Dense, ...]
    """The linear layers behind each token's vector."""
    dimension: int
    first: int = 0
    """How many tokens at the beginning are left out."""
    query: Side = Side()
    document: Side = Side()


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """Outputs of a model; ``dense``: one vector per text as well, which is for comparing texts."""

    dense: bool = False
    sparse: Sparse | None = None
    multi_vector: MultiVector | None = None

    @property
    def noun(self) -> str:
        """Kind of model that has such outputs."""
        if self.dense:
            return "an embedding model of several outputs"
        return "a sparse encoder" if self.sparse else "a multi-vector encoder"

    @property
    def width(self) -> int:
        """Numbers that its graph gives for each token: the token's vector, then its weight."""
        weights = 1 if self.sparse and self.sparse.weight else 0
        return (self.multi_vector.dimension if self.multi_vector else 0) + weights

    @property
    def tokens(self) -> frozenset[int]:
        """Tokens that are named by their numbers, in the settings and not in texts."""
        found = set(self.sparse.skip) if self.sparse else set()
        for side in (self.multi_vector.query, self.multi_vector.document) if self.multi_vector else ():
            found |= {*side.skip, *(each for each in (side.marker, side.expand) if each is not None)}
        return frozenset(found)

    @property
    def graph(self) -> str:
        """All that decides the graph, beside the content of the model's files."""
        said = [f"dense {self.dense}"]
        if self.sparse and (head := self.sparse.vocabulary):
            said.append(f"{head.strategy} of {head.logs} logarithms, {head.matrix}")
        elif self.sparse:
            said.append("weights")
        if self.multi_vector:
            said += [f"{each.inputs} → {each.outputs} {each.activation}" for each in self.multi_vector.dense]
        return ", ".join(said)
