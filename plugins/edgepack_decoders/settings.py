"""What config.json says of a decoder, checked, in one form for all families.

After transformers' ``configuration_*.py``, and both of their ways to write rotary positions and windows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgepack.api import ModelError, UnsupportedModelError
from edgepack.api.graphs import activation_of, rotary_base, size_of

FULL, SLIDING = "full_attention", "sliding_attention"
GEMMA = "gemma3_text"
KINDS = (FULL, SLIDING)
DAMAGED = "get config.json again from where the weights come from"
EXPORTED = "export the model to ONNX yourself and use the .onnx file"


@dataclass(frozen=True, kw_only=True)
class Layer:
    """What one layer looks at."""

    base: float
    """Of the rotation's frequencies."""
    reach: int | None
    """How many places away a token may be; ``None``: any number."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A decoder's shape, and what its family does its own way."""

    vocabulary: int
    hidden: int
    heads: int
    key_heads: int
    """Heads of key and value, each shared by as many of the query's."""
    head: int
    inner: int
    layers: Sequence[Layer]
    activation: str
    epsilon: float
    causal: bool
    """Whether a token does not see those after it."""
    scale: float
    """Of the scores."""
    head_norms: bool
    """Whether each head of query and key is normalised."""
    embedding_scale: float
    """What the words' vectors are multiplied by."""
    norm_offset: float
    """Added to the weight of every norm."""
    norms_after: bool
    """Whether what a half has made is normalised, too, before it is added to what came in."""
    biases: Mapping[str, bool]
    """Part of a layer → whether it has one: ``self_attn.q_proj``, ``self_attn.o_proj``, ``mlp.down_proj``."""

    def __post_init__(self) -> None:
        if self.heads % self.key_heads:
            raise ModelError(
                f"config.json: {self.heads} attention heads cannot share {self.key_heads} heads of keys",
                hint=DAMAGED,
            )


def read_settings(config: Mapping[str, Any]) -> Settings:
    """Check config.json of a decoder; raises ``ModelError`` or ``UnsupportedModelError``."""
    kind = str(config.get("model_type"))
    if config.get("is_causal") is False:
        raise UnsupportedModelError(
            "config.json says is_causal = false: code that comes with the model makes its tokens see those after them",
            hint=f"edgepack runs no code of a model; {EXPORTED}",
        )
    gemma = kind == GEMMA
    hidden, heads = size_of(config, "hidden_size"), size_of(config, "num_attention_heads")
    head = (
        size_of(config, "head_dim", 256 if gemma else None)
        if gemma or config.get("head_dim")
        else hidden // heads
    )
    if config.get("attn_logit_softcapping"):
        raise UnsupportedModelError(
            "config.json asks for capped scores (attn_logit_softcapping), which edgepack does not write",
            hint=EXPORTED,
        )
    given = config.get("num_key_value_heads")
    attention, inner = _biases(config, kind)
    return Settings(
        vocabulary=size_of(config, "vocab_size"),
        hidden=hidden,
        heads=heads,
        key_heads=heads if given is None else size_of(config, "num_key_value_heads"),
        head=head,
        inner=size_of(config, "intermediate_size"),
        layers=_layers(config, kind),
        activation=_activation(config, "hidden_activation" if gemma else "hidden_act"),
        epsilon=float(config.get("rms_norm_eps", 1e-6)),
        causal=not (gemma and config.get("use_bidirectional_attention")),
        scale=(size_of(config, "query_pre_attn_scalar", 256) if gemma else head) ** -0.5,
        head_norms=kind == "qwen3" or gemma,
        embedding_scale=hidden**0.5 if gemma else 1.0,
        norm_offset=1.0 if gemma else 0.0,
        norms_after=gemma,
        biases={
            "self_attn.q_proj": attention,
            "self_attn.o_proj": attention and kind != "qwen2",
            "mlp.down_proj": inner,
        },
    )


def _biases(config: Mapping[str, Any], kind: str) -> tuple[bool, bool]:
    """Of attention's and of the feed-forward part's matrices."""
    attention = kind == "qwen2" or (kind != "mistral" and bool(config.get("attention_bias")))
    return attention, kind == "llama" and bool(config.get("mlp_bias"))


def _activation(config: Mapping[str, Any], key: str) -> str:
    if config.get(key) == "silu":
        return "silu"
    return activation_of({key: "gelu_pytorch_tanh", **config}, key)


def _layers(config: Mapping[str, Any], kind: str) -> list[Layer]:
    count = size_of(config, "num_hidden_layers")
    if kind == GEMMA:
        return _gemma_layers(config, count)
    parameters = config.get("rope_scaling") or config.get("rope_parameters")
    base = rotary_base(parameters, config.get("rope_theta", 10_000.0))
    if (part := (parameters or {}).get("partial_rotary_factor", 1.0)) != 1.0:
        raise UnsupportedModelError(
            f"config.json asks for a part of each head to be rotated ({part}); edgepack rotates all of it",
            hint=EXPORTED,
        )
    window = None
    if SLIDING in (kinds := _kinds(config, kind, count)):
        window = size_of(config, "sliding_window") - 1
    return [Layer(base=base, reach=window if each == SLIDING else None) for each in kinds]


def _gemma_layers(config: Mapping[str, Any], count: int) -> list[Layer]:
    """Two bases, and a window that is said by its whole width where tokens see both ways."""
    parameters = config.get("rope_parameters") or {}
    own = {FULL: ("rope_theta", 1_000_000.0), SLIDING: ("rope_local_base_freq", 10_000.0)}
    scaled = {FULL: config.get("rope_scaling")}
    bases = {
        kind: rotary_base(scaled.get(kind) or parameters.get(kind), config.get(key, default))
        for kind, (key, default) in own.items()
    }
    window = size_of(config, "sliding_window", 4096)
    reach = window // 2 if config.get("use_bidirectional_attention") else window - 1
    kinds = _kinds(config, GEMMA, count)
    return [Layer(base=bases[kind], reach=reach if kind == SLIDING else None) for kind in kinds]


def _kinds(config: Mapping[str, Any], kind: str, count: int) -> Sequence[str]:
    """``full_attention`` or ``sliding_attention`` for each layer."""
    listed = config.get("layer_types")
    if kind in ("qwen2", "qwen3", GEMMA) and listed is not None:
        if not isinstance(listed, list) or len(listed) != count:
            raise ModelError(
                f"config.json: layer_types does not name the kind of each of {count} layers", hint=DAMAGED
            )
        if odd := set(map(str, listed)) - set(KINDS):
            raise UnsupportedModelError(
                f"config.json asks for layers of {min(odd)}; edgepack writes {FULL} and {SLIDING}",
                hint=EXPORTED,
            )
        return listed
    if kind in ("qwen2", "qwen3") and config.get("use_sliding_window") and config.get("sliding_window"):
        first = config.get("max_window_layers", 28)
        return [SLIDING if number >= first else FULL for number in range(count)]
    if kind == GEMMA:
        every = size_of(config, "sliding_window_pattern", config.get("_sliding_window_pattern", 6))
        return [SLIDING if (number + 1) % every else FULL for number in range(count)]
    everywhere = kind == "mistral" and config.get("sliding_window") is not None
    return [SLIDING if everywhere else FULL] * count
