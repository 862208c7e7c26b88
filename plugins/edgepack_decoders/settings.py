"""What config.json says of a decoder, checked, in one form for all families.

After transformers' ``configuration_*.py``, and both of their ways to write rotary positions and windows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgepack.api import ModelError, UnsupportedModelError
from edgepack.api.graphs import activation_of, rotary_base, size_of

FULL, SLIDING = "full_attention", "sliding_attention"
GEMMA, GEMMA2 = "gemma3_text", "embedding_gemma2_text"
KINDS = (FULL, SLIDING)
DAMAGED = "get config.json again from where the weights come from"
EXPORTED = "export the model to ONNX yourself and use the .onnx file"


@dataclass(frozen=True, kw_only=True)
class LayerSettings:
    """Settings of one layer: what it looks at, and with what."""

    base: float
    """Of the rotation's frequencies."""
    reach: int | None
    """How many places away a token may be; ``None``: any number."""
    head: int
    key_heads: int
    """Heads of key and value, each shared by as many of the query's."""
    turned: float = 1.0
    """The share of a head's pairs that is rotated, the fastest of them."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A decoder's shape, and what its family does its own way."""

    vocabulary: int
    hidden: int
    heads: int
    inner: int
    layers: Sequence[LayerSettings]
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
    float32_only: str = ""
    """Why the family must not be computed in float16."""
    value_norms: bool = False
    """Whether each head of value is normalised, too, without weights."""
    layer_inputs: int = 0
    """Numbers that each layer is given of the word's own vector, beside what the layer before has made."""
    projected: int = 0
    """Numbers of a token's vector, where a matrix follows the last norm."""

    def __post_init__(self) -> None:
        for layer in self.layers:
            if self.heads % layer.key_heads:
                raise ModelError(
                    f"config.json: {self.heads} attention heads cannot share {layer.key_heads} heads of keys",
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
    if config.get("attn_logit_softcapping"):
        raise UnsupportedModelError(
            "config.json asks for capped scores (attn_logit_softcapping), which edgepack does not write",
            hint=EXPORTED,
        )
    gemma, second = kind in (GEMMA, GEMMA2), kind == GEMMA2
    hidden = size_of(config, "hidden_size")
    attention, inner = _biases(config, kind)
    return Settings(
        vocabulary=size_of(config, "vocab_size"),
        hidden=hidden,
        heads=size_of(config, "num_attention_heads"),
        inner=size_of(config, "intermediate_size"),
        layers=_layers(config, kind),
        activation=_activation(config, kind),
        epsilon=float(config.get("rms_norm_eps", 1e-6)),
        causal=not (second or (gemma and config.get("use_bidirectional_attention"))),
        scale=_scale(config, kind),
        head_norms=kind == "qwen3" or gemma,
        embedding_scale=hidden**0.5 if gemma else 1.0,
        norm_offset=1.0 if kind == GEMMA else 0.0,
        norms_after=gemma,
        biases={
            "self_attn.q_proj": attention,
            "self_attn.o_proj": attention and kind != "qwen2",
            "mlp.down_proj": inner,
        },
        float32_only="activations of EmbeddingGemma leave its range" if gemma else "",
        value_norms=second,
        layer_inputs=size_of(config, "hidden_size_per_layer_input", 512) if second else 0,
        projected=size_of(config, "embedding_dim", 768) if second else 0,
    )


def _scale(config: Mapping[str, Any], kind: str) -> float:
    """Factor of the scores; EmbeddingGemma 2 leaves that to the norms of its heads."""
    if kind == GEMMA2:
        return 1.0
    numbers = size_of(config, "query_pre_attn_scalar", 256) if kind == GEMMA else _head(config, kind)
    return float(numbers**-0.5)


def _head(config: Mapping[str, Any], kind: str) -> int:
    """Numbers of a head, where layers do not differ in it."""
    if kind in (GEMMA, GEMMA2) or config.get("head_dim"):
        return size_of(config, "head_dim", 256 if kind in (GEMMA, GEMMA2) else None)
    return size_of(config, "hidden_size") // size_of(config, "num_attention_heads")


def _key_heads(config: Mapping[str, Any]) -> int:
    key = "num_attention_heads" if config.get("num_key_value_heads") is None else "num_key_value_heads"
    return size_of(config, key)


def _biases(config: Mapping[str, Any], kind: str) -> tuple[bool, bool]:
    """Biases of attention's and of the feed-forward part's matrices."""
    attention = kind == "qwen2" or (kind != "mistral" and bool(config.get("attention_bias")))
    return attention, kind == "llama" and bool(config.get("mlp_bias"))


def _activation(config: Mapping[str, Any], kind: str) -> str:
    key, usual = (
        ("hidden_activation", "gelu_pytorch_tanh") if kind in (GEMMA, GEMMA2) else ("hidden_act", "silu")
    )
    if config.get(key, usual) == "silu":
        return "silu"
    return activation_of({key: usual, **config}, key)


def _layers(config: Mapping[str, Any], kind: str) -> list[LayerSettings]:
    count = size_of(config, "num_hidden_layers")
    if kind in (GEMMA, GEMMA2):
        return _gemma_layers(config, kind, count)
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
    head, key_heads = _head(config, kind), _key_heads(config)
    return [
        LayerSettings(base=base, reach=window if each == SLIDING else None, head=head, key_heads=key_heads)
        for each in kinds
    ]


def _gemma_layers(config: Mapping[str, Any], kind: str, count: int) -> list[LayerSettings]:
    """Two bases, and a window that is said by its whole width where tokens see both ways, or by its reach (the second)."""
    parameters = config.get("rope_parameters") or {}
    own = {FULL: ("rope_theta", 1_000_000.0), SLIDING: ("rope_local_base_freq", 10_000.0)}
    scaled = {FULL: config.get("rope_scaling")}
    said = {each: scaled.get(each) or parameters.get(each) or {} for each in own}
    turned = {each: _turned_share(said[each]) for each in own}
    bases = {
        each: rotary_base(
            {**said[each], "rope_type": "default"} if turned[each] is not None else said[each],
            config.get(key, default),
        )
        for each, (key, default) in own.items()
    }
    if kind == GEMMA2:
        reach = size_of(config, "sliding_window", 512)
    else:
        window = size_of(config, "sliding_window", 4096)
        reach = window // 2 if config.get("use_bidirectional_attention") else window - 1
    return [
        LayerSettings(
            base=bases[each],
            reach=reach if each == SLIDING else None,
            head=_head(own_config, kind),
            key_heads=_key_heads(own_config),
            turned=turned[each] or 1.0,
        )
        for number, each in enumerate(_kinds(config, kind, count))
        for own_config in [_of_layer(config, kind, number, each)]
    ]


def _turned_share(said: Mapping[str, Any]) -> float | None:
    """The share of pairs that positions of type "proportional" rotate; ``None`` for another type."""
    if said.get("rope_type") != "proportional":
        return None
    share, factor = said.get("partial_rotary_factor", 1.0), said.get("factor", 1.0)
    if factor != 1.0 or isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        raise UnsupportedModelError(
            f"config.json asks for proportional rotary positions of share {share!r} and factor {factor!r}; "
            "edgepack writes shares up to 1, and factor 1",
            hint=EXPORTED,
        )
    return float(share)


def _of_layer(config: Mapping[str, Any], kind: str, number: int, layer: str) -> Mapping[str, Any]:
    """config.json as it holds for one layer; of EmbeddingGemma 2, layers that see all have other heads."""
    if kind != GEMMA2:
        return config
    differing = config.get("per_layer_config")
    if isinstance(differing, dict):
        # Numbers are written with as many digits as the largest.
        own = {int(key): value for key, value in differing.items() if str(key).isdigit()}.get(number)
        return {**config, **own} if isinstance(own, dict) else config
    if layer == SLIDING:
        return config
    head, key_heads = config.get("global_head_dim", 512), config.get("num_global_key_value_heads", 1)
    return {**config, "head_dim": head, "num_key_value_heads": key_heads}


def _kinds(config: Mapping[str, Any], kind: str, count: int) -> Sequence[str]:
    """``full_attention`` or ``sliding_attention`` for each layer."""
    listed = config.get("layer_types")
    if kind in ("qwen2", "qwen3", GEMMA, GEMMA2) and listed is not None:
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
    if kind in (GEMMA, GEMMA2):
        every = size_of(config, "sliding_window_pattern", config.get("_sliding_window_pattern", 6))
        kinds = [SLIDING if (number + 1) % every else FULL for number in range(count)]
        return [*kinds[:-1], FULL] if kind == GEMMA2 else kinds
    everywhere = kind == "mistral" and config.get("sliding_window") is not None
    return [SLIDING if everywhere else FULL] * count
