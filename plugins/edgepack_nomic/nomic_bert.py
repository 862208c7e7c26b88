"""NomicBertModel as an ONNX graph: rotary positions; SwiGLU without biases (v1), or GELU with biases and experts (v2-moe).

After transformers' ``modeling_nomic_bert.py`` and nomic-ai/nomic-bert-2048's code. Both layouts are read: that of the hub (``Wqkv``,
``fc11``, GPT-2's words in config.json; v2-moe has only that) and that which transformers writes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgepack.api import UnsupportedModelError
from edgepack.api.graphs import (
    Encoder,
    EncoderShape,
    GraphWriter,
    TensorFile,
    TokenVectors,
    activate,
    activation_of,
    add_and_norm,
    additive_mask,
    attend,
    count_places,
    embedding_initializer,
    layer_norm,
    linear,
    matrix,
    open_encoder,
    require_encoder,
    rotary_angles,
    rotary_frequencies,
    rotated,
    size_of,
    split_heads,
    word_vectors,
)
from edgepack_nomic.experts import first_row, read_experts, write_experts

FIXED: Mapping[str, tuple[Any, ...]] = {
    "causal": (False,),
    "hidden_act": ("silu",),
    "parallel_block": (False,),
    "prenorm": (False,),
    "rotary_emb_fraction": (1.0,),
    "rotary_emb_interleaved": (False,),
    "rotary_emb_scale_base": (None,),
    "use_rms_norm": (False, None),
}
"""Settings of the family that are written one way only."""
GATED = "swiglu"
BASE = 1000.0
"""Of the rotation's frequencies."""


@dataclass(frozen=True, kw_only=True)
class Names:
    """Names of a layout's tensors, each after the layer's own prefix."""

    layers: str
    norm: str
    joint: str | None
    """Query, key and value in one matrix [3 · hidden, hidden]."""
    inner: str | None
    """The first matrix of a feed-forward part that is not gated."""
    dense: str
    attention_norm: str
    gate: str
    up: str
    down: str
    ffn_norm: str


HUB = Names(
    layers="encoder.layers",
    norm="emb_ln",
    joint="attn.Wqkv",
    inner="mlp.fc1",
    dense="attn.out_proj",
    attention_norm="norm1",
    gate="mlp.fc12",
    up="mlp.fc11",
    down="mlp.fc2",
    ffn_norm="norm2",
)
TRANSFORMERS = Names(
    layers="layers",
    norm="embeddings.LayerNorm",
    joint=None,
    inner=None,
    dense="self_attn.o_proj",
    attention_norm="post_attention_layernorm",
    gate="mlp.gate_proj",
    up="mlp.up_proj",
    down="mlp.down_proj",
    ffn_norm="post_mlp_layernorm",
)


def read_shape(config: Mapping[str, Any]) -> EncoderShape:
    """Check config.json of a NomicBertModel; raises ``ModelError`` or ``UnsupportedModelError``."""
    require_encoder(config)
    for key, written in FIXED.items():
        if key in config and config[key] not in written:
            raise UnsupportedModelError(
                f"config.json: {key} is {config[key]!r}; edgepack supports NomicBert models with {written[0]!r}",
                hint="export the model to ONNX yourself and use the .onnx file",
            )

    def size(hub: str, own: str) -> int:
        return size_of(config, hub if hub in config else own)

    return EncoderShape(
        vocabulary=size_of(config, "vocab_size"),
        positions=size("n_positions", "max_position_embeddings"),
        types=size_of(config, "type_vocab_size", 2),
        hidden=size("n_embd", "hidden_size"),
        layers=size("n_layer", "num_hidden_layers"),
        heads=size("n_head", "num_attention_heads"),
        inner=size("n_inner", "intermediate_size"),
        activation=_activation(config),
        epsilon=float(config.get("layer_norm_epsilon", config.get("layer_norm_eps", 1e-12))),
    )


def _activation(config: Mapping[str, Any]) -> str:
    """``swiglu``, whose matrices have no biases, or another, whose have all. Raises ``UnsupportedModelError``."""
    said = config.get("activation_function", GATED)
    biased = [bool(config.get(key, False)) for key in ("qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias")]
    if len(set(biased)) > 1 or biased[0] != (said != GATED):
        raise UnsupportedModelError(
            f"config.json asks for {said} with qkv_proj_bias, mlp_fc1_bias and mlp_fc2_bias {biased}; edgepack supports NomicBert "
            f"models with {GATED} and no biases, or with another activation and all",
            hint="export the model to ONNX yourself and use the .onnx file",
        )
    return GATED if said == GATED else activation_of(config, "activation_function")


def rotary_base(config: Mapping[str, Any]) -> float:
    """The base of the rotation's frequencies; raises ``UnsupportedModelError`` for scaled ones."""
    parameters = config.get("rope_parameters") or {}
    if (kind := parameters.get("rope_type", "default")) not in ("default", "dynamic"):
        raise UnsupportedModelError(
            f"config.json requires rotary positions of type {kind!r}",
            hint="edgepack knows those of NomicBert v1, v1.5 and v2",
        )
    said = (config.get("rotary_emb_base"), parameters.get("rope_theta"), config.get("rope_theta"))
    bases = {float(each) for each in said if each is not None} or {BASE}
    if len(bases) > 1 or config.get("rope_scaling"):
        raise UnsupportedModelError(
            f"config.json says rotary positions twice, or scaled ones: {sorted(bases)}, rope_scaling {config.get('rope_scaling')!r}",
            hint="leave the one that the model was trained with",
        )
    return bases.pop()


def write_nomic_bert(config: Mapping[str, Any], weights: TensorFile, writer: GraphWriter) -> TokenVectors:
    """Token vectors, float32 [batch, sequence, hidden size] (``edgepack.api.axes.Architecture``)."""
    shape, experts = read_shape(config), read_experts(config)
    encoder = open_encoder(writer, weights, shape, names=("nomic_bert.", "bert."))
    names = HUB if encoder.tensors.has(f"{HUB.norm}.weight") else TRANSFORMERS
    hidden = _embeddings(encoder, names)
    angles = rotary_angles(writer, count_places(writer), rotary_frequencies(rotary_base(config), shape.head))
    mask = additive_mask(writer)
    first = first_row(writer) if experts is not None else ""
    for number in range(shape.layers):
        part = f"{names.layers}.{number}."
        attended = _attention(encoder, part, names, hidden, angles, mask)
        if experts is not None and experts.are_in(number):
            made = write_experts(encoder, f"{part}mlp.", experts, attended, first)
            hidden = add_and_norm(encoder, part, "mlp.experts", names.ffn_norm, made, attended)
        else:
            hidden = _feed_forward(encoder, part, names, attended)
    return TokenVectors(name=hidden)


def _embeddings(encoder: Encoder, names: Names) -> str:
    writer, shape = encoder.writer, encoder.shape
    words = word_vectors(encoder)
    kinds = embedding_initializer(encoder, "token_type", shape.types)
    # The one type of v2-moe is that of all tokens, whatever a tokenizer says.
    types = kinds if shape.types == 1 else writer.add("Gather", "embeddings.types", kinds, "token_type_ids")
    typed = writer.add("Add", "embeddings.typed", words, types)
    return layer_norm(encoder, names.norm, typed)


def _attention(
    encoder: Encoder, part: str, names: Names, hidden: str, angles: tuple[str, str], mask: str
) -> str:
    writer, shape = encoder.writer, encoder.shape
    weights, biases = _projections(encoder, part, names), _biases(encoder, part, names)

    def heads(kind: str) -> str:
        name = f"{part}attention.{kind}"
        projected = matrix(encoder, name, hidden, weights[kind])
        if kind in biases:
            projected = writer.add(
                "Add", f"{name}.sum", projected, writer.weight(f"{name}.bias", biases[kind])
            )
        return split_heads(encoder, name, projected, [0, 2, 1, 3])

    query = rotated(writer, f"{part}attention.query", heads("query"), angles, shape.head)
    turned = rotated(writer, f"{part}attention.key", heads("key"), angles, shape.head)
    key = writer.add("Transpose", f"{part}attention.key.turned", turned, perm=[0, 1, 3, 2])
    merged = attend(encoder, f"{part}attention.", query, key, heads("value"), mask)
    if biases:
        dense = linear(encoder, part + names.dense, merged, shape.hidden, shape.hidden)
    else:
        weight = encoder.tensors.read(f"{part}{names.dense}.weight", shape.hidden, shape.hidden)
        dense = matrix(encoder, part + names.dense, merged, weight)
    return add_and_norm(encoder, part, names.dense, names.attention_norm, dense, hidden)


def _projections(encoder: Encoder, part: str, names: Names) -> dict[str, np.ndarray]:
    """The matrices [hidden, hidden] of query, key and value."""
    hidden, tensors = encoder.shape.hidden, encoder.tensors
    kinds = ("query", "key", "value")
    if names.joint:
        joint = tensors.read(f"{part}{names.joint}.weight", 3 * hidden, hidden)
        return dict(zip(kinds, np.split(joint, 3), strict=True))
    return {kind: tensors.read(f"{part}self_attn.{kind[0]}_proj.weight", hidden, hidden) for kind in kinds}


def _biases(encoder: Encoder, part: str, names: Names) -> dict[str, np.ndarray]:
    """Those of query, key and value; none with SwiGLU."""
    if encoder.shape.activation == GATED:
        return {}
    if names.joint is None:
        raise UnsupportedModelError(
            f"{encoder.tensors.weights.path.name} is in transformers' layout, which holds NomicBert models with {GATED} only",
            hint="take the weights as they are on the hub",
        )
    joint = encoder.tensors.read(f"{part}{names.joint}.bias", 3 * encoder.shape.hidden)
    return dict(zip(("query", "key", "value"), np.split(joint, 3), strict=True))


def _feed_forward(encoder: Encoder, part: str, names: Names, hidden: str) -> str:
    if encoder.shape.activation == GATED:
        return _gated(encoder, part, names, hidden)
    writer, shape = encoder.writer, encoder.shape
    inner = linear(encoder, f"{part}{names.inner}", hidden, shape.hidden, shape.inner)
    active = activate(writer, shape.activation, f"{part}mlp.", inner)
    outer = linear(encoder, part + names.down, active, shape.inner, shape.hidden)
    return add_and_norm(encoder, part, names.down, names.ffn_norm, outer, hidden)


def _gated(encoder: Encoder, part: str, names: Names, hidden: str) -> str:
    """down(silu(gate) · up)."""
    writer, shape, tensors = encoder.writer, encoder.shape, encoder.tensors

    def weight(name: str, outputs: int, inputs: int) -> np.ndarray:
        return tensors.read(f"{part}{name}.weight", outputs, inputs)

    gate = matrix(encoder, part + names.gate, hidden, weight(names.gate, shape.inner, shape.hidden))
    up = matrix(encoder, part + names.up, hidden, weight(names.up, shape.inner, shape.hidden))
    sigmoid = writer.add("Sigmoid", f"{part}mlp.sigmoid", gate)
    active = writer.add("Mul", f"{part}mlp.silu", gate, sigmoid)
    gated = writer.add("Mul", f"{part}mlp.gated", active, up)
    down = matrix(encoder, part + names.down, gated, weight(names.down, shape.hidden, shape.inner))
    return add_and_norm(encoder, part, names.down, names.ffn_norm, down, hidden)
