"""Models of every architecture that is written without PyTorch, with random weights, as transformers saves them (``recorded``)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgepack.records.model import ModelSource, Pooling
from tests.support.berts import Tokens, source_of
from tests.support.recorded import Judged, Weights, form_of, save_model
from tests.support.tiny import tokenizer_document, write_json


@dataclass(frozen=True, kw_only=True)
class Family:
    """An architecture: transformers' classes, what its configuration calls things, and which token is padding."""

    config: str
    model: str
    small: dict[str, Any]
    """A shape that takes milliseconds."""
    padding: int = 0
    types: bool = False
    """Whether it has token types."""
    norm: float = 1.0
    """About what the weights of norms are."""
    called: str = ""
    """``model_type`` of models whose code is not transformers', where the weights are the same."""


SMALL: dict[str, Any] = {
    "vocab_size": 60,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 40,
}
DISTIL: dict[str, Any] = {
    "vocab_size": 60,
    "dim": 32,
    "n_layers": 2,
    "n_heads": 4,
    "hidden_dim": 48,
    "max_position_embeddings": 40,
}
ALBERT: dict[str, Any] = {**SMALL, "num_hidden_layers": 4, "embedding_size": 12, "num_hidden_groups": 2}
DEBERTA: dict[str, Any] = {
    **SMALL,
    "relative_attention": True,
    "pos_att_type": "p2c|c2p",
    "position_buckets": 8,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "position_biased_input": False,
}
"""As v3 has it."""
MODERN: dict[str, Any] = {
    **SMALL,
    "num_hidden_layers": 4,
    "local_attention": 6,
    **dict.fromkeys(("pad_token_id", "eos_token_id", "bos_token_id", "cls_token_id", "sep_token_id"), 0),
}
"""Layers of both kinds, and texts longer than the window."""
DECODER: dict[str, Any] = {**MODERN, "num_key_value_heads": 2, "hidden_act": "silu", "max_window_layers": 2}
"""Heads share keys."""
DECODER.pop("local_attention")
SLIDING: dict[str, Any] = {"use_sliding_window": True, "sliding_window": 5}
GEMMA: dict[str, Any] = {
    **{key: value for key, value in DECODER.items() if key not in ("hidden_act", "max_window_layers")},
    "num_key_value_heads": 1,
    "head_dim": 12,
    "query_pre_attn_scalar": 9,
    "sliding_window": 6,
    "use_bidirectional_attention": True,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
}
GEMMA2: dict[str, Any] = {
    **{
        key: value
        for key, value in GEMMA.items()
        if key not in ("query_pre_attn_scalar", "use_bidirectional_attention")
    },
    "num_key_value_heads": 2,
    "global_head_dim": 16,
    "num_global_key_value_heads": 1,
    "hidden_size_per_layer_input": 20,
    "embedding_dim": 40,
    "sliding_window": 3,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
    "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
        "full_attention": {
            "rope_type": "proportional",
            "rope_theta": 1_000_000.0,
            "partial_rotary_factor": 0.25,
        },
    },
}
"""Two shapes of heads, of the wider of which a quarter is rotated, and vectors longer than the layers'."""

FAMILIES = {
    "bert": Family(config="BertConfig", model="BertModel", small=SMALL, types=True),
    "roberta": Family(config="RobertaConfig", model="RobertaModel", small=SMALL, padding=1),
    "xlm-roberta": Family(config="XLMRobertaConfig", model="XLMRobertaModel", small=SMALL, padding=1),
    "camembert": Family(config="CamembertConfig", model="CamembertModel", small=SMALL, padding=1),
    "mpnet": Family(config="MPNetConfig", model="MPNetModel", small=SMALL, padding=1),
    "distilbert": Family(config="DistilBertConfig", model="DistilBertModel", small=DISTIL),
    "modernbert": Family(config="ModernBertConfig", model="ModernBertModel", small=MODERN),
    "albert": Family(config="AlbertConfig", model="AlbertModel", small=ALBERT, types=True),
    "deberta-v2": Family(config="DebertaV2Config", model="DebertaV2Model", small=DEBERTA),
    "gte": Family(config="GteConfig", model="GteModel", small=SMALL, padding=1),
    "new": Family(
        config="GteConfig",
        model="GteModel",
        small={**SMALL, "type_vocab_size": 2},
        padding=1,
        types=True,
        called="new",
    ),
    "embedding_gemma2_text": Family(
        config="EmbeddingGemma2TextConfig", model="EmbeddingGemma2TextModel", small=GEMMA2
    ),
    "gemma3_text": Family(config="Gemma3TextConfig", model="Gemma3TextModel", small=GEMMA, norm=0.0),
    "llama": Family(config="LlamaConfig", model="LlamaModel", small={**DECODER, "num_key_value_heads": 4}),
    "mistral": Family(config="MistralConfig", model="MistralModel", small={**DECODER, "sliding_window": 5}),
    "qwen2": Family(config="Qwen2Config", model="Qwen2Model", small={**DECODER, **SLIDING}),
    "qwen3": Family(config="Qwen3Config", model="Qwen3Model", small={**DECODER, **SLIDING, "head_dim": 12}),
    "nomic_bert": Family(config="NomicBertConfig", model="NomicBertModel", small=SMALL, types=True),
}

ELECTRA = Family(
    config="ElectraConfig", model="ElectraModel", small={**SMALL, "embedding_size": 16}, types=True
)
"""What docs/plugins.md writes a plugin for."""


def family_of(kind: str) -> Family:
    """An architecture by its name."""
    return ELECTRA if kind == "electra" else FAMILIES[kind]


def write_family(
    folder: Path, kind: str, *, pooling: Pooling | None = None, std: float = 0.3, **shape: Any
) -> tuple[ModelSource, Judged]:
    """A model folder with random weights, as a source, and whom to ask what transformers makes of it."""
    weights = Weights(std=std, norm=FAMILIES[kind].norm)
    judged = save_model(folder, form_of(kind, shape), weights)
    write_json(folder / "tokenizer.json", tokenizer_document())
    return source_of(folder, pooling=pooling), judged


def tokens_of(kind: str, *, lengths: tuple[int, ...] = (9, 5, 2, 12), vocabulary: int = 60) -> Tokens:
    """Texts of these lengths, filled up on the right with the architecture's own padding token."""
    family = FAMILIES[kind]
    random = np.random.default_rng(3)
    mask = (np.arange(max(lengths))[None, :] < np.array(lengths)[:, None]).astype(np.int64)
    ids = np.where(mask == 1, random.integers(4, vocabulary, mask.shape), family.padding)
    types = np.where(np.arange(max(lengths))[None, :] > max(lengths) // 2, mask, 0)
    return Tokens(ids=ids, mask=mask, types=types if family.types else np.zeros_like(ids))
