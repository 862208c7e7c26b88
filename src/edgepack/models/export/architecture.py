"""What writes the graph of one kind of model: edgepack's own architectures and plugins' alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:  # plugins import this to register, which is light
    from edgepack.models.graph.writer import GraphWriter, TokenVectors
    from edgepack.models.read.safetensors import TensorFile


class Architecture(Protocol):
    """Writes the graph of one kind of model from its configuration and weights."""

    def __call__(
        self, config: Mapping[str, Any], weights: TensorFile, writer: GraphWriter, /
    ) -> TokenVectors:
        """Write the encoder, which computes token vectors, float32 [batch, sequence, hidden].

        The graph's inputs are ``input_ids``, ``attention_mask`` and ``token_type_ids``, int64 [batch, sequence]; the encoder
        uses those that it needs. The host adds pooling and normalization. Raises ``UnsupportedModelError`` for a model of
        this kind that it cannot write.
        """
