"""ModernBertModel as an ONNX graph: rotary positions, GeGLU, and layers that look at a window of tokens between those that see all.

After transformers' ``modeling_modernbert.py``; gte-modernbert, modernbert-embed and granite-embedding-r2 are this architecture.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgepack.errors import ModelError, UnsupportedModelError
from edgepack.models.export.encoder import (
    Encoder,
    EncoderShape,
    activation_of,
    additive_mask,
    attend,
    matrix,
    open_encoder,
    require_encoder,
    split_heads,
)
from edgepack.models.export.rotary import (
    count_places,
    local_window,
    rotary_angles,
    rotary_base,
    rotary_frequencies,
    rotated,
)
from edgepack.models.graph.activations import activate
from edgepack.models.graph.writer import GraphWriter, TokenVectors
from edgepack.models.read.documents import number_of, size_of
from edgepack.models.read.safetensors import Array, TensorFile

WORDS = "embeddings.tok_embeddings.weight"
GLOBAL, LOCAL = "full_attention", "sliding_attention"
BASES = {GLOBAL: ("global_rope_theta", 160_000.0), LOCAL: ("local_rope_theta", 10_000.0)}
"""Kind of layer → what older versions' config.json calls its base, and what it is where nothing says it."""
BIASES = {"norm_bias": "final_norm", "attention_bias": "layers.0.attn.Wo", "mlp_bias": "layers.0.mlp.Wo"}
"""Settings of config.json → a part that has a bias then."""


@dataclass(frozen=True, kw_only=True)
class Attention:
    """Inputs of attention that layers of one kind share."""

    angles: tuple[str, str]
    bias: str
    """Added to the scores: what hides padding, and tokens outside of the window."""


def write_modernbert(config: Mapping[str, Any], weights: TensorFile, writer: GraphWriter) -> TokenVectors:
    """Token vectors, float32 [batch, sequence, hidden_size] (``edgepack.api.axes.Architecture``)."""
    shape = read_shape(config)
    kinds = layer_kinds(config, shape.layers)
    encoder = open_encoder(writer, weights, shape, names=(), words=WORDS)
    _require_biases(config, encoder)
    table = writer.weight(WORDS, encoder.tensors.read(WORDS, shape.vocabulary, shape.hidden))
    hidden = _norm(encoder, "embeddings.norm", writer.add("Gather", "embeddings.words", table, "input_ids"))
    attentions = _attentions(encoder, config, kinds)
    for number, kind in enumerate(kinds):
        hidden = _layer(encoder, number, hidden, attentions[kind])
    return TokenVectors(name=_norm(encoder, "final_norm", hidden))


def read_shape(config: Mapping[str, Any]) -> EncoderShape:
    """Check config.json of a ModernBertModel; raises ``ModelError`` or ``UnsupportedModelError``."""
    require_encoder(config)
    return EncoderShape(
        vocabulary=size_of(config, "vocab_size"),
        positions=size_of(config, "max_position_embeddings", 8192),
        types=1,
        hidden=size_of(config, "hidden_size"),
        layers=size_of(config, "num_hidden_layers"),
        heads=size_of(config, "num_attention_heads"),
        inner=size_of(config, "intermediate_size"),
        activation=activation_of(config, "hidden_activation"),
        epsilon=number_of(config, "norm_eps", 1e-5),
    )


def layer_kinds(config: Mapping[str, Any], layers: int) -> Sequence[str]:
    """``full_attention`` or ``sliding_attention`` for each layer: as listed, or one of so many is full, the first of them."""
    listed = config.get("layer_types")
    if listed is None:
        every = size_of(config, "global_attn_every_n_layers", 3)
        return [LOCAL if number % every else GLOBAL for number in range(layers)]
    if not isinstance(listed, list) or len(listed) != layers:
        raise ModelError(
            f"config.json: layer_types does not name the kind of each of {layers} layers",
            hint="get config.json again from where the weights come from",
        )
    if odd := set(map(str, listed)) - {GLOBAL, LOCAL}:
        raise UnsupportedModelError(
            f"config.json asks for layers of {min(odd)}; edgepack writes {GLOBAL} and {LOCAL}",
            hint="export the model to ONNX yourself and use the .onnx file",
        )
    return listed


def _attentions(encoder: Encoder, config: Mapping[str, Any], kinds: Sequence[str]) -> dict[str, Attention]:
    writer = encoder.writer
    places, padding = count_places(writer), additive_mask(writer)
    found = {}
    for kind in sorted(set(kinds)):
        bias = padding
        if kind == LOCAL:
            # A window is said by its whole width.
            window = local_window(writer, places, _reach(config))
            bias = writer.add("Add", "window.masked", window, padding)
        frequencies = rotary_frequencies(_base(config, kind), encoder.shape.head)
        angles = rotary_angles(writer, places, frequencies, part=f"rotary.{kind}.")
        found[kind] = Attention(angles=angles, bias=bias)
    return found


def _reach(config: Mapping[str, Any]) -> int:
    """Tokens to each side that local attention sees. Raises ``UnsupportedModelError`` where releases of transformers see others."""
    reach, said = size_of(config, "local_attention", 128) // 2, config.get("sliding_window")
    if said not in (None, reach):
        raise UnsupportedModelError(
            f"config.json says sliding_window {said!r}, which transformers 5 takes, and local_attention {2 * reach}, which release 4 does",
            hint="remove the one that the model was not trained with",
        )
    return reach


def _base(config: Mapping[str, Any], kind: str) -> float:
    """Base of a kind of layers: its own, else that of the layers that see all."""
    key, default = BASES[kind]
    said = config.get(key, default)
    if said is None and kind == LOCAL:
        said = config.get(BASES[GLOBAL][0], BASES[GLOBAL][1])
    parameters = config.get("rope_parameters") or {}
    scaled = config.get("rope_scaling")
    return rotary_base(scaled if scaled else parameters.get(kind), said)


def _require_biases(config: Mapping[str, Any], encoder: Encoder) -> None:
    for key, part in BIASES.items():
        if bool(config.get(key)) != encoder.tensors.has(f"{part}.bias"):
            said = "has" if encoder.tensors.has(f"{part}.bias") else "has no"
            raise ModelError(
                f"config.json: {key} is {config.get(key, False)!r}, {encoder.tensors.weights.path.name} {said} {part}.bias",
                hint="config.json and the weights are of different models",
            )


def _layer(encoder: Encoder, number: int, hidden: str, attention: Attention) -> str:
    """Each half takes what was normalised, and is added to what was not; the first layer's half comes normalised."""
    writer, part = encoder.writer, f"layers.{number}."
    normed = _norm(encoder, f"{part}attn_norm", hidden) if number else hidden
    attended = writer.add("Add", f"{part}attn.residual", _attended(encoder, part, normed, attention), hidden)
    inner = _feed_forward(encoder, part, _norm(encoder, f"{part}mlp_norm", attended))
    return writer.add("Add", f"{part}mlp.residual", inner, attended)


def _attended(encoder: Encoder, part: str, hidden: str, attention: Attention) -> str:
    writer, shape = encoder.writer, encoder.shape
    weights = _split(encoder, f"{part}attn.Wqkv", 3 * shape.hidden, shape.hidden, parts=3)

    def heads(place: int, name: str) -> str:
        projected = _linear(encoder, f"{part}attn.{name}", hidden, *weights[place])
        return split_heads(encoder, f"{part}attn.{name}", projected, [0, 2, 1, 3])

    def turned(place: int, name: str) -> str:
        return rotated(writer, f"{part}attn.{name}", heads(place, name), attention.angles, shape.head)

    query = turned(0, "query")
    key = writer.add("Transpose", f"{part}attn.key.turned", turned(1, "key"), perm=[0, 1, 3, 2])
    merged = attend(encoder, f"{part}attn.", query, key, heads(2, "value"), attention.bias)
    return _linear(
        encoder, f"{part}attn.Wo", merged, *_split(encoder, f"{part}attn.Wo", shape.hidden, shape.hidden)[0]
    )


def _feed_forward(encoder: Encoder, part: str, hidden: str) -> str:
    """Wo(activation(input) · gate)."""
    writer, shape = encoder.writer, encoder.shape
    active, gate = _split(encoder, f"{part}mlp.Wi", 2 * shape.inner, shape.hidden, parts=2)
    taken = activate(
        writer, shape.activation, f"{part}mlp.", _linear(encoder, f"{part}mlp.input", hidden, *active)
    )
    gated = writer.add("Mul", f"{part}mlp.gated", taken, _linear(encoder, f"{part}mlp.gate", hidden, *gate))
    outer = _split(encoder, f"{part}mlp.Wo", shape.hidden, shape.inner)[0]
    return _linear(encoder, f"{part}mlp.Wo", gated, *outer)


def _split(
    encoder: Encoder, name: str, outputs: int, inputs: int, *, parts: int = 1
) -> list[tuple[Array, Array | None]]:
    """A layer's matrix and bias, in as many parts of the same number of outputs."""
    tensors = encoder.tensors
    matrices = np.split(tensors.read(f"{name}.weight", outputs, inputs), parts)
    if not tensors.has(f"{name}.bias"):
        return [(each, None) for each in matrices]
    return list(zip(matrices, np.split(tensors.read(f"{name}.bias", outputs), parts), strict=True))


def _linear(encoder: Encoder, name: str, vector: str, weight: Array, bias: Array | None) -> str:
    product = matrix(encoder, name, vector, weight)
    if bias is None:
        return product
    return encoder.writer.add("Add", f"{name}.sum", product, encoder.writer.weight(f"{name}.bias", bias))


def _norm(encoder: Encoder, name: str, vector: str) -> str:
    """LayerNorm; without a bias one of zeros, which fusions ask for."""
    writer, hidden = encoder.writer, encoder.shape.hidden
    gamma = writer.weight(f"{name}.weight", encoder.tensors.read(f"{name}.weight", hidden))
    if encoder.tensors.has(f"{name}.bias"):
        beta = writer.weight(f"{name}.bias", encoder.tensors.read(f"{name}.bias", hidden))
    else:
        beta = writer.weight("norm.no_bias", np.zeros(hidden, np.float32))
    return writer.add("LayerNormalization", name, vector, gamma, beta, axis=-1, epsilon=encoder.shape.epsilon)
