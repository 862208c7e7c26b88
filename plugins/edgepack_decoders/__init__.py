"""Decoders that embedders are made from: Qwen, Llama, Mistral and Gemma 3, from their weights and without PyTorch."""

from collections.abc import Iterable

from edgepack.api import Spec, hookimpl

FAMILIES = {
    "embedding_gemma2_text": "EmbeddingGemma 2, its text part",
    "gemma3_text": "EmbeddingGemma",
    "llama": "embedders made from Llama and from what is written as Llama",
    "mistral": "embedders made from Mistral",
    "qwen2": "embedders made from Qwen2 and Qwen2.5",
    "qwen3": "Qwen3-Embedding, and others made from Qwen3",
}
"""``model_type`` of config.json → which models."""


def make() -> object:
    from edgepack_decoders.graph import write_decoder

    return write_decoder


@hookimpl
def edgepack_specs() -> Iterable[Spec]:
    return [
        Spec(axis="architecture", name=kind, summary=summary, make=make) for kind, summary in FAMILIES.items()
    ]
